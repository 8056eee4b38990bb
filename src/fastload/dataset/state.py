"""The saved state of a dataset: a record of what was delivered, as plain JSON values."""

from __future__ import annotations

import base64
import hashlib
import json
import reprlib
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastload.dataset.epochs import check_epoch
from fastload.errors import SourceChangedError
from fastload.plan.options import Window, expect_at_least
from fastload.plan.position import Leg, Position
from fastload.source.source import changed_file, same_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.plan.options import Options
    from fastload.rows.predicate import Predicate
    from fastload.source.source import Source

__all__ = [
    "check_identity",
    "counted",
    "decode_position",
    "decode_state",
    "encode_identity",
    "encode_legs",
    "encode_position",
    "encode_state",
    "no_state",
    "saved_window",
]

_VERSION = 1
_OWN_WINDOW = " (leave out shuffle_window, for the one of the state)"
# Advice for arguments whose default may differ from that of the run that saved the state.
_ADVICE = {
    "shuffle_window": _OWN_WINDOW,
    "window_slices": _OWN_WINDOW,
    "canonical_ranks": " (pass canonical_ranks={}: its default is the number of ranks)",
}
# The most legs that a state lists. More legs are compressed, so that a state stays under 2 KB after
# hundreds of resumes on other numbers of ranks.
_LISTED_LEGS = 32
# The most characters of a state's text about versions.
_MOST_VERSION = 500
_MOST_COUNT = (1 << 63) - 1
# The most worker processes of all ranks together; a plan has a few numbers for each.
_MOST_WORKERS = 1 << 20
# The most bytes of legs that a state may expand to.
_MOST_BYTES = 1 << 20


def encode_state(
    source: Source,
    options: Options,
    predicate: Predicate,
    position: Position,
    worker: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Return the state of a position, for json.dumps; well under 2 KB.

    Args:
        source: the files.
        options: the options that decide the order.
        predicate: the filters and the split.
        position: the position after what was delivered.
        worker: number of the worker and number of workers, if the position is that of one
            worker's own share.
    """
    return {
        **encode_position(position, worker),
        **encode_identity(source, options, predicate),
    }


def encode_position(position: Position, worker: tuple[int, int] | None) -> dict[str, Any]:
    """Return the part of a state that holds the progress of a run.

    Args:
        position: the position after what was delivered.
        worker: as for `encode_state`.
    """
    state: dict[str, Any] = {"version": _VERSION, "seed": position.seed, "epoch": position.epoch}
    state["progress"] = encode_legs(position.progress)
    if position.seeds:
        state["seeds"] = list(position.seeds)
    if worker is not None:
        state["worker"] = [*worker, position.taken]
    return state


def encode_identity(source: Source, options: Options, predicate: Predicate) -> dict[str, Any]:
    """Return the part of a state that identifies the files and their order."""
    version = {} if source.table is None else {"table": source.table.version}
    if source.commits:
        version["commits"] = _short(source.commits)
    return {
        **version,
        "fingerprint": source.fingerprint,
        "files": len(source.files),
        "file_sums": list(source.file_sums),
        "rows": source.num_rows,
        "order": _order(options, predicate),
    }


def decode_state(
    state: Mapping[str, Any],
    source: Source,
    options: Options,
    predicate: Predicate,
    worker: tuple[int, int] | None = None,
) -> tuple[Position, bool]:
    """Return the position of a state, and True if the state is that of one worker alone.

    Args:
        state: the result of `encode_state`.
        source: the files.
        options: the options that decide the order.
        predicate: the filters and the split.
        worker: number of this worker process and number of workers; None outside of a worker.

    Raises:
        SourceChangedError: the files differ from the files of the state.
        ValueError: `state` is not a saved state, an argument that decides the order has changed,
            or the state is that of another worker.
    """
    position, own = decode_position(state, worker)
    check_identity(state, source, options, predicate)
    return position, own


def decode_position(
    state: Mapping[str, Any], worker: tuple[int, int] | None
) -> tuple[Position, bool]:
    """Return the position of a state, and True if the state is that of one worker alone.

    Raises:
        ValueError: `state` is not a saved state, or is the state of another worker.
    """
    try:
        if state["version"] != _VERSION:
            raise ValueError(
                f"Expected a state of version {_VERSION}, got version {state['version']}, which "
                "stands for another order of rows: resume with the fastload that saved the state, "
                "or begin the epoch again"
            )
        progress = tuple(_leg(*map(counted, leg)) for leg in _decode_legs(state["progress"]))
        *saved_by, taken = state.get("worker", (None, 0))
        seeds = tuple(map(_whole, state.get("seeds", ())))
        seed, epoch = _whole(state["seed"]), _whole(state["epoch"])
        weights = state["order"].get("weights") or "" if "order" in state else ""
        if not isinstance(weights, str):
            raise TypeError(f"expected weights as a digest, got {weights!r}")
        position = Position(seed, epoch, progress, _whole(taken), seeds, weights)
    except (AttributeError, KeyError, TypeError) as error:
        raise no_state(state, error) from error
    check_epoch(epoch)
    own = "worker" in state
    if own and (worker is None or list(worker) != saved_by):
        raise ValueError(
            f"Expected the state of {_described(worker)}, got that of {_described(saved_by)}: with "
            "StatefulDataLoader num_workers must stay the same; state_dict(after=batch) serves any "
            "number of workers"
        )
    return position, own


def check_identity(
    state: Mapping[str, Any], source: Source, options: Options, predicate: Predicate
) -> None:
    """Refuse a state of other files or of another order.

    Raises:
        SourceChangedError: the files differ from the files of the state.
        ValueError: `state` is not a saved state, or an argument that decides the order has changed.
    """
    try:
        fingerprint, files, rows = state["fingerprint"], state["files"], state["rows"]
        sums, order = tuple(map(_whole, state["file_sums"])), dict(state["order"])
    except (KeyError, TypeError, ValueError) as error:
        raise no_state(state, error) from error
    version = _short(source.commits) or "plain files"
    if source.table is not None:
        version = source.table.version
    before = state.get("table") or state.get("commits") or "plain files"
    if before != version:
        location = source.files[0].path if source.table is None else source.table.columns.location
        raise SourceChangedError(
            f"Expected {before}, as when the state was saved, got {version} of the source: make "
            f"the dataset of {before} - at {location}"
        )
    if fingerprint != source.fingerprint:
        _check_spelling(source, files, rows, sums)
        raise SourceChangedError(
            f"Expected the files that the state was saved with ({files} files, {rows} rows), got "
            f"{len(source.files)} files with {source.num_rows} rows whose names, sizes, footers "
            f"or Hive keys differ - at {_changed(source, files, sums)}"
        )
    now_order = _order(options, predicate)
    for name in {**now_order, **order}:
        saved, now = order.get(name), now_order.get(name)
        if saved != now:
            advice = "" if saved is None else _ADVICE.get(name, "").format(saved)
            raise ValueError(
                f"Expected {name}={saved!r}, as when the state was saved, got {name}={now!r}: "
                f"a state cannot continue in another order{advice}"
            )


def saved_window(state: object) -> Window | None:
    """Return the shuffle windows of a state, or of a source in the state of a mix.

    None if the value holds no windows: `check_identity` then refuses the value.

    Raises:
        ValueError: `state` is not a saved state.
    """
    order = state.get("order") if isinstance(state, Mapping) else None
    if not isinstance(order, Mapping) or order.get("shuffle_window") is None:
        return None
    try:
        window = Window(counted(order["shuffle_window"]), counted(order.get("window_slices")))
        expect_at_least(1, shuffle_window=window.rows, window_slices=window.slices)
    except (TypeError, ValueError) as error:
        raise no_state(state, error) from error
    return window


def _short(commits: str) -> str:
    """Return a text, or the digest of a long one: a state takes less than 2 KB."""
    if len(commits) <= _MOST_VERSION:
        return commits
    return f"commits {hashlib.blake2b(commits.encode(), digest_size=16).hexdigest()}"


def no_state(state: object, error: object) -> ValueError:
    """Return the error for a value that `state_dict()` has not made, with the cause."""
    return ValueError(
        f"Expected a state made by state_dict(), got {_brief(state)} ({error!r})"
        f"{_place_hint(state, error)}"
    )


def _brief(state: object) -> str:
    """Return what a value is, in few words: a checkpoint may hold gigabytes of weights."""
    if isinstance(state, Mapping) and state:
        return f"{type(state).__name__} with the keys {reprlib.repr(list(state))}"
    return reprlib.repr(state)


def _place_hint(state: object, error: object) -> str:
    """Return where a state belongs, or where the state lies in a value; "" if it is not known."""
    if not isinstance(state, Mapping):
        return ""
    missing = error.args[0] if isinstance(error, KeyError) else None
    if missing == "fingerprint" and "sources" in state:
        return ": this state is one of a mix, so load it into a mix"
    if missing == "stop" and "fingerprint" in state:
        return ": this state is one of a dataset, and a mix continues a state of a mix"
    if "progress" in state:
        return ""
    if "_snapshot" in state:  # of one without worker processes, the loop below finds the state
        return (
            ": this is the state of a StatefulDataLoader with worker processes: load it into one, "
            "with the same num_workers; state_dict(after=batch) of the dataset serves any number"
        )
    for key, value in state.items():
        if isinstance(value, Mapping) and "progress" in value:
            return f": the state lies under {key!r}"
    return ""


def encode_legs(progress: Sequence[Leg]) -> list[list[int]] | str:
    """Return the legs as a state holds them: a list, or a text of many legs."""
    legs = [[leg.world, leg.workers, leg.delivered] for leg in progress]
    if len(legs) <= _LISTED_LEGS:
        return legs
    text = json.dumps(legs, separators=(",", ":"))
    return base64.b85encode(zlib.compress(text.encode(), level=9)).decode()


def _decode_legs(encoded: Any) -> Any:
    """Return the legs that `encode_legs` encoded.

    Raises:
        TypeError: a text does not hold legs.
    """
    if not isinstance(encoded, str):
        return encoded
    try:
        expanding = zlib.decompressobj()
        text = expanding.decompress(base64.b85decode(encoded), _MOST_BYTES)
        if not expanding.eof:
            raise TypeError(f"expected at most {_MOST_BYTES} bytes of progress, got more")
        return json.loads(text)
    except (ValueError, RecursionError, zlib.error) as error:
        raise TypeError(f"expected compressed progress, got {error!r}") from error


def _leg(world: int, workers: int, delivered: int) -> Leg:
    leg = Leg(world, workers, delivered)
    if leg.world * leg.workers > _MOST_WORKERS:
        raise TypeError(
            f"expected at most {_MOST_WORKERS} workers of all ranks in the progress, got {world} "
            f"ranks of {workers} workers"
        )
    return leg


def _whole(value: object) -> int:
    """Return a value of a state that must be an integer; JSON may hold any type in its place."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"expected an integer, got {value!r}")
    return value


def counted(value: object) -> int:
    """Return a count in a state, as `_whole` does; 64 bits hold every count."""
    number = _whole(value)
    if abs(number) > _MOST_COUNT:
        raise TypeError(f"expected a count of 64 bits, got {number}")
    return number


def _check_spelling(source: Source, files: int, rows: int, sums: Sequence[int]) -> None:
    """Refuse a state of the same files that another spelling of the source has found.

    Args:
        source: the files.
        files: number of the state's files.
        rows: number of their rows.
        sums: their sums.

    Raises:
        SourceChangedError: the files are the same, in another order or with other Hive keys.
    """
    if (files, rows, len(sums)) != (len(source.files), source.num_rows, 2):
        return
    same = same_files(sums, source.files)
    if same == "order":
        raise SourceChangedError(
            "Expected the files in the order that the state was saved with, got the same files in "
            "another order: pass the list that was passed then, or, for the order of paths, the "
            f"directory or a glob - at {source.files[0].path}"
        )
    if same == "keys":
        keys = ", ".join(f"`{key}`" for key, _ in source.files[0].keys) or "none"
        raise SourceChangedError(
            "Expected the files with the Hive keys that the state was saved with, got the same "
            f"files with other keys ({keys}): pass the directory or the glob that was passed then, "
            f"since keys lie below a directory and from a glob's first wildcard on - at "
            f"{source.files[0].path}"
        )


def _changed(source: Source, files: int, sums: Sequence[int]) -> str:
    number = None
    if files == len(source.files) and len(sums) == len(source.file_sums):
        number = changed_file(sums, source.file_sums, files)
    if number is None:
        return f"{source.files[0].path} and others"
    return source.files[number].path


def _described(worker: Sequence[int] | None) -> str:
    if worker is None:
        return "a whole rank"
    number, workers = worker
    return f"worker {number} of {workers}"


def _order(options: Options, predicate: Predicate) -> dict[str, Any]:
    """Return the arguments that decide which rows form which batch, without those that are None."""
    in_windows = options.shuffle or options.forms_in_windows
    order = {
        "batch_size": options.budget or options.batch_size,
        "canonical_ranks": options.canonical_ranks,
        "pack": options.pack,
        "tokens_of": options.tokens_of,
        "shuffle": options.shuffle,
        "shuffle_window": options.shuffle_window if in_windows else None,
        "window_slices": options.window_slices if in_windows else None,
        "drop_last": options.drop_last,
        "uneven": options.uneven,
        "offset": options.offset,
        "limit": options.limit,
        "filters": predicate.filters_text,
        "split": predicate.split_text,
        "weights": options.weights,
    }
    return {name: value for name, value in order.items() if value is not None}
