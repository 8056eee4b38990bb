"""Forks, signals and exits at the worst moment; each in a process of its own."""

import os
import re
import signal
import subprocess
import time

import pytest

from support.forked import Forked
from support.sample_files import write_sample

ROWS = 30_000
TIMEOUT_S = 60

# A shell that runs the tests in the background has its children ignore Ctrl-C.
HEAD = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from fastload import FastParquetDataset
path, rows = sys.argv[1], int(sys.argv[2])
def dataset_of(**options):
    return FastParquetDataset(path, batch_size=500, **{"shuffle": True, "threads": 2, **options})
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("processes") / "sample.parquet", ROWS, 3000)


def start(script, path):
    return Forked(["-c", HEAD + script, path, str(ROWS)])


def run(script, path, code=0):
    """What a script prints that ends in time with exit code `code`."""
    with start(script, path) as process:
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode == code, err
    return out, err


@pytest.mark.parametrize("threads", [0, 2])
def test_fork_in_mid_pass_and_both_go_on(path, threads):
    script = f"""
dataset = dataset_of(threads={threads})
running = iter(dataset)
first = next(running)
child = os.fork()
if child == 0:
    assert len(first["name"].tolist()) == 500
    del first
    dataset.stats()
    assert sum(batch.rows for batch in dataset) == rows
    dataset.close()
    os._exit(7)
assert sum(batch.rows for batch in running) == rows - 500
assert sum(batch.rows for batch in dataset) == rows
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
"""
    out, _ = run(script, path)
    assert out == "7\n"


def test_old_pass_in_a_forked_child(path):
    script = """
running = iter(dataset_of())
next(running)
child = os.fork()
if child == 0:
    try:
        next(running)
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    out, _ = run(script, path)
    assert out == "Expected a pass of this process, got one from before fork\n"


def test_forked_child_exits_as_usual(path):
    """Destructors and exit handlers run in the child, on what it inherited."""
    script = """
dataset = dataset_of()
running = iter(dataset)
kept = [next(running) for _ in range(3)]
child = os.fork()
if child == 0:
    sys.exit(3)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), sum(batch.rows for batch in running))
"""
    out, _ = run(script, path)
    assert out == f"3 {ROWS - 1500}\n"


@pytest.mark.parametrize(
    "script",
    [
        "running = iter(dataset_of()); next(running)",
        "running = iter(dataset_of()); kept = list(running)",
        "dataset = dataset_of(); batch = next(iter(dataset)); column = batch['id']; del batch",
        "running = iter(dataset_of(threads=0)); next(running)",
        "import gc; gc.disable(); a = dataset_of(); a._me = a; a._run = iter(a); next(a._run)",
    ],
)
def test_exit_with_a_live_iterator(path, script):
    out, err = run(script, path)
    assert out == err == ""


def test_exception_in_the_consumer(path):
    script = """
for batch in dataset_of():
    raise LookupError("of the consumer")
"""
    _, err = run(script, path, code=1)
    assert err.endswith("LookupError: of the consumer\n")


def test_pass_in_another_thread(path):
    script = """
import threading
dataset = dataset_of()
taken = []
thread = threading.Thread(target=lambda: taken.extend(dataset))
thread.start()
thread.join()
assert sum(batch.rows for batch in taken) == sum(batch.rows for batch in dataset) == rows
"""
    run(script, path)


def test_daemon_thread_at_exit(path):
    """Comes back from the core when there is no interpreter any more."""
    script = """
import threading, time
import numpy as np
from fastload.runtime.native import core
numbers = np.arange(1_000_000)
seeds = numbers.astype(np.uint64)
def work():
    while True:
        core.xxhash64_integers(numbers, seeds)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""
    assert run(script, path) == ("", "")


def test_spawned_workers_exit_while_they_send(path):
    """What they have made is copied without the GIL in a thread that outlives a dropped pass."""
    script = f"""
sys.path.insert(0, {os.path.dirname(__file__)!r})
from endings import with_much_more
from torch.utils.data import DataLoader
loader = DataLoader(dataset_of(), batch_size=None, num_workers=2, prefetch_factor=4,
                    multiprocessing_context="spawn", collate_fn=with_much_more)
running = iter(loader)
next(running)
workers = running._workers
del running
print(*(worker.exitcode for worker in workers))
"""
    assert run(script, path) == ("0 0\n", "")


def test_threads_that_the_system_refuses(path):
    script = """
import resource
mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
stacks = 400 << 20  # of 200 threads, or fewer
resource.setrlimit(resource.RLIMIT_AS, (mapped + stacks, resource.RLIM_INFINITY))
try:
    iter(dataset_of(threads=1000))
except RuntimeError as error:
    print(error)
"""
    out, err = run(script, path)
    assert out.startswith("Expected 1000 threads, got "), out
    assert "(ulimit -u, pids.max of the cgroup) or of virtual memory (ulimit -v): " in out
    assert err == ""


def test_memory_of_workers_that_the_system_refuses(path):
    script = """
import resource
from torch.utils.data import DataLoader
loader = DataLoader(dataset_of(), batch_size=None, num_workers=2, timeout=60)
running = iter(loader)
mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + (64 << 20), resource.RLIM_INFINITY))
try:
    next(running)
except Exception as error:
    print(type(error).__name__, error)
"""
    out, _ = run(script, path)
    assert re.match("StorageError Expected [0-9]+ bytes of shared memory, got Cannot allocate", out)
    assert "raise the limit, ulimit -v, or use fewer workers" in out


def test_memory_of_workers_that_a_limit_of_open_files_keeps_from_this_process(path):
    script = """
import errno
from multiprocessing import reduction
from torch.utils.data import DataLoader

def refused(*_):  # as the system refuses it where the worker has no descriptor left
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

def begin(_):
    reduction.send_handle = refused

heard, told = os.pipe()
os.dup2(told, 2)  # the worker prints its error there
loader = DataLoader(
    dataset_of(), batch_size=None, num_workers=1, worker_init_fn=begin, timeout=60,
    multiprocessing_context="fork",
)
running = iter(loader)
try:
    next(running)
except Exception as error:
    print(type(error).__name__, error)
printed = b""
while b"Too many open files" not in printed:  # the end of this process kills the worker
    printed += os.read(heard, 4096)
print(printed.decode())
"""
    out, _ = run(script, path)
    assert out.startswith("StorageError Expected the memory of worker process "), out
    assert "raise the limit, ulimit -n, or use fewer workers" in out
    assert "Too many open files" in out


def test_fork_while_the_next_pass_is_prepared(path):
    """The child closes copies of both passes, whatever lock was held at that moment."""
    script = """
dataset = dataset_of()
list(dataset)
for _ in range(30):
    rows_here = 0
    for batch in dataset:
        rows_here += batch.rows
        if dataset._ahead._feed is not None:
            break
    assert dataset._ahead._feed is not None
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        assert sum(batch.rows for batch in dataset) == rows
        dataset.close()
        os._exit(7)
    rows_here += sum(batch.rows for batch in dataset._pass)
    assert rows_here == rows
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7, status
"""
    assert run(script, path) == ("", "")


def test_fork_while_another_thread_begins_a_pass(path):
    script = """
import threading
dataset = dataset_of()
def fork():
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        assert sum(batch.rows for batch in dataset) == rows
        os._exit(7)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status))
thread = threading.Thread(target=fork)
with dataset._epochs.beginning:
    thread.start()
    thread.join()
"""
    assert run(script, path) == ("7\n", "")


# Says that the main thread waits for a batch, once the thread does.
SAY_WHEN_WAITING = """
import threading, time
def say_when_waiting(main=threading.main_thread().ident):
    while sys._current_frames()[main].f_code.co_name != "next_of":
        time.sleep(0.001)
    print("waits", flush=True)
threading.Thread(target=say_when_waiting, daemon=True).start()
"""


def interrupted(process):
    """Send Ctrl-C once the script says that it waits; return the exit code and the output."""
    assert process.stdout.readline() == "waits\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, out, err


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_during_next(path, threads):
    """The first batch of a window of very many rows takes seconds: Ctrl-C comes while it waits."""
    script = f"""
running = iter(FastParquetDataset([path] * 1000, batch_size=30_000_000, threads={threads},
                                  memory_budget="40GB"))
try:
    next(running)
    print("too quick", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)  # closing has to wait for tasks that have begun
"""
    with start(SAY_WHEN_WAITING + script, path) as process:
        code, out, err = interrupted(process)
    assert (code, out) == (0, "interrupted\n"), err


def test_ctrl_c_leaves_the_dataset_usable(path):
    script = """
dataset = dataset_of()
try:
    while True:
        for batch in dataset:
            del batch
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert sum(batch.rows for batch in dataset) == rows
"""
    with start(SAY_WHEN_WAITING + script, path) as process:
        code, out, err = interrupted(process)
    assert (code, out) == (0, "interrupted\n"), err


def test_worker_that_dies(path):
    script = """
from torch.utils.data import DataLoader
def die(batch):
    os._exit(5)
loader = DataLoader(dataset_of(), batch_size=None, num_workers=2, collate_fn=die, timeout=30)
try:
    list(loader)
except RuntimeError as error:
    assert "exited unexpectedly" in str(error), error
    print("told")
loader = DataLoader(dataset_of(), batch_size=None, num_workers=2, timeout=30)
print(sum(batch.rows for batch in loader))
"""
    out, _ = run(script, path)
    assert out == f"told\n{ROWS}\n"


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_consumer_that_is_killed_leaves_no_workers(path, context):
    script = f"""
import multiprocessing
from torch.utils.data import DataLoader
multiprocessing.set_forkserver_preload(["fastload"])
loader = DataLoader(
    dataset_of(), batch_size=None, num_workers=2, multiprocessing_context="{context}"
)
running = iter(loader)
next(running), next(running)
print(*(worker.pid for worker in running._workers), flush=True)
os.kill(os.getpid(), 9)
"""
    out, _ = run(script, path, code=-9)
    pids = [int(pid) for pid in out.split()]
    assert len(pids) == 2
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any(is_alive(pid) for pid in pids):
        time.sleep(0.1)
    assert not any(is_alive(pid) for pid in pids)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
