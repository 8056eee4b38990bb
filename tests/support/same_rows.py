"""A comparison of batches with the rows of a pyarrow table, bit for bit."""

from collections import Counter
from dataclasses import replace

from fastload import FastParquetDataset
from fastload.testing.rows import comparable, first_difference, keys_of, kind_of, shown
from support.expected_outputs import NullRule, outputs_of


def assert_same_rows(batches, table, columns=None, *, ordered=True):
    """Assert that batches hold the rows of a table, in any form of column and with any nulls.

    Args:
        batches: a dataset, a DataLoader of a dataset, or batches kept from either. Nulls are
            expected as the `nulls` of the dataset says; with kept batches, the table has none.
        table: a pyarrow.Table with the rows in the order of the batches.
        columns: the dataset's `columns`.
        ordered: False to accept the rows in any order, each as often as in the table.
    """
    want = outputs_of(table, columns, _null_rule(batches))
    check = _in_order if ordered else _in_any_order
    check(batches, want, table.num_rows)


def _null_rule(batches):
    """Return what becomes of nulls in batches: what their dataset says, if one can be found."""
    read = batches
    while read is not None and not isinstance(read, FastParquetDataset):
        held = getattr(read, "__dict__", {})
        read = next(
            (held[name] for name in ("dataset", "_loader", "_dataset") if name in held), None
        )
    return NullRule() if read is None else NullRule(read._nulls, read._projection.schema)


def _in_order(batches, want, rows):
    start = 0
    for batch in batches:
        got = _checked(batch, want)
        stop = start + len(next(iter(got.values())))
        assert stop <= rows, f"Expected {rows} rows, got more"
        for name, output in want.items():
            part = replace(output, rows=output.rows[start:stop])
            row = first_difference(_bits(got[name], output), _bits(part.rows, output))
            assert row is None, (
                f"Expected {shown(part.rows, row)}, got {shown(got[name], row)} - at row "
                f"{start + row}, column `{name}`"
            )
        start = stop
    assert start == rows, f"Expected {rows} rows, got {start}"


def _in_any_order(batches, want, rows):
    wanted = list(zip(*(keys_of(_bits(o.rows, o)) for o in want.values()), strict=True))
    left = Counter(wanted)
    seen = 0
    for batch in batches:
        got = _checked(batch, want)
        columns = [keys_of(_bits(got[name], output)) for name, output in want.items()]
        for row, key in enumerate(zip(*columns, strict=True)):
            named = (
                {name: shown(value, row) for name, value in got.items()} if not left[key] else {}
            )
            assert left[key], (
                "Expected each row as often as in the table, got a row that is missing in the "
                f"table or comes once too often: {named} - at row {seen + row}"
            )
            left[key] -= 1
        seen += len(columns[0])
    missing = next((row for row, key in enumerate(wanted) if left[key]), None)
    assert missing is None, (
        f"Expected {rows} rows, got {seen}; row {missing} of the table is missing: "
        f"{ {name: shown(output.rows, missing) for name, output in want.items()} }"
    )


def _checked(batch, want):
    """Return the outputs to compare, without repeated rows, after a check of their types."""
    extra = {"__file__", "__row__", "__source__", "__valid__"} - set(want)
    names = [name for name in batch if name not in extra]
    assert names == list(want), f"Expected outputs {list(want)}, got {names}"
    real = batch.get("__valid__") if "__valid__" in extra else None
    got = {name: batch[name] if real is None else batch[name][real] for name in names}
    for name, value in got.items():
        wanted, found = kind_of(want[name].rows), kind_of(value)
        # Arrow reads an enum as binary; the Parquet format says that an enum is UTF-8.
        assert found in (wanted, wanted.replace("bytes", "str")), (
            f"Expected {wanted}, got {found} - at column `{name}`"
        )
        rows = len(next(iter(got.values())))
        assert len(value) == rows, f"Expected {rows} rows, got {len(value)} - at column `{name}`"
    return got


def _bits(value, output):
    return comparable(value, any_nan=output.any_nan)
