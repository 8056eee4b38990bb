"""A dataset as text and as HTML, for terminals and notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from fastload.runtime.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.plan.options import Options
    from fastload.schema.fields import Schema
    from fastload.steps.steps import Steps

__all__ = ["Description"]


@dataclass(frozen=True, slots=True)
class Description:
    """The facts that the texts of a dataset name.

    Attributes:
        files: the files in canonical order.
        rows: number of rows that filters keep.
        batches: what a batch holds.
        options: the options that decide the order.
        steps: the steps of the dataset.
    """

    files: Sequence[str]
    rows: int
    batches: str
    options: Options
    steps: Steps

    def text(self, schema: Schema, *, final: bool) -> str:
        """Return a few aligned lines: files, rows, batches, steps, then the outputs.

        Args:
            schema: the outputs.
            final: the outputs are those after the steps.
        """
        facts = self._facts()
        width = max(len(name) for name, _ in facts)
        lines = [f"  {name:{width}}  {value}" for name, value in facts]
        outputs = [f"    {line}" for line in schema.lines]
        head = f"  {counted(len(schema), 'output')}"
        if self.steps.of_user and not final:
            head += ", before the steps if these change them"
        return "\n".join([f"FastParquetDataset({self._source()})", *lines, head, *outputs])

    def html(self, schema: Schema) -> str:
        """Return the same as HTML."""
        facts = "<br>".join(f"{escape(name)}: {escape(value)}" for name, value in self._facts())
        table: Any = schema._repr_html_()
        head = f"<b>FastParquetDataset</b> <code>{escape(self._source())}</code>"
        return f"<div>{head}<br>{facts}</div>{table}"

    def _source(self) -> str:
        """Return the first file, and how many others there are."""
        if not self.files:
            return "no files"
        others = len(self.files) - 1
        return f"{self.files[0]!r}" + (f" and {counted(others, 'more file')}" if others else "")

    def _facts(self) -> Sequence[tuple[str, str]]:
        options = self.options
        rows = f"{self.rows:,} in {counted(len(self.files), 'file')}"
        unset = {"offset": 0, "limit": None}
        given = [name for name, value in unset.items() if getattr(options, name) != value]
        if given:
            kept = f"{' and '.join(given)} {'keeps' if len(given) == 1 else 'keep'}"
            rows += f", of which {kept} {options.limited(self.rows):,}"
        order = "in stored order"
        if options.shuffle:
            order = f"shuffled in windows of {options.shuffle_window:,} rows, seed {options.seed}"
        facts = [("rows", rows), ("batches", self.batches), ("order", order)]
        if self.steps.of_user:
            facts.append(("steps", counted(self.steps.of_user, "step")))
        return facts
