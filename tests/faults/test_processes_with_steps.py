"""Forks, signals and exits while threads of per_row work; each in a process of its own."""

import pytest

from support.sample_files import write_sample
from test_processes import interrupted, run, start

ROWS = 30_000

# Rows of the first batch are quick; those of the two in work behind it would take longer than
# TIMEOUT_S.
HEAD = """
import time
from fastload import per_block, per_row
def slow(number):
    time.sleep(0 if number < 500 else 0.2)
    return number
def slow_dataset(fn=slow, **options):
    options = {"shuffle": False, "preprocess": per_row(fn, "id", "n", threads=2), **options}
    return dataset_of(columns=["id"], **options)
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("processes") / "sample.parquet", ROWS, 3000)


@pytest.mark.parametrize(
    "script",
    [
        "running = iter(slow_dataset()); next(running); next(iter(slow_dataset()))",
        "dataset = slow_dataset(); batch = next(iter(dataset)); dataset.close()",
        "import gc; gc.disable(); a = slow_dataset(); a._me = a; a._run = iter(a); next(a._run)",
        "child = next(iter(slow_dataset())) and os.fork()\nif child: os.waitpid(child, 0)",
    ],
)
def test_exit_while_rows_are_in_work(path, script):
    assert run(HEAD + script, path) == ("", "")


def test_fork_in_mid_pass(path):
    script = """
dataset = slow_dataset(abs)
running = iter(dataset)
next(running)
child = os.fork()
if child == 0:
    try:
        next(running)
    except RuntimeError as error:
        assert str(error) == "Expected a pass of this process, got one from before fork", error
    assert sum(batch.rows for batch in dataset) == rows
    dataset.close()
    sys.exit(3)
assert sum(batch.rows for batch in running) == rows - 500
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
"""
    out, _ = run(HEAD + script, path)
    assert out == "3\n"


@pytest.mark.parametrize(
    "step",
    [
        "per_row(row, 'id', 'n', threads=2)",
        "per_row(row, 'id', 'n', threads=0)",
        "block(120)",
        "per_block(block(2), threads=1)",
    ],
)
def test_ctrl_c_leaves_the_dataset_usable(path, step):
    script = f"""
said = []
def say():
    if not said:
        said.append(True)
        print("waits", flush=True)
def row(number):
    if number >= 500:
        say()
    return slow(number)
def block(seconds):
    def step(block):
        if block["id"][0] > 0:
            say()
            time.sleep(seconds)
        return block
    return step
dataset = slow_dataset(preprocess=[{step}])
try:
    list(dataset)
except KeyboardInterrupt:
    print("interrupted", flush=True)
dataset.set_epoch(0)
print(next(iter(dataset)).rows)
"""
    with start(HEAD + script, path) as process:
        code, out, err = interrupted(process)
    assert (code, out) == (0, "interrupted\n500\n"), err
