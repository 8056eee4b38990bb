"""Batch: the tensors of one training step, by output name."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import torch
from torch.utils import _pytree as pytree
from torch.utils.data._utils.collate import default_collate_fn_map

from fastload.batch.display import batch_html, batch_text, bytes_of
from fastload.batch.hints import COLLATED, OF_BATCH, ROWS, ROWS_BY_MASK, refuse_dtype
from fastload.batch.packed_rows import of_whole_batch, rows_of_entry, sliced_edges
from fastload.batch.packing import pack, unpack
from fastload.batch.ragged import Ragged, own_rows
from fastload.batch.tensor_views import deep_copied
from fastload.runtime.hints import missing_attribute, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from fastload.batch.origin import BatchOrigin


class Batch(dict[str, Any]):
    """A dict of output name -> Tensor (B, ...) or Ragged of B rows.

    Of packed rows (see `Pack`), `<out>__cu_seqlens` and `<out>__max_seqlen` describe the batch as a
    whole, and have no entry for each row.

    Example:
        batch = next(iter(ds))
        batch["label"].float().mean()
        batch.to_arrow().schema.names  # ["f1", "label"]

    The tensors of one batch share one buffer, which lives until the batch and the last of its
    tensors have died. Copies, pickles and pytree maps of a Batch keep the batch's position in the
    epoch, which `FastParquetDataset.state_dict(after=batch)` reads.

    Args:
        items: items as dict takes them.
        position: position of the batch in the epoch; only the dataset interprets the position.
    """

    # _origin: the memory of the tensors, for code that sends or copies the memory as a whole.
    __slots__ = ("__weakref__", "_origin", "_position")

    def __init__(
        self, items: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), position: object = None
    ) -> None:
        super().__init__(items)
        self._position = position
        self._origin: BatchOrigin | None = None

    @property
    def rows(self) -> int:
        """Number of rows in the batch; len(batch) is the number of outputs, as for any dict.

        A batch of a dataset with `pack` has packed rows. Entries without rows, such as numbers and
        tensors of no dimension, do not count.
        """
        whole = of_whole_batch(self)
        for name, value in self.items():
            rows = None if name in whole else rows_of_entry(value)
            if rows is not None:
                return rows
        return 0

    @property
    def source(self) -> str | None:
        """Name of the source of a `fastload.mix` from which the batch comes; else None."""
        return getattr(self._position, "source", None)

    @property
    def nbytes(self) -> int:
        """Number of bytes of all values, on any device.

        A sparse tensor counts with its values and their indices.
        """
        return sum(map(bytes_of, self.values()))

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Batch:
        """Return the same batch on `device`; values already on `device` are shared, not copied.

        Args:
            device: device, as torch takes it.
            non_blocking: do not wait for the copies. Copies overlap with other work only if they
                read pinned memory.

        Raises:
            TypeError: `device` is a dtype. Outputs have dtypes of their own.
        """
        refuse_dtype(device, non_blocking)
        return self._map("to", device, non_blocking=non_blocking)

    def pin_memory(self) -> Batch:
        """Return a copy in page-locked memory.

        Raises:
            RuntimeError: torch finds no accelerator to pin for.
        """
        return self._map("pin_memory")

    def clone(self) -> Batch:
        """Return a copy whose values have memory of their own, so that no buffer stays alive."""
        return self._map("clone")

    def slice(self, start: int, stop: int | None = None) -> Batch:
        """Return the rows [start, stop) of the batch, which share its memory.

        `<out>__cu_seqlens` and `<out>__max_seqlen` of packed rows are computed again for the slice.
        Entries without rows, such as numbers and tensors of no dimension, stay as they are.

        Args:
            start: number of the first row; a negative number counts from the end.
            stop: number of the row after the last one; None = all rows that follow.
        """
        first, end, _ = slice(start, stop).indices(self.rows)
        rows, whole = slice(first, max(first, end)), sliced_edges(self, first, max(first, end))
        values = {
            name: whole[name] if name in whole else _sliced(value, rows)
            for name, value in self.items()
        }
        return Batch(values, self._position)

    def iter_rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows, each a dict of scalars and tensors that share the batch's memory.

        A value is a tensor, for a scalar one of no dimension; a str or bytes for a Ragged of these;
        and a Ragged for nested lists. Entries without rows are left out, and so are
        `<out>__cu_seqlens` and `<out>__max_seqlen` of packed rows. To read rows by number, or to
        have DataLoader collate them, see `FastParquetDataset.by_index`.
        """
        whole = of_whole_batch(self)
        with_rows = [n for n, v in self.items() if n not in whole and rows_of_entry(v) is not None]
        for row in zip(*(list(self[name]) for name in with_rows), strict=True):
            yield dict(zip(with_rows, row, strict=True))

    def to_arrow(self) -> pa.RecordBatch:
        """Return the batch as an Arrow record batch, which shares memory where it can.

        A tensor (B, n) becomes lists of the fixed size n, a Ragged large lists, strings or binary,
        and bfloat16 becomes float32. `<out>__cu_seqlens` and `<out>__max_seqlen` of packed rows
        are left out, because they have no entry for each row.

        Raises:
            TypeError: A value is neither a tensor with rows nor a Ragged, is a nested or sparse
                tensor, or has a dtype that Arrow lacks.
            ValueError: Values have different numbers of rows.
        """
        whole = of_whole_batch(self)
        arrays = {n: arrow_array(value, n) for n, value in self.items() if n not in whole}
        lengths = {name: len(array) for name, array in arrays.items()}
        first = next(iter(lengths), "")
        for name, length in lengths.items():
            if length != lengths[first]:
                raise ValueError(
                    f"Expected as many rows in output `{name}` as in `{first}`, {lengths[first]}, "
                    f"got {length}"
                )
        return pa.RecordBatch.from_pydict(arrays)

    def to_pandas(self) -> Any:
        """Return the batch as a pandas.DataFrame of B rows; lists become NumPy arrays.

        The outputs are those of `to_arrow`.

        Raises:
            ImportError: pandas is not installed.
            TypeError: A value is neither a tensor with rows nor a Ragged, is a nested or sparse
                tensor, or has a dtype that Arrow lacks.
            ValueError: Values have different numbers of rows.
        """
        return self.to_arrow().to_pandas()

    def copy(self) -> Batch:
        """Return a shallow copy: a new Batch of the same values."""
        duplicate = Batch(self, self._position)
        duplicate._origin = self._origin
        return duplicate

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Batch:
        duplicate = Batch((), self._position)
        memo[id(self)] = duplicate
        for name, value in self.items():
            duplicate[name] = deep_copied(value, memo)
        return duplicate

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, (pack(self), self._position)

    def __getitem__(self, name: str) -> Any:
        try:
            return super().__getitem__(name)
        except TypeError:  # a slice or a list, which has no hash
            raise TypeError(f"Expected the name of an output, got {name!r}: {ROWS}") from None

    if TYPE_CHECKING:  # as batch[name], without the None of dict.get

        def get(self, name: str, default: Any = None, /) -> Any: ...  # noqa: D102

    if not TYPE_CHECKING:  # type checkers refuse unknown attributes themselves

        def __getattr__(self, name: str) -> Any:
            output = f"write batch[{name!r}] for the output"
            return missing_attribute(self, name, default=output if name in self else OF_BATCH)

    def __missing__(self, name: object) -> NoReturn:
        if isinstance(name, torch.Tensor) and name.dim():
            got = f"a Tensor {tuple(name.shape)}"
            raise KeyError(f"Expected the name of an output, got {got}: {ROWS_BY_MASK}")
        if not isinstance(name, str):
            error = TypeError if isinstance(name, slice) else KeyError
            # torch's default_collate looks at item 0 of what a DataLoader gives to its collate_fn.
            advice = f"{ROWS}{COLLATED}" if name == 0 else ROWS
            raise error(f"Expected the name of an output, got {name!r}: {advice}")
        fields = [repr(key) for key in self if key.startswith(f"{name}.")]
        if fields:
            raise KeyError(
                f"{name!r} is a struct with one output for each field: use {', '.join(fields)}"
            )
        close = nearest(name, self) or list(self)[:8]
        names = ", ".join(map(repr, close))
        raise KeyError(f"no output {name!r}" + (f"; similar outputs: {names}" if names else ""))

    def __repr__(self) -> str:
        return batch_text(self, self.rows)

    def _repr_html_(self) -> str:
        return batch_html(self, self.rows)

    def _map(self, method: str, *args: Any, **kwargs: Any) -> Batch:
        """Call a method of each value; values without the method (a user's own entries) stay."""
        mapped = Batch((), self._position)
        for name, value in self.items():
            call: Callable[..., Any] | None = getattr(value, method, None)
            mapped[name] = value if call is None else call(*args, **kwargs)
        return mapped


def window_of(item: object) -> int | None:
    """Return the window of the pass in which a batch's last row lies; None if it is unknown."""
    origin = item._origin if isinstance(item, Batch) else None  # noqa: SLF001
    return None if origin is None else getattr(origin.raw, "window", None)


def _sliced(value: Any, rows: slice) -> Any:
    """Return the rows of an entry; an entry without rows stays as it is."""
    return value if rows_of_entry(value) is None else value[rows]


def _load(packed: Any, position: object) -> Batch:
    return Batch(unpack(packed), position)


def _refuse_collation(_batch: list[Batch], **_collation: object) -> NoReturn:
    raise TypeError(
        "Expected rows to collate, got Batches. DataLoader(ds) would batch batches; write "
        "DataLoader(ds, batch_size=None): the dataset's own batch_size sets the rows of a batch. "
        "Without a DataLoader, torch.cat([batch[name] for batch in batches]) joins an output"
    )


@dataclass(frozen=True, slots=True)
class _Context:
    """Pytree context of a batch: batches with the same names have the same tree."""

    names: tuple[str, ...]
    position: object = field(default=None, compare=False)


def _flatten(batch: Batch) -> tuple[list[Any], _Context]:
    return list(batch.values()), _Context(tuple(batch), batch._position)  # noqa: SLF001


def _flatten_with_keys(
    batch: Batch,
) -> tuple[list[tuple[pytree.KeyEntry, Any]], _Context]:
    values, context = _flatten(batch)
    keys: list[pytree.KeyEntry] = [pytree.MappingKey(name) for name in context.names]
    return list(zip(keys, values, strict=True)), context


def _unflatten(values: Iterable[Any], context: _Context) -> Batch:
    return Batch(zip(context.names, values, strict=True), context.position)


default_collate_fn_map[Batch] = _refuse_collation

# Lets torch.load(weights_only=True) load a Batch, as it loads a dict of tensors.
torch.serialization.add_safe_globals([_load])

pytree.register_pytree_node(
    Batch,
    _flatten,
    _unflatten,
    serialized_type_name="fastload.Batch",
    to_dumpable_context=lambda context: list(context.names),
    from_dumpable_context=lambda names: _Context(tuple(names)),
    flatten_with_keys_fn=_flatten_with_keys,
)


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
