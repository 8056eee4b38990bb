"""A dataset as text and as HTML, for terminals and notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from fastload.runtime.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.plan.options import Options
    from fastload.schema.fields import Schema
    from fastload.steps.steps import Steps

__all__ = ["dataset_html", "dataset_text"]


class Described(Protocol):
    """The part of the interface of a dataset that this module uses."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files in canonical order."""

    @property
    def num_rows(self) -> int:
        """Number of rows that filters keep."""


def dataset_text(
    dataset: Described,
    batches: str,
    options: Options,
    steps: Steps,
    schema: Schema,
    *,
    final: bool,
) -> str:
    """Return a few aligned lines: files, rows, batches, steps, then the outputs.

    Args:
        dataset: the dataset.
        batches: what a batch holds.
        options: the options that decide the order.
        steps: the steps of the dataset.
        schema: the outputs.
        final: the outputs are those after the steps.
    """
    facts = _facts(dataset, batches, options, steps)
    width = max(len(name) for name, _ in facts)
    lines = [f"  {name:{width}}  {value}" for name, value in facts]
    outputs = [f"    {line}" for line in schema.lines]
    head = f"  {counted(len(schema), 'output')}"
    if steps.count and not final:
        head += ", before the steps if these change them"
    return "\n".join([f"FastParquetDataset({dataset.files[0]!r})", *lines, head, *outputs])


def dataset_html(
    dataset: Described, batches: str, options: Options, steps: Steps, schema: Schema
) -> str:
    """Return the same as `dataset_text` as HTML; arguments as there."""
    facts = "<br>".join(
        f"{escape(name)}: {escape(value)}"
        for name, value in _facts(dataset, batches, options, steps)
    )
    table: Any = schema._repr_html_()
    head = f"<b>FastParquetDataset</b> <code>{escape(dataset.files[0])}</code>"
    return f"<div>{head}<br>{facts}</div>{table}"


def _facts(
    dataset: Described, batches: str, options: Options, steps: Steps
) -> Sequence[tuple[str, str]]:
    rows = f"{dataset.num_rows:,} in {counted(len(dataset.files), 'file')}"
    given = [
        name for name, unset in (("offset", 0), ("limit", None)) if getattr(options, name) != unset
    ]
    if given:
        kept = f"{' and '.join(given)} {'keeps' if len(given) == 1 else 'keep'}"
        rows += f", of which {kept} {options.limited(dataset.num_rows):,}"
    order = "in stored order"
    if options.shuffle:
        order = f"shuffled in windows of {options.shuffle_window:,} rows, seed {options.seed}"
    if options.skip_steps:
        batches += f", without {counted(len(options.skip_steps), 'step')}"
    facts = [("rows", rows), ("batches", batches), ("order", order)]
    if steps.count:
        facts.append(("steps", counted(steps.count, "step")))
    return facts
