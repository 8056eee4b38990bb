"""The saved state of a dataset: what was delivered, as plain JSON values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastload.errors import SourceChangedError
from fastload.plan import Leg, Options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastload.predicate import Predicate
    from fastload.source import Source

__all__ = ["Position", "decode_state", "encode_state"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Position:
    """A place in an epoch: the legs run so far (plan.Leg), up to and including a batch."""

    epoch: int
    progress: tuple[Leg, ...]


def encode_state(
    source: Source, options: Options, predicate: Predicate, position: Position
) -> dict[str, Any]:
    """The state, for json.dumps; well under 2 KB."""
    return {
        "version": _VERSION,
        "fingerprint": source.fingerprint,
        "files": len(source.files),
        "rows": source.num_rows,
        "seed": options.seed,
        "epoch": position.epoch,
        "progress": [[leg.world, leg.workers, leg.delivered] for leg in position.progress],
        "order": _order(options, predicate),
    }


def decode_state(
    state: Mapping[str, Any], source: Source, options: Options, predicate: Predicate
) -> tuple[int, Position]:
    """The seed and the position of a state made by `encode_state`.

    Raises:
        SourceChangedError: the files are not those of the state.
        ValueError: it is no such state, or an argument that decides the order has changed.
    """
    try:
        if state["version"] != _VERSION:
            raise ValueError(
                f"Expected a state of version {_VERSION}, got version {state['version']}"
            )
        fingerprint, files, rows = state["fingerprint"], state["files"], state["rows"]
        seed, epoch, order = int(state["seed"]), int(state["epoch"]), dict(state["order"])
        progress = tuple(Leg(*leg) for leg in state["progress"])
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"Expected a state made by state_dict(), got {state!r} ({error!r})"
        ) from error
    if fingerprint != source.fingerprint:
        raise SourceChangedError(
            f"Expected the files that the state was saved with ({files} files, {rows} rows), got "
            f"{len(source.files)} files with {source.num_rows} rows whose names, sizes or "
            f"footers differ - at {source.files[0].path}"
        )
    for name, value in _order(options, predicate).items():
        if order.get(name) != value:
            raise ValueError(
                f"Expected {name}={order.get(name)!r}, as when the state was saved, got "
                f"{name}={value!r}: another order can't go on where that one stopped"
            )
    return seed, Position(epoch, progress)


def _order(options: Options, predicate: Predicate) -> dict[str, Any]:
    """The arguments that decide which rows make which batch."""
    return {
        "batch_size": options.batch_size,
        "shuffle": options.shuffle,
        "shuffle_window": options.shuffle_window if options.shuffle else None,
        "drop_last": options.drop_last,
        "uneven": options.uneven,
        "limit": options.limit,
        "filters": predicate.filters_text,
        "split": predicate.split_text,
    }
