"""One question: does fastload deliver its rows whatever the circumstances of the program?

    python tests/life/circumstances.py [--circumstances "no HOME,chdir"] [--ways loop,mix]

Each cell of the table is a process of its own: a circumstance and a way of using fastload. It is a
new interpreter where the circumstance may change imports, else a fork. Each batch has pyarrow's
values, and each epoch has every row once, unless the circumstance allows another ending
(`ENDINGS`). The process says nothing on stderr and leaves no process and no file in /dev/shm.
Prints the table, and exits with 1 if a cell is not as expected.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from ways import WAYS, Way, table, write_files

from support.session import Session
from support.shared_memory import name_semaphores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fastload import Batch, FastParquetDataset, MixedDataset

LIMIT_S = 120  # of a cell
EPOCHS = 2
FILES = 6
PRESSES, AGAIN_S = 3, 15
HALF = 7  # batches before what happens in mid-pass
THREADS = 3
ROWS_CAME = "rows"
REFUSED = "refused"
ENDED = "ended"
INTERRUPTED = "interrupted"


def passes(way: Way, loader: Any) -> None:
    """Run some epochs."""
    for _ in range(EPOCHS):
        for _batch in way.checked(loader):
            pass


def plainly(way: Way, directory: str) -> str:
    """Run some epochs of a dataset, then one of another dataset over the same files."""
    for epochs in (EPOCHS, 1):
        with way.dataset(directory) as dataset:
            loader = way.loader(dataset)
            for _ in range(epochs):
                for _batch in way.checked(loader):
                    pass
    return ROWS_CAME


def with_little_memory(way: Way, directory: str) -> str:
    """Run epochs while the process, and any worker, may map only so much more memory."""
    # Before memory is short: libraries fail in many ways to load themselves.
    table()
    importlib.import_module("numba")
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + ROOM_BYTES, resource.RLIM_INFINITY))
    try:
        return plainly(way, directory)
    except MemoryError:
        ended = REFUSED
    except (OSError, RuntimeError) as error:  # of a system call, a thread or a worker
        if not any(word in str(error) for word in ("memory", "thread", "worker")):
            raise
        ended = REFUSED
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    with way.dataset(directory) as dataset:
        passes(way, dataset)  # without workers: a fork server keeps the limit
    return ended


def elsewhere(way: Way, directory: str) -> str:
    """Change the working directory between the epochs of a dataset with a relative source."""
    os.chdir(directory)
    with way.dataset(".") as dataset:
        loader = way.loader(dataset)
        for place in ("/", tempfile.gettempdir(), directory):
            for _batch in way.checked(loader):
                os.chdir(place)
    return ROWS_CAME


def in_threads(jobs: Iterable[Callable[[], None]]) -> None:
    """Run functions on threads of their own, and raise the first error."""
    errors: list[BaseException] = []

    def run(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    threads = [threading.Thread(target=run, args=[job]) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def threads_apart(way: Way, directory: str) -> str:
    """Let each of some threads read a dataset of its own."""
    in_threads([lambda: plainly(way, directory)] * THREADS)
    return ROWS_CAME


def threads_share(way: Way, directory: str) -> str:
    """Let each of some threads iterate over the same dataset, which has one pass at a time."""
    endings: list[str] = []

    def read() -> None:
        try:
            passes(way, way.loader(dataset))
            endings.append(ROWS_CAME)
        except RuntimeError as error:
            if "A second iter() of the dataset ended this pass" not in str(error):
                raise
            endings.append(ENDED)

    with way.dataset(directory) as dataset:
        in_threads([read] * THREADS)
    with way.dataset(directory) as dataset:
        passes(way, way.loader(dataset))
    return ENDED if ENDED in endings else ROWS_CAME


def threads_take_turns(way: Way, directory: str) -> str:
    """Let some threads take the batches of one pass in turns."""
    turn = threading.Lock()
    with way.dataset(directory) as dataset:
        loader = way.loader(dataset)
        for _ in range(EPOCHS):
            running = way.checked(loader)

            def take(running: Iterator[Batch] = running) -> None:
                batch: Batch | None = None
                while True:
                    with turn:
                        batch = next(running, None)
                    if batch is None:
                        return

            in_threads([take] * THREADS)
    return ROWS_CAME


def forked(way: Way, directory: str) -> str:
    """Fork in mid-pass: the child reads whole epochs, and the parent goes on."""
    with way.dataset(directory) as dataset:
        loader = way.loader(dataset)
        child = 0
        for number, _batch in enumerate(way.checked(loader)):
            if number == HALF:
                child = os.fork()
                if not child:
                    _be_the_child(way, dataset)
        for _batch in way.checked(loader):
            pass
        _, status = os.waitpid(child, 0)
    if status:
        raise AssertionError(f"Expected the forked process to end well, got status {status}")
    return ROWS_CAME


def _be_the_child(way: Way, dataset: FastParquetDataset | MixedDataset) -> None:
    code = 1
    try:
        # multiprocessing cannot reach its fork server from a forked process, and misses what
        # spawned workers have used where the process leaves so abruptly.
        passes(way, dataset if way.start in ("spawn", "forkserver") else way.loader(dataset))
        code = 0
    finally:
        if code:
            sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(code)


def changed_in_place(way: Way, directory: str) -> str:
    """Overwrite each batch that was checked: later batches, epochs and caches never show it."""
    with way.dataset(directory) as dataset:
        loader = way.loader(dataset)
        for _ in range(EPOCHS):
            for batch in way.checked(loader):
                for value in batch.values():
                    _overwrite(value)
    return plainly(way, directory)


def _overwrite(value: Any) -> None:
    if isinstance(value, torch.Tensor):
        value.fill_(True) if value.dtype == torch.bool else value.fill_(77)
        return
    _overwrite(value.values)


def with_float64(way: Way, directory: str) -> str:
    torch.set_default_dtype(torch.float64)
    return plainly(way, directory)


def on_meta(way: Way, directory: str) -> str:
    # DataLoader itself draws the seed of its workers on the default device.
    torch.set_default_device("cpu" if way.start else "meta")
    return plainly(way, directory)


def in_inference_mode(way: Way, directory: str) -> str:
    with torch.inference_mode():
        return plainly(way, directory)


def without_grad(way: Way, directory: str) -> str:
    with torch.no_grad():
        return plainly(way, directory)


def until_ctrl_c(way: Way, directory: str) -> str:
    """Read epoch after epoch until Ctrl-C, which nobody catches."""
    # A shell that runs the tests in the background has its children ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    said = False
    while True:
        with way.dataset(directory) as dataset:
            loader = way.loader(dataset)
            for _ in range(3):
                for _batch in way.checked(loader):
                    if not said:
                        print("reading", flush=True)
                        said = True


ROOM_BYTES = 256 << 20


@dataclass(frozen=True)
class Circumstance:
    """The circumstances of one program.

    Attributes:
        run: reads the rows in the process, and returns how that ended.
        flags: arguments of the interpreter.
        environment: variables to set, or None to remove the variable.
        descriptors: how many files the process may have open.
        files: how many files the rows lie in.
        endings: the endings that are expected.
    """

    run: Callable[[Way, str], str] = plainly
    flags: tuple[str, ...] = ()
    environment: dict[str, str | None] = field(default_factory=dict)
    descriptors: int | None = None
    files: int = FILES
    endings: tuple[str, ...] = (ROWS_CAME,)

    @property
    def forked(self) -> bool:
        """True if the program may begin with torch and fastload imported."""
        return not self.flags and not self.environment

    def command(self, name: str, way: str, directory: str) -> list[str]:
        """Return the command of a cell."""
        interpreter = [] if self.forked else [sys.executable, *self.flags]
        return [*interpreter, __file__, "--one", name, way, directory]


FEW_CORES = "ignore:This DataLoader will create"  # said where workers are more than cores
NO_CACHE = {"FASTLOAD_CACHE_DIR": None, "XDG_CACHE_HOME": None}
CIRCUMSTANCES = {
    "development mode": Circumstance(flags=("-X", "dev", "-W", "error", "-W", FEW_CORES)),
    "optimized": Circumstance(flags=("-O",)),
    "no HOME": Circumstance(environment={"HOME": None, "NUMBA_CACHE_DIR": None, **NO_CACHE}),
    "HOME is no directory": Circumstance(environment={"HOME": "/dev/null", **NO_CACHE}),
    "64 descriptors": Circumstance(descriptors=64, files=100),
    "128 descriptors": Circumstance(descriptors=128, files=300),
    "address space": Circumstance(with_little_memory, endings=(ROWS_CAME, REFUSED)),
    "chdir": Circumstance(elsewhere),
    "threads apart": Circumstance(threads_apart),
    "threads share a dataset": Circumstance(threads_share, endings=(ROWS_CAME, ENDED)),
    "threads share a pass": Circumstance(threads_take_turns),
    "fork in mid-pass": Circumstance(forked),
    "default dtype": Circumstance(with_float64),
    "default device": Circumstance(on_meta),
    "inference mode": Circumstance(in_inference_mode),
    "no grad": Circumstance(without_grad),
    "changed in place": Circumstance(changed_in_place),
    "Ctrl-C": Circumstance(until_ctrl_c, endings=(INTERRUPTED,)),
}


def run_one(name: str, way: str, directory: str) -> None:
    """Run a cell in this process, and print its ending."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    name_semaphores()
    multiprocessing.set_forkserver_preload(["__main__", "torch", "fastload"])
    descriptors = CIRCUMSTANCES[name].descriptors
    if descriptors:
        torch.arange(1)  # torch's first operation reads /proc/cpuinfo, and prints if no file opens
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    print(CIRCUMSTANCES[name].run(WAYS[way], directory), flush=True)


def cell(name: str, way: str, seed: int = 0) -> str:
    """Run a cell in a process of its own; return its ending, or what is wrong with the cell."""
    circumstance = CIRCUMSTANCES[name]
    environment = {**os.environ, **circumstance.environment}
    environment = {key: value for key, value in environment.items() if value is not None}
    with tempfile.TemporaryDirectory() as directory:
        write_files(directory, circumstance.files)
        command, forked = circumstance.command(name, way, directory), circumstance.forked
        with Session(command, forked=forked, env=environment) as session:
            if INTERRUPTED in circumstance.endings:
                ended = _interrupted(session, random.Random(f"{name} {way} {seed}"))
            else:
                out, err = session.output(LIMIT_S + 30)
                ended = out.strip() if not session.process.returncode else _exit_code(session)
                ended += f"\n{err}" if err else ""
            left = session.left()
            return ended + (f"\nleft: {left}" if left else "")


def _exit_code(session: Session) -> str:
    return f"exit code {session.process.returncode}"


def _interrupted(session: Session, moment: random.Random) -> str:
    """Press Ctrl-C at a random moment of a program that reads.

    Python drops the KeyboardInterrupt of a moment in a finalizer: then the user presses again. What
    Python's multiprocessing prints of workers that have just begun is no part of the table.
    """
    if not session.process.stdout.readline():
        return f"{_exit_code(session)}\n{session.output(LIMIT_S)[1]}"
    time.sleep(moment.uniform(0, 1))
    for _ in range(PRESSES):
        os.killpg(session.process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            _, err = session.process.communicate(timeout=AGAIN_S)
            ended = session.process.returncode == -signal.SIGINT
            return INTERRUPTED if ended else f"{_exit_code(session)}\n{err}"
    return f"goes on after Ctrl-C\n{session.output(0)[1]}"


def is_expected(name: str, ended: str) -> bool:
    """Return True if a circumstance may end so."""
    return ended in CIRCUMSTANCES[name].endings


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--circumstances", default=",".join(CIRCUMSTANCES))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--seed", type=int, default=0, help="of the moments of Ctrl-C")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        run_one(*arguments.one)
        return 0
    ways, wrong = arguments.ways.split(","), []
    print(f"{'':24}" + "".join(f"{way:>15}" for way in ways))
    for name in arguments.circumstances.split(","):
        print(f"{name:24}", end="")
        for way in ways:
            began = time.monotonic()
            ended = cell(name, way, arguments.seed)
            right = is_expected(name, ended)
            if not right:
                wrong.append((name, way, ended))
            shown = f"{'' if right else '! '}{ended.splitlines()[0]} {time.monotonic() - began:.1f}"
            print(f"{shown:>15}", end="", flush=True)
        print()
        for of, way, ended in wrong:
            if of == name:
                print(f"=== {name}, {way}: {ended}\n", flush=True)
    print(f"\n{len(wrong)} cells are not as expected")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
