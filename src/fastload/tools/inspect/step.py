"""The rows of a step of a run, found from a state that the run has saved."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fastload.dataset.state import check_identity, decode_position
from fastload.dataset.step_rows import step_rows
from fastload.plan.options import Options
from fastload.plan.steps import step_of_leg
from fastload.plan.units.canonical import row_units
from fastload.rows.epoch_rows import EpochRows
from fastload.rows.predicate import Predicate, parse_filters, parse_split
from fastload.runtime.units import counted
from fastload.source.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fastload.plan.intervals import Int64s
    from fastload.source.files import PathLike

__all__ = ["step_lines", "step_report"]

# The arguments of a dataset that a state holds as they were given.
_KEPT = ("batch_size", "shuffle", "drop_last", "uneven", "limit")


def step_report(
    source: PathLike,
    state_file: PathLike,
    step: int,
    *,
    filters: Any = None,
    world_size: int | None = None,
    num_workers: int | None = None,
) -> dict[str, Any]:
    """Return the rows of a step, for json.dumps.

    Args:
        source: the files of the run.
        state_file: a JSON file with a state of the run.
        step: number of the step in the epoch of the state.
        filters: the filters of the run.
        world_size: number of ranks after the state; None = those of the state's latest leg.
        num_workers: workers of each rank after the state; None = those of the state's latest leg.

    Raises:
        FastloadError, ValueError, TypeError, OSError: a file can't be read, or the state is not one
            of these files and filters.
    """
    state = json.loads(Path(state_file).read_text(encoding="utf-8"))
    if isinstance(state, dict) and "sources" in state:
        raise ValueError(
            f"Expected the state of a dataset, got one of a mix - at {state_file}: call rows_of() "
            "of the mix"
        )
    worker = state.get("worker") if isinstance(state, dict) else None
    position, _ = decode_position(state, worker and tuple(worker[:2]))
    opened = Source.open(source)
    options, split = _options(state, position.seed)
    predicate, filter_schema = Predicate(), None
    if filters is not None or split is not None:
        from fastload.rows.filter_schema import FilterSchema

        filter_schema = FilterSchema.of(opened)
        predicate = filter_schema.predicate(parse_filters(filters), parse_split(split))
    if state["order"]["filters"] and filters is None:
        raise ValueError(f"Expected --filters, as the run had: {state['order']['filters']}")
    check_identity(state, opened, options, predicate)
    kept = EpochRows(opened, (filter_schema, predicate) if filter_schema else None, None)
    last = position.progress[-1] if position.progress else None
    if world_size is None:
        world_size = last.world if last else 1
    if num_workers is None:
        num_workers = last.workers if last else 0
    place = step_of_leg(position.progress, world_size, num_workers, step)
    units = row_units(kept.row_groups, options)
    shares = list(units.step_shares(position, [place], None))
    rows, sizes = step_rows(shares, position, [(opened, kept, units)])
    return {
        "source": str(source),
        "epoch": position.epoch,
        "step": step,
        "world_size": place.world,
        "num_workers": place.workers,
        "files": {str(n): opened.files[n].path for n in np.unique(rows["file"]).tolist()},
        "rank_rows": sizes.tolist(),
        "rows": {name: values.tolist() for name, values in rows.items()},
    }


def step_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a report of `step_report`: the rows of each row group, ascending."""
    rows = np.array([report["rows"][name] for name in ("file", "row_group", "row")], np.int64)
    groups = np.unique(rows[:2], axis=1).T.tolist()
    yield (
        f"step {report['step']} of epoch {report['epoch']} on "
        f"{counted(report['world_size'], 'rank')}: {counted(rows.shape[1], 'row')} of "
        f"{counted(len(groups), 'row group')} in "
        f"{counted(len(report['files']), 'file')}"
    )
    for file, group in groups:
        own = rows[2, (rows[0] == file) & (rows[1] == group)]
        path = report["files"][str(file)]
        yield f"{path}, row group {group}: {counted(len(own), 'row')}: {_ranges(np.sort(own))}"


def _ranges(rows: Int64s) -> str:
    """Return ascending numbers as text, such as "3, 5-9"."""
    starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    stops = np.append(starts[1:], len(rows)) - 1
    pairs = zip(rows[starts].tolist(), rows[stops].tolist(), strict=True)
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in pairs)


def _options(state: Mapping[str, Any], seed: int) -> tuple[Options, Any]:
    """Return the options of the run that saved a state, and its split."""
    order = state["order"]
    tokens = order.get("pack") or (
        order["batch_size"] if type(order["batch_size"]) is str else None
    )
    if tokens is not None:
        raise ValueError(
            f"Expected batches of a fixed number of rows, got tokens ({tokens}): call rows_of() of "
            "the dataset"
        )
    given = {name: order[name] for name in _KEPT}
    given["canonical_ranks"] = order.get("canonical_ranks")
    if order["shuffle_window"] is not None:
        given["shuffle_window"] = order["shuffle_window"]
    options = Options(**given, seed=seed, offset=order.get("offset", 0))
    if order["split"] is None:
        return options, None
    try:
        return options, ast.literal_eval(order["split"])
    except SyntaxError:
        raise ValueError(
            "Expected a split whose columns have short names, got one that the state cut short: "
            f"{order['split']}: call rows_of() of the dataset"
        ) from None
