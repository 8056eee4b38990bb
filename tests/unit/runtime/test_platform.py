"""What other systems do in place of Linux's own calls, tried here."""

import mmap
import os
import shutil
import subprocess
import sys
import threading

import pytest

from fastload.runtime import child_processes as process_watch
from fastload.runtime import platform as system
from fastload.tools.bench import machine


@pytest.fixture(params=[True, False], ids=["linux", "portable"])
def linux(request, monkeypatch):
    if request.param and not system.LINUX:
        pytest.skip("Linux's own calls are not there")
    for module in (system, machine, process_watch):
        monkeypatch.setattr(module, "LINUX", request.param)
    return request.param


@pytest.fixture
def ps(linux):
    if not linux and shutil.which("ps") is None:
        pytest.skip("ps is not on PATH")


def test_anonymous_files_are_read_written_and_have_no_name(linux):
    descriptor = system.anonymous_file()
    try:
        os.pwrite(descriptor, b"abc", 0)
        assert os.pread(descriptor, 9, 1) == b"bc"
        assert os.fstat(descriptor).st_nlink == 0
    finally:
        os.close(descriptor)


def test_there_is_a_core(linux):
    assert 1 <= system.usable_cores() <= os.cpu_count()
    assert 1 <= system.launcher_cores() <= os.cpu_count()


def test_threads_of_python_are_named(linux):
    found, over = [], threading.Event()

    def look():
        found.append(system.thread_name(threading.get_native_id()))
        over.wait()

    thread = threading.Thread(target=look, name="some-thread")
    thread.start()
    over.set()
    thread.join()
    # Before Python 3.14 the system is not told the name.
    assert found[0] == "some-thread" or linux
    assert system.thread_name(2**31 - 1) == f"thread {2**31 - 1}"


@pytest.mark.usefixtures("ps")
def test_memory_of_this_process_is_known():
    before = machine.resident_bytes()
    # Not a bytearray, which may lie in memory that an earlier test has freed.
    with mmap.mmap(-1, 64 << 20) as held:
        held.write(b"x" * (64 << 20))
        assert machine.resident_bytes() - before > 48 << 20
    assert machine.own_peak_bytes() - before > 48 << 20
    machine.forget_peak()
    assert machine.peak_bytes() > 1 << 20


@pytest.mark.usefixtures("ps")
def test_processes_know_their_parents():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in machine._descendants()
        if shutil.which("ps"):
            process = system.processes()[child.pid]
            assert process.parent == os.getpid()
            assert process.resident_bytes >= 0
    finally:
        child.communicate(b"\n")
    assert child.pid not in machine._descendants()


@pytest.mark.parametrize(
    ("time", "seconds"),
    [("00:00:07", 7), ("1-02:03:04", 93784), ("0:01.52", 1.52), ("61:02.00", 3662)],
)
def test_times_of_ps_are_read(time, seconds):
    assert system._seconds(time) == pytest.approx(seconds)


def test_ends_of_processes_are_told_where_the_system_does(linux):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ended = threading.Event()
    process_watch.call_at_end_of(child.pid, ended.set)
    assert not ended.is_set()
    child.communicate(b"\n")
    if linux:
        assert ended.wait(60)
    else:
        assert not ended.is_set()
