"""What fastload-bench prints: the verdict, the tables, hints and warnings."""

import copy
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.cells import cell_len

from fastload import FastParquetDataset
from fastload.tools.bench.machine import OtherLoad
from fastload.tools.bench.peers import DEFAULT
from fastload.tools.bench.progress import ShownProgress
from fastload.tools.bench.report.text import report
from fastload.tools.bench.report.verdict import compared, hints, verdict, warnings
from fastload.tools.bench.survey import copies_of, survey, with_copies
from fastload.tools.terminal import rendered
from support.bench_record import KNOWN, bench_record


@pytest.fixture
def record():
    return bench_record()


def lines_of(record, **options):
    return rendered(report(record, **options))


def mine(record, mode="shuffled"):
    return next(r for r in record["results"] if r["name"] == "fastload" and r["mode"] == mode)


def on_terminal(monkeypatch, columns, **environment):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", "COLUMNS": str(columns), **environment}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("columns", [80, 140])
def test_no_line_is_wider_than_the_terminal(record, monkeypatch, columns, verbose):
    on_terminal(monkeypatch, columns)
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines_of(record, verbose=verbose)]
    assert max(map(cell_len, lines)) <= columns
    # No row breaks.
    assert sum(line.startswith("fastload ") for line in lines) == 2
    row = next(line for line in lines if line.startswith("fastload ") and "MB" in line)
    assert {"13.4 M", "1.8x", "90 ms", "365 MB"} <= set(re.split(r"\s{2,}", row))
    assert "0.53" in row
    assert ("1.9" in row) == verbose


def test_the_verdict_comes_first_and_shuffled_before_in_order(record):
    lines = lines_of(record)
    assert lines[0] == (
        "Shuffled, fastload is 1.8x as fast as the best other (hand-written polars); in order, "
        "1.8x (hand-written polars)."
    )
    heads = [line.split()[0] for line in lines if "rows/s  " in line]
    assert heads == ["shuffled", "in"]
    # Tensors in RAM read no file, so nothing is a multiple of them.
    assert compared(record, "shuffled").best["name"] == "hand-written polars"
    assert any(line.startswith("* The whole table in RAM") for line in lines)


def test_colours_are_for_terminals_that_want_them(record, monkeypatch):
    assert "\x1b" not in "".join(lines_of(record))
    on_terminal(monkeypatch, 80)
    assert "\x1b[36m" in "".join(lines_of(record))
    on_terminal(monkeypatch, 80, NO_COLOR="1")
    assert not re.search(r"\x1b\[[\d;]*3\dm", "".join(lines_of(record)))
    on_terminal(monkeypatch, 80, TERM="dumb")
    assert "\x1b" not in "".join(lines_of(record))


@pytest.mark.parametrize(
    ("rate", "spread", "sentence"),
    [
        (7.4e6, 0.02, "Shuffled, fastload and hand-written polars are as fast as each other"),
        (13.4e6, 0.5, "Shuffled, fastload and hand-written polars are as fast as each other"),
        (3.65e6, 0.01, "Shuffled, hand-written polars is 2.0x as fast as fastload"),
        (73e6, 0.01, "Too short to compare: an epoch takes 14.4 ms"),
    ],
)
def test_the_verdict_is_no_better_than_the_figures(record, rate, spread, sentence):
    for result in record["results"]:
        result["spread"] = spread
    mine(record)["rows_per_s"] = rate
    text = verdict(record)
    assert text.startswith(sentence)
    if "short" in sentence:
        assert "x as fast" not in text
        shuffled = lines_of(record)[: lines_of(record).index("", 5)]
        assert not any("x " in line.split("M")[-1] for line in shuffled if "hand-written" in line)


def test_impossible_figures_are_not_printed(record):
    mine(record).update(roof_fraction=1.4, spread=3.81, busy_cores=8.27)
    text = "\n".join(lines_of(record, verbose=True))
    for figure in ("1.40", "140 %", "381 %", "8.3", "8.27"):
        assert figure not in text
    assert "2.0 of 2 cores at work" in text


@pytest.mark.parametrize("columns", [80, 140])
def test_a_row_of_kept_pages_says_so(record, monkeypatch, columns):
    for mode in ("shuffled", "in_order"):
        mine(record, mode).update(
            kept_bytes=170_000_000, kept_roof=0.02, kept_roof_fraction=0.41, roof_fraction=1.9
        )
    on_terminal(monkeypatch, columns)
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines_of(record, verbose=True)]
    assert max(map(cell_len, lines)) <= columns
    # A narrow terminal folds the name.
    row = next(line for line in lines if line.startswith("fastload, kept "))
    assert "0.41" in row
    assert any("fastload, kept in memory" in line for line in lines_of(record))
    assert any(line.startswith("Kept in memory: 170 MB") for line in lines)
    said = " fastload keeps pages decompressed in memory, and the others decompress in each epoch"
    assert f"{said}; in the first epoch, start included: shuffled 1.8x, in order 1.8x." in verdict(
        record
    )
    assert "41 % of the hardware's limit" in hints(record)[0]


def test_a_roof_is_named_only_where_one_is_shown(record):
    assert "of roof" in "\n".join(lines_of(record))
    for entry in record["results"]:
        entry["roof_fraction"] = None
    for verbose in (False, True):
        text = "\n".join(lines_of({**record, "roof": None}, verbose=verbose))
        assert "roof" not in text
        assert "hardware" not in text


def test_a_run_that_takes_longer_than_its_limit_says_so_at_once(capsys):
    for seconds in (50.0, 90.0):
        ShownProgress().takes(seconds, 60.0)
    said = capsys.readouterr().err
    assert said == "This takes about 1 min 30 s: the machine is slow or busy.\n"


def test_other_processes_are_a_warning_and_no_diagnosis(record):
    assert warnings(record) == []
    assert (
        "the processor is the limit (1.9 of 2 cores at work), most of all in decode; 53 %"
        in (hints(record)[0])
    )
    record["host"]["other_cores"] = 1.1
    assert warnings(record) == ["other processes used 1.1 of 2 cores; the figures are low"]
    assert not any("limit" in line for line in hints(record))


def test_idle_cores_are_not_blamed_on_decoding(record):
    mine(record)["busy_cores"] = 1.3
    assert hints(record)[0].startswith("shuffled, 1.3 of 2 cores at work; ")
    assert "decode" not in hints(record)[0]
    mine(record)["bottleneck"] = "read"
    assert hints(record)[0].startswith("shuffled, reads are the limit (1.3 of 2 cores at work)")


def test_one_line_says_what_else_could_be_measured(record):
    line = "--peers all adds every loader that is installed"
    assert [hint for hint in hints(record) if "--peers" in hint] == [line]
    assert not any("--peers" in hint for hint in hints({**record, "command": ["--peers=all"]}))
    record["dataset"]["left_out"] = {"word": "of type string", "gap": "may hold nulls"}
    text = "\n".join(lines_of(record))
    assert "40 of 42 columns" in text
    assert "Not read: `word`, of type string; `gap`, may hold nulls." in text


def test_defaults_are_contenders():
    assert set(DEFAULT) <= set(KNOWN)


def write(path, rows=1000):
    table = pa.table({"id": np.arange(rows), "price": np.arange(rows) / 7})
    pq.write_table(table, path, row_group_size=400)
    return str(path)


def test_small_files_are_read_several_times(tmp_path):
    files = [write(tmp_path / name) for name in ("a=1.parquet", "b.parquet")]
    found = survey(files)
    assert found.stored_bytes == FastParquetDataset(files, columns=["id", "price"]).epoch_bytes
    copies = copies_of(found, 2)
    assert copies == 1000  # no more than 2,000 links
    (tmp_path / "links").mkdir()
    linked = with_copies(found, 3, str(tmp_path / "links"))
    assert survey(linked.files).rows == linked.rows == 6000
    assert survey(linked.files).stored_bytes == linked.stored_bytes
    assert (len(linked.files), linked.row_groups, linked.originals) == (6, 18, tuple(files))
    assert with_copies(found, 1, str(tmp_path)) is found
    assert copies_of(linked, 2) == 333


def test_processes_of_others_are_counted():
    load = OtherLoad()
    burn = "import os, time\nwhile time.process_time() < 0.5: pass\nprint(time.process_time())"
    # The shell ends first, so that its background process is nobody's descendant here.
    out = subprocess.run(
        ["sh", "-c", f"exec 3>&1; {sys.executable} -c '{burn}' & exit"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    seconds, began = float(out), load._start[0]
    cores = load.cores()
    if sys.platform == "linux":
        assert cores * (time.perf_counter() - began) >= 0.8 * seconds


def test_progress_is_a_line_every_few_seconds(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("fastload.tools.bench.progress.time.monotonic", lambda: now[0])
    progress = ShownProgress()
    for number in range(10):
        progress(f"step {number}", 9 - number)
        now[0] += 2.0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "[1/10] step 0"
    assert len(lines) == 4
    assert lines[1] == "[4/10] step 3, about 14 s left"
    assert not capsys.readouterr().out


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_run_that_is_cut_off_prints_what_it_has(tmp_path, number):
    file = write(tmp_path / "a.parquet")
    arguments = [file, "--peers", "none", "--copies", "1", "--repeats", "400", "--epochs", "2"]
    arguments += ["--no-shuffle", "--json", str(tmp_path / "a.json")]
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "fastload.tools.cli.bench", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        for line in running.stderr:
            # The reference is read, a contender is checked, and a repeat is done.
            if int(re.match(r"\[(\d+)/", line)[1]) >= 4:
                break
        running.send_signal(number)
        out, _ = running.communicate()
    assert running.returncode == 128 + number
    assert "warning: interrupted: " in out
    assert re.search(r"^fastload .* rows/s|^fastload(, kept in memory)? +\d", out, re.MULTILINE)
    assert (tmp_path / "a.json").exists()


def test_the_fixture_is_a_record(record):
    import jsonschema

    from fastload.tools.bench.report.record import schema

    jsonschema.validate(copy.deepcopy(record), schema(), jsonschema.Draft202012Validator)
