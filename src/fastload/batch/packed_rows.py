"""The entries of a batch that describe it as a whole, not row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from fastload.batch.ragged import Ragged

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["of_whole_batch", "rows_of_entry", "sliced_edges"]

_EDGES, _LONGEST, _DOCUMENT = "__cu_seqlens", "__max_seqlen", "__document"


def of_whole_batch(values: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the outputs that have no entry for each packed row.

    These are `<out>__cu_seqlens` and `<out>__max_seqlen`, where the batch has the tensor
    `<out>__document` (R, T).

    Args:
        values: the values of a batch by output name.
    """
    return frozenset(
        name
        for name in values
        for ending in (_EDGES, _LONGEST)
        if name.endswith(ending) and _documents(values, name.removesuffix(ending)) is not None
    )


def rows_of_entry(value: Any) -> int | None:
    """Return the number of rows of an entry; None if it has no rows.

    Entries of the user may be numbers, texts or tensors of no dimension, which have no rows.
    """
    if isinstance(value, Ragged | list | tuple):
        return len(value)
    shape = getattr(value, "shape", ())
    return int(shape[0]) if shape else None


def sliced_edges(values: Mapping[str, Any], start: int, stop: int) -> dict[str, torch.Tensor]:
    """Return the outputs of the whole batch for the packed rows [start, stop).

    Args:
        values: the values of a batch by output name.
        start: number of the first packed row.
        stop: number of the packed row after the last one, at least `start`.
    """
    sliced: dict[str, torch.Tensor] = {}
    for name in of_whole_batch(values):
        output = name.removesuffix(_EDGES).removesuffix(_LONGEST)
        documents = _documents(values, output)
        assert documents is not None
        edges = _edges_within(values.get(output + _EDGES), documents, start, stop)
        if name.endswith(_EDGES):
            sliced[name] = edges
        else:
            lengths = torch.diff(edges)
            sliced[name] = lengths.max() if len(lengths) else edges.new_zeros(())
    return sliced


def _edges_within(
    edges: torch.Tensor | None, documents: torch.Tensor, start: int, stop: int
) -> torch.Tensor:
    """Return the edges of the documents of the packed rows [start, stop).

    Args:
        edges: the edges of the documents of all packed rows; None = find them in `documents`.
        documents: number of each token's document in its row, (R, T).
        start: number of the first packed row.
        stop: number of the packed row after the last one.
    """
    length = documents.shape[1]
    if edges is None:
        begins = torch.ones_like(documents, dtype=torch.bool)
        begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
        found = begins.flatten().nonzero().flatten()
        edges = torch.cat([found, found.new_tensor([documents.numel()])]).to(torch.int32)
    # Every packed row begins with a document, so both ends of the range are edges.
    within = (edges >= start * length) & (edges <= stop * length)
    return edges[within] - start * length


def _documents(values: Mapping[str, Any], output: str) -> torch.Tensor | None:
    documents = values.get(output + _DOCUMENT)
    if isinstance(documents, torch.Tensor) and documents.dim() == 2:
        return documents
    return None
