"""The commands end with one sentence and a status, whatever their arguments and their stdout."""

import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import Cache, FastParquetDataset
from fastload.runtime import progress
from fastload.runtime.progress import showing
from fastload.tools.cli import bench, cache
from fastload.tools.cli.arguments import conditions_of
from support.forked import run_forked

STEPS = """
def keeps(block):
    return block

def fails(block):
    raise KeyError("boom")

def refuses(block):
    raise ValueError("boom")
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(100)}), path, row_group_size=10)
    return path


@pytest.fixture
def warming(path, tmp_path, monkeypatch):
    """The arguments of `fastload cache warm`, without the name of a step, which comes last."""
    (tmp_path / "some_steps.py").write_text(STEPS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "some_steps", raising=False)
    return ["warm", str(path), "--cache-dir", str(tmp_path / "c"), "--preprocess", "some_steps:"]


@pytest.mark.parametrize(("step", "error"), [("fails", "KeyError"), ("refuses", "ValueError")])
def test_warm_says_what_a_step_raised(warming, capsys, step, error):
    warming[-1] += step
    assert cache.main([*warming, "--quiet"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"fastload-cache: {error}: ")
    assert "boom" in said


@pytest.mark.parametrize("size", ["lots", "0"])
def test_prune_names_its_option(tmp_path, capsys, size):
    assert cache.main(["prune", "--cache-dir", str(tmp_path), "--max-bytes", size]) == 2
    assert "Expected --max-bytes" in capsys.readouterr().err


def test_an_empty_cache_directory_is_refused(path, capsys):
    assert cache.main(["ls", "--cache-dir", ""]) == 2
    assert "Expected directory of Cache as a path, got an empty str" in capsys.readouterr().err
    with pytest.raises(ValueError, match="got an empty str"):
        FastParquetDataset(path, cache="")
    with pytest.raises(ValueError, match="got an empty str"):
        Cache("")


@pytest.mark.parametrize(
    "command", ["inspect", "cache", pytest.param("bench", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("full", [False, True])
def test_a_closed_or_full_stdout_prints_no_traceback(path, warming, tmp_path, command, full):
    arguments = [str(path)]
    if command == "cache":
        arguments = ["ls", "--cache-dir", str(tmp_path / "c")]
        warming[-1] += "keeps"
        assert cache.main([*warming, "--quiet"]) == 0
    if command == "bench":
        arguments += ["--peers", "none", "--no-shuffle"]
        arguments += ["--epochs", "1", "--repeats", "1", "--copies", "1"]
    if full:
        stdout = os.open("/dev/full", os.O_WRONLY)
    else:
        reading, stdout = os.pipe()
        os.close(reading)
    ended = run_forked(["-m", f"fastload.tools.cli.{command}", *arguments], stdout=stdout)
    os.close(stdout)
    lines = ended.stderr.splitlines(keepends=True)
    err = "".join(line for line in lines if not line.startswith("["))  # without progress
    if full:
        said = f"fastload-{command}: Can't write to stdout: No space left on device\n"
        assert (ended.returncode, err) == (2, said)
    else:
        assert (ended.returncode, err) == (0, "")


# Runs each command in a fork that has the streams of the interpreter, and prints the statuses.
IN_FORKS = """
import os, sys
from fastload.tools.cli.main import main
statuses = []
for words in sys.argv[2:]:
    child = os.fork()
    if not child:
        sys.exit(main(words.split("\\n")))
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
with open(sys.argv[1], "w") as file:
    print(*statuses, file=file)
"""


@pytest.mark.parametrize("stderr", ["2>err", "2>&-"])
def test_closed_streams_print_no_traceback(path, warming, tmp_path, stderr):
    warming[-1] += "keeps"
    commands = [
        ["inspect", str(path)],
        ["inspect", "--json", str(path)],
        ["cache", *warming],
        ["doctor"],
    ]
    run = [sys.executable, "-c", IN_FORKS, "statuses", *map("\n".join, commands)]
    shell = f'exec "$@" <&- >&- {stderr}'
    ended = subprocess.run(["/bin/sh", "-c", shell, "sh", *run], cwd=tmp_path, check=False)
    assert ended.returncode == 0
    assert (tmp_path / "statuses").read_text().split() == ["0"] * len(commands)
    if stderr == "2>err":
        assert "Traceback" not in (tmp_path / "err").read_text()


def test_progress_needs_no_stderr(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    with showing(True) as report:
        report(1, 1)
    monkeypatch.setattr(progress, "_EVERY_S", 0)
    progress.ProgressLine("read", 2, "footers").show(1)
    assert capsys.readouterr().out == ""


def test_the_end_is_shown_once(capsys):
    with showing(True) as report:
        for done in (0, 5, 5, 5):
            report(done, 5)
    assert capsys.readouterr().err.count("\n") == 1


def test_several_processes_show_progress_of_all_rows(warming, capsys):
    warming[-1] += "keeps"
    assert cache.main([*warming, "--jobs", "2"]) == 0
    out, err = capsys.readouterr()
    assert out == "100 rows of 1 file in the cache\n"
    *before, last = err.splitlines()
    assert last.partition(" in ")[0] == "100 rows"
    assert all(" of 100 rows (" in line for line in before)  # shown where a start is slow


def test_characters_that_stdout_lacks_are_escaped(tmp_path):
    pq.write_table(pa.table({"n\u540d": [1]}), tmp_path / "a.parquet")
    ended = subprocess.run(
        [sys.executable, "-m", "fastload.tools.cli.inspect", str(tmp_path)],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "n\\u540d" in ended.stdout


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ("x < 3", 'Expected JSON such as [["day", "<", 30]], got x < 3: '),
        ('["x", "<", 3]', 'got ["x", "<", 3]: write [["x", "<", 3]]'),
        ('[["x", "<"]]', 'Expected JSON such as [["day", "<", 30]], each condition'),
    ],
)
def test_warm_refuses_what_is_no_condition(path, capsys, filters, said):
    with pytest.raises(SystemExit) as ended:
        cache.main(["warm", str(path), "--filters", filters])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("[]", []),
        ('[["x", "<", 3], ["y", "in", [1, 2]]]', [("x", "<", 3), ("y", "in", [1, 2])]),
        ('[[["x", "<", 3]], [["y", "==", "a"]]]', [[("x", "<", 3)], [("y", "==", "a")]]),
    ],
)
def test_conditions_of_json(text, conditions):
    assert conditions_of(text) == conditions


@pytest.mark.parametrize("option", ["--json", "--html", "--svg", "--trace", "--sample"])
def test_bench_refuses_a_file_before_it_measures(path, tmp_path, capsys, option):
    assert bench.main([str(path), option, str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert err == f"fastload-bench: Expected a file to write, got a directory - at {tmp_path}\n"
