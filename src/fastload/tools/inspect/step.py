"""The rows of a step of a run, found from a state that the run has saved."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fastload.dataset.state import check_identity, counted, decode_position, no_state
from fastload.dataset.step_rows import step_rows, step_segments
from fastload.errors import NullValueError
from fastload.plan.options import Options, Window
from fastload.plan.steps import step_of_leg
from fastload.plan.units.canonical import row_units
from fastload.rows.predicate import Predicate, parse_filters, parse_split
from fastload.rows.selection import EpochRows
from fastload.rows.values.tokens import MOST_NAME, lengths_of, spec_of, token_units
from fastload.schema.columns import Hash
from fastload.schema.packs import Pack, TokenBudget
from fastload.schema.projection import plan_columns
from fastload.source.source import Source
from fastload.source.stores.io import IO

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastload.plan.units.units import Units
    from fastload.plan.units.windows import Lengths
    from fastload.schema.projection import Nulls
    from fastload.source.files import PathLike

__all__ = ["step_report"]

# The arguments of a dataset that a state holds as they were given.
_KEPT = ("shuffle", "drop_last", "uneven", "offset")
# The most memory in which lengths of lists are read.
_MOST_BYTES = 1 << 30
# A run that counts lists of strings reads these through Hash or Codes; the number of buckets does
# not change the lengths.
_BUCKETS = 2


def step_report(
    source: PathLike,
    state_file: PathLike,
    step: int,
    *,
    filters: Any = None,
    world_size: int | None = None,
    num_workers: int | None = None,
) -> dict[str, Any]:
    """Return the rows of a step, for json.dumps; of a packed dataset, the segments of documents.

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
    try:
        state = json.loads(Path(state_file).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Expected a state as JSON, got {error} - at {state_file}") from None
    if isinstance(state, dict) and "sources" in state:
        raise ValueError(
            f"Expected the state of a dataset, got one of a mix - at {state_file}: call rows_of() "
            "of the mix"
        )
    worker = state.get("worker") if isinstance(state, dict) else None
    position, _ = decode_position(state, worker and tuple(worker[:2]))
    opened = Source.open(source)
    try:
        options, split, spec = _options(state["order"], position.seed)
        filtered = state["order"].get("filters")
    except (KeyError, TypeError, AttributeError) as error:
        raise no_state(state, error) from error
    predicate, filter_schema = Predicate(), None
    if filters is not None or split is not None:
        from fastload.rows.filter_schema import FilterSchema

        filter_schema = FilterSchema.of(opened)
        predicate = filter_schema.predicate(parse_filters(filters), parse_split(split))
    if filtered and filters is None:
        shown = str(filtered).rpartition(" #")[0]
        raise ValueError(f"Expected --filters, as the run had: {shown}")
    check_identity(state, opened, options, predicate)
    kept = EpochRows(opened, (filter_schema, predicate) if filter_schema else None, None)
    last = position.progress[-1] if position.progress else None
    if world_size is None:
        world_size = last.world if last else 1
    if num_workers is None:
        num_workers = last.workers if last else 0
    place = step_of_leg(position.progress, world_size, num_workers, step)
    units: Units
    if spec is None:
        units = row_units(kept.row_groups, options)
    else:
        assert options.tokens_of is not None
        lengths = _lengths(spec, options.tokens_of, opened, kept)
        units = token_units(spec, lengths, options)
    shares = list(units.step_shares(position, [place], None))
    rows, sizes = step_rows(shares, position, [(opened, kept, units)])
    if isinstance(spec, Pack):
        begin, first, tokens, of_document = step_segments(shares, position, units).T
        rows["packed_row"] = begin // spec.length
        rows |= {"first_token": first, "tokens": tokens, "document_tokens": of_document}
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


def _options(order: Mapping[str, Any], seed: int) -> tuple[Options, Any, Pack | TokenBudget | None]:
    """Return the options, the split, and the way of packing or the budget that a run had."""
    pack, batch_size, window = order.get("pack"), order["batch_size"], order.get("shuffle_window")
    budget = batch_size if isinstance(batch_size, str) else None
    text = pack if budget is None else budget
    for value in order.values():
        if isinstance(value, int) and not isinstance(value, bool):
            counted(value)
    slices = order.get("canonical_ranks")
    options = Options(
        slices or 1 if budget is not None else batch_size,
        **{name: order[name] for name in _KEPT},
        seed=seed,
        limit=order.get("limit"),
        canonical_ranks=slices,
        pack=pack,
        budget=budget,
        tokens_of=None if text is None else order["tokens_of"],
    )
    spec = None if text is None else spec_of(text)
    if window is not None:
        options = replace(
            options.in_windows(Window(window, order["window_slices"])),
            forms_in_windows=not options.shuffle,
        )
    split = order.get("split")
    if split is None:
        return options, None, spec
    try:
        return options, ast.literal_eval(split), spec
    except SyntaxError:
        raise ValueError(
            "Expected a split whose columns have short names, got one that the state cut short: "
            f"{split}: call rows_of() of the dataset"
        ) from None


def _lengths(spec: Pack | TokenBudget, column: str, source: Source, kept: EpochRows) -> Lengths:
    """Return the lengths of the lists that a spec counts.

    Args:
        spec: the way of packing, or the budget.
        column: name of the column in the files.
        source: the files.
        kept: the rows that stay.
    """
    if len(column) > MOST_NAME:
        raise ValueError(
            "Expected a column of tokens with a short name, got one that the state cut short: "
            f"{column}: call rows_of() of the dataset"
        )
    output = spec.output if isinstance(spec, Pack) else spec.column

    def read(nulls: Nulls) -> Lengths:
        columns: dict[str, Any] = {output: column}
        projection = plan_columns(source, columns, nulls=nulls, check_nulls=False)
        if projection.outputs[0].field.kind is not None:
            columns = {output: Hash(column, _BUCKETS)}
            projection = plan_columns(source, columns, nulls=nulls, check_nulls=False)
        return lengths_of(spec, source, projection, kept, IO(), _MOST_BYTES)

    # A run that refused nulls has kept the lengths on disk by another name than a run that did not.
    try:
        return read("raise")
    except NullValueError:
        return read("zero")
