"""Batches as Arrow record batches."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import torch

from fastload.batch.packed_rows import of_whole_batch
from fastload.batch.ragged import Ragged, own_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["record_batch"]


def record_batch(batch: Mapping[str, Any]) -> pa.RecordBatch:
    """Return the values of a batch as a record batch, which shares memory where it can.

    Outputs that describe packed rows as a whole are left out.

    Args:
        batch: the values by output name: tensors (B, ...) and Raggeds of B rows, on any device.

    Raises:
        TypeError: a value is neither a tensor with rows nor a Ragged, is a nested or sparse
            tensor, or has a dtype that Arrow lacks.
        ValueError: values have different numbers of rows.
    """
    whole = of_whole_batch(batch)
    arrays = {n: arrow_array(value, n) for n, value in batch.items() if n not in whole}
    lengths = {name: len(array) for name, array in arrays.items()}
    first = next(iter(lengths), "")
    for name, length in lengths.items():
        if length != lengths[first]:
            raise ValueError(
                f"Expected as many rows in output `{name}` as in `{first}`, {lengths[first]}, "
                f"got {length}"
            )
    return pa.RecordBatch.from_pydict(arrays)


def arrow_array(value: object, name: str = "") -> pa.Array:
    """Return a tensor (B, ...) or a Ragged of B rows as an Arrow array of B values.

    A tensor (B, n) becomes lists of the fixed size n, a Ragged large lists, strings or binary, and
    bfloat16 becomes float32.

    Args:
        value: the tensor or Ragged, on any device.
        name: name of the output, for the message of an error.

    Raises:
        TypeError: the value is neither a tensor with rows nor a Ragged, is a nested or sparse
            tensor, or has a dtype that Arrow lacks.
    """
    if isinstance(value, Ragged):
        own = own_rows(value.to("cpu"), copies=False)
        offsets = pa.py_buffer(own.offsets.contiguous().numpy())
        if own.kind is None:
            items = arrow_array(own.values, name)
            kind = pa.large_list(items.type)
            return pa.Array.from_buffers(kind, len(own), [None, offsets], children=[items])
        assert isinstance(own.values, torch.Tensor)
        text = pa.py_buffer(own.values.contiguous().numpy())
        kind = pa.large_string() if own.kind == "str" else pa.large_binary()
        return pa.Array.from_buffers(kind, len(own), [None, offsets, text])
    if not isinstance(value, torch.Tensor):
        raise TypeError(
            f"Expected a Tensor or Ragged as output `{name}`, got {type(value).__name__}: write "
            "torch.from_numpy(array) for an array of numbers; to add strings, times or other "
            f"Arrow values, write batch.to_arrow().append_column({name!r}, pyarrow.array(values))"
        )
    if value.layout != torch.strided or not value.dim():
        kind = f"of {value.layout}" if value.dim() else "without rows"
        raise TypeError(
            f"Expected a dense Tensor of rows or a Ragged as output `{name}`, got a tensor {kind}: "
            "remove the output from the batch, batch.pop(name), or replace its value"
        )
    dense = value.detach().to("cpu").contiguous()
    if dense.dtype == torch.bfloat16:
        dense = dense.float()
    try:
        array = pa.array(dense.reshape(-1).numpy())
    except (pa.ArrowNotImplementedError, TypeError) as error:
        cast = "torch.view_as_real(value)" if dense.dtype.is_complex else "value.float()"
        raise TypeError(
            f"Expected a dtype that Arrow has as output `{name}`, got {dense.dtype}: replace the "
            f"value, such as by {cast}, or remove the output from the batch, batch.pop(name)"
        ) from error
    for level in range(dense.dim() - 1, 0, -1):
        lists = math.prod(dense.shape[:level])
        kind = pa.list_(array.type, dense.shape[level])  # from_arrays refuses the length 0
        array = pa.Array.from_buffers(kind, lists, [None], children=[array])
    return array
