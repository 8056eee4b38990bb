"""What commands print fits the width, wrapped by words, and names are never broken."""

import contextlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.cells import cell_len

from fastload import Cache, FastParquetDataset
from fastload.tools.bench.report.text import report
from fastload.tools.cli import cache, doctor, inspect
from fastload.tools.cli.main import main
from fastload.tools.terminal import Table, rendered, shortened
from support.bench_record import bench_record

LONG = "a_rather_long_name_of_a_column_that_nobody_would_type_twice"
ROWS = 2000


def keep(block):
    return block


@pytest.fixture(params=[80, 200])
def width(request, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(request.param))
    return request.param


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A file of long names, a struct of many columns, nulls and lists, in a deep directory."""
    path = tmp_path_factory.mktemp("deep") / "/".join(["a_directory_of_a_long_name"] * 4)
    path.mkdir(parents=True)
    numbers = np.arange(ROWS)
    holed = pa.array(numbers, mask=numbers % 7 == 0)
    names = [f"h{n}" for n in range(30)]
    columns = {
        LONG: holed,
        "hits": pa.StructArray.from_arrays([pa.array(numbers % 3)] * 30, names),
        "empty": pa.nulls(ROWS, pa.float64()),
        "tokens": pa.array([[1] * (n % 5 + 1) for n in range(ROWS)]),
        "words": pa.array([["a"] * (n % 3) for n in range(ROWS)]),
    }
    pq.write_table(pa.table(columns), path / "a.parquet", compression="gzip", row_group_size=100)
    return path / "a.parquet"


def lines_of(capsys, status, main_, *arguments):
    assert main_([*map(str, arguments)]) == status
    said = capsys.readouterr()
    return (said.err if status else said.out).splitlines()


def check(lines, width, wider=False):
    assert max(map(cell_len, lines)) <= width
    if wider and width > 80:
        assert max(map(cell_len, lines)) > 80


def test_inspect(path, width, capsys):
    lines = lines_of(capsys, 0, inspect.main, path)
    check(lines, width, wider=True)
    outputs = [line.split() for line in lines]
    group = next(words for words in outputs if words[:2] == ["hits.*", "(30)"])
    assert group == ["hits.*", "(30)", "int64", "(B,)"]
    assert sum(words[:1] == ["hits.*"] for words in outputs) == 2
    assert not any("hits.h1" in line for line in lines)
    tables = lines[: next(n for n, line in enumerate(lines) if line.startswith("memory"))]
    named = [line for line in tables if line.startswith("a_rather")]
    assert len(named) == 2
    assert all(LONG in line or "…" in line.split()[0] for line in named)
    code = "\n".join(lines[lines.index("to read it") + 1 :])
    exec(compile(code, "program", "exec"), {})


def test_inspect_rewrites(path, width, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = lines_of(capsys, 0, inspect.main, path)
    code = lines[lines.index("to write it anew") + 1 : lines.index("to read it")]
    check(code, 80)
    exec(compile("\n".join(code), "rewrite", "exec"), {})
    assert pq.read_table(tmp_path / "rewritten").num_rows == ROWS


def test_cache(path, width, capsys, tmp_path):
    with FastParquetDataset(
        path, columns=["tokens"], preprocess=keep, cache=Cache(tmp_path)
    ) as dataset:
        dataset.warm_cache(progress=False)
    listed = lines_of(capsys, 0, cache.main, "ls", tmp_path)
    assert listed == lines_of(capsys, 0, cache.main, "ls", "--cache-dir", tmp_path)
    checked = lines_of(capsys, 0, cache.main, "verify", tmp_path, "--quiet")
    pruned = lines_of(capsys, 0, cache.main, "prune", tmp_path, "--max-bytes", "1GB")
    for lines in (listed, checked, pruned):
        check(lines, width)
    # The same entries and the same bytes in each.
    entries, total = " ".join(listed).partition("1 entry of ")[2].split(", ")[:2]
    assert f"checked 1 entry, {entries}; none damaged" in " ".join(checked)
    on_disk = total.partition(" on disk")[0]
    assert f"removed 0 entries; {on_disk} on disk left" in " ".join(pruned)


def test_doctor(width, capsys):
    check(lines_of(capsys, 0, doctor.main), width)


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "no/such/file/of/this/name/anywhere/in/this/directory.parquet"],
        ["bench", "no/such/file/of/this/name/anywhere/in/this/directory.parquet"],
        ["cache", "ls", "no/such/directory/of/a/cache/anywhere/in/this/one/or/elsewhere/at/all"],
        ["no-such-command"],
    ],
)
def test_errors(arguments, width, capsys):
    check(lines_of(capsys, 2, main, *arguments), width)


@pytest.mark.parametrize("arguments", [[], *([name] for name in ("inspect", "bench", "doctor"))])
def test_help(arguments, width, capsys):
    with contextlib.suppress(SystemExit):
        main([*arguments, "--help"])
    check(capsys.readouterr().out.splitlines(), width)


@pytest.mark.parametrize("verbose", [False, True])
def test_bench(width, verbose):
    record = bench_record()
    record["results"][0]["kept_bytes"] = 170_000_000
    record["dataset"]["left_out"] = {f"{LONG}_{n}": "of type timestamp[us]" for n in range(5)}
    reason = "refused, its rows are wrong: Expected the rows that pyarrow reads, got others"
    record["left_out"] = [{"name": "polars", "version": "1", "mode": "shuffled", "reason": reason}]
    lines = rendered(report(record, verbose=verbose))
    check(lines, width, wider=True)
    assert "fastload keeps pages decompressed in memory" in " ".join(lines)


def test_what_is_too_wide_is_wrapped_first_and_shortened_then(monkeypatch):
    made = Table(["name", "n", "note"], [(LONG, "1", "some words that may be wrapped")], notes=(2,))
    monkeypatch.setenv("COLUMNS", "120")
    assert rendered([made])[1].endswith("some words that may be wrapped")
    monkeypatch.setenv("COLUMNS", "80")
    assert rendered([made])[1].startswith(LONG)
    monkeypatch.setenv("COLUMNS", "50")
    assert rendered([made])[1].split()[0] == "a_rather_long_na…would_type_twice"
    assert shortened("abc", 3) == "abc"
    assert [shortened("abcdef", width) for width in (1, 2, 5)] == ["…", "a…", "ab…ef"]
