"""Batch: the tensors of one step, by output name."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch.utils import _pytree as pytree
from torch.utils.data._utils.collate import default_collate_fn_map

from fastload.batch.packing import pack, unpack
from fastload.batch.ragged import Ragged
from fastload.batch.ragged_parts import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


@dataclass(frozen=True, slots=True)
class BatchOrigin:
    """The memory that the tensors of a batch came in.

    block: all of it, as a uint8 Tensor.
    raw: what it lies in.
    sender: can send it to another process (`transport.Sender`); None if nobody can.
    values: by name what was written there, for the sender.
    """

    block: torch.Tensor
    raw: Any
    sender: Any = None
    values: dict[str, Any] = field(default_factory=dict)


class Batch(dict[str, Any]):
    """A dict of output name -> Tensor (B, ...) or Ragged of B rows.

    The tensors of one batch share one block of memory, which lives until the last of them
    and the batch have died. Copies, pickles and pytree maps of a Batch keep its place in the
    epoch, which `FastParquetDataset.state_dict(after=batch)` asks for.

    Args:
        items: as dict takes them.
        position: that place; opaque to everyone but the dataset.
    """

    # _origin: the memory that the tensors came in, for whoever sends or copies it whole.
    __slots__ = ("__weakref__", "_origin", "_position")

    def __init__(
        self, items: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), position: object = None
    ) -> None:
        super().__init__(items)
        self._position = position
        self._origin: BatchOrigin | None = None

    @property
    def rows(self) -> int:
        """Rows in the batch; len(batch) counts its outputs, as for any dict."""
        for value in self.values():
            return len(value)
        return 0

    @property
    def source(self) -> str | None:
        """Name of the source of a `fastload.mix` that the batch comes from; else None."""
        return getattr(self._position, "source", None)

    @property
    def nbytes(self) -> int:
        """Bytes of all the values, on whatever device."""
        return sum(int(value.nbytes) for value in self.values() if hasattr(value, "nbytes"))

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Batch:
        """The same batch on `device`; values that lie there already are shared, not copied.

        Args:
            device: as torch takes it.
            non_blocking: do not wait for the copies; they overlap with other work only from
                pinned memory.
        """
        return self._map("to", device, non_blocking=non_blocking)

    def pin_memory(self) -> Batch:
        """A copy in page-locked memory.

        Raises:
            RuntimeError: torch finds no accelerator to pin for.
        """
        return self._map("pin_memory")

    def clone(self) -> Batch:
        """A copy with memory of its own for each value: keep these, and no block stays held."""
        return self._map("clone")

    def copy(self) -> Batch:
        """A shallow copy: a new dict of the same values."""
        duplicate = Batch(self, self._position)
        duplicate._origin = self._origin
        return duplicate

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Batch:
        duplicate = Batch((), self._position)
        memo[id(self)] = duplicate
        for name, value in self.items():
            # torch deep-copies a tensor's whole storage: here, that of the whole batch.
            own = type(value) is torch.Tensor and not value.requires_grad
            duplicate[name] = value.clone() if own else copy.deepcopy(value, memo)
        return duplicate

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, (pack(self), self._position)

    def __repr__(self) -> str:
        lines = [f"Batch({self.rows} rows"]
        lines += [f"  {name}: {_brief(value)}" for name, value in self.items()]
        return "\n".join(lines) + ")"

    def _map(self, method: str, *args: Any, **kwargs: Any) -> Batch:
        """Calls a method of each value; what lacks it (a user's own entry) stays as it is."""
        mapped = Batch((), self._position)
        for name, value in self.items():
            call: Callable[..., Any] | None = getattr(value, method, None)
            mapped[name] = value if call is None else call(*args, **kwargs)
        return mapped


def window_of(item: object) -> int | None:
    """The window of its pass in which the item's last row lies; None where nobody knows."""
    origin = item._origin if isinstance(item, Batch) else None  # noqa: SLF001
    return None if origin is None else getattr(origin.raw, "window", None)


def _load(packed: Any, position: object) -> Batch:
    return Batch(unpack(packed), position)


def _brief(value: object) -> str:
    if isinstance(value, Ragged):
        return f"ragged {describe(value)}"
    if isinstance(value, torch.Tensor):
        device = "" if value.device.type == "cpu" else f" on {value.device}"
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}{device}"
    return type(value).__name__


def _refuse_collation(_batch: list[Batch], **_collation: object) -> NoReturn:
    raise TypeError(
        "DataLoader(ds) would batch batches; write DataLoader(ds, batch_size=None): "
        "the dataset's own batch_size says how many rows a batch has"
    )


@dataclass(frozen=True, slots=True)
class _Context:
    """What a pytree keeps beside the values; batches of the same names have the same tree."""

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

# So that torch.load takes it as it takes a dict of tensors.
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
