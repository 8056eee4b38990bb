"""Programs that are forks of one process, which has imported torch and fastload.

The imports cost a new interpreter some 3 s of CPU. A program that is forked has them already, and
the interpreter's flags of the process; all else is as in a new interpreter, its end included. For a
call of a function, `own_process` is enough.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Self

_MESSAGE_BYTES = 1 << 20
_PID_BYTES = 8


class Forked:
    """A forked program in a session of its own, with the interface of Popen that tests need.

    Args:
        command: a script and its arguments; or "-m", a module and its arguments; or "-c", the text
            of a program and its arguments.
        stdin: a file descriptor; None = no input.
        stdout: a file descriptor; None = a pipe.
        stderr: a file descriptor; None = a pipe.
        cwd: the working directory; None = that of this process.
        env: the environment; None = that of this process.
        imports: modules that this program and all later ones have imported.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        imports: Sequence[str] = (),
    ) -> None:
        self.args = list(command)
        self.returncode: int | None = None
        self._report, theirs = socket.socketpair()
        with contextlib.ExitStack() as ours:
            ours.enter_context(theirs)
            nothing = ours.enter_context(open(os.devnull, "rb"))
            streams, pipes = [nothing.fileno() if stdin is None else stdin], []
            for given in (stdout, stderr):
                if given is None:
                    reading, writing = os.pipe()
                    ours.callback(os.close, writing)
                    streams.append(writing)
                    pipes.append(open(reading))  # noqa: SIM115 - closed with the program
                else:
                    streams.append(given)
                    pipes.append(None)
            self.stdout, self.stderr = pipes
            request = {
                "command": self.args,
                "imports": list(imports),
                "cwd": str(cwd or os.getcwd()),
                "env": dict(os.environ if env is None else env),
            }
            descriptors = [*streams, theirs.fileno()]
            socket.send_fds(_preloaded(), [json.dumps(request).encode()], descriptors)
        self.pid = self._told()
        self._written: list[str | None] = [None, None]
        self._readers = [
            threading.Thread(target=self._read, args=[number], daemon=True)
            for number, pipe in enumerate(pipes)
            if pipe
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        for pipe in (self.stdout, self.stderr):
            if pipe:
                pipe.close()

    def send_signal(self, number: int) -> None:
        """Send a signal, if the program has not ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the program."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code.

        Raises:
            TimeoutExpired: the program goes on.
        """
        if self.returncode is None:
            self._report.settimeout(timeout)
            try:
                self.returncode = os.waitstatus_to_exitcode(self._told())
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._report.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str | None, str | None]:
        """Return what the program wrote to its pipes, after all that hold these have ended.

        Raises:
            TimeoutExpired: a program goes on.
        """
        for reader in self._readers:
            if reader.ident is None:
                reader.start()
        for reader in self._readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(timeout)
        out, err = self._written
        return out, err

    def _read(self, number: int) -> None:
        pipe = (self.stdout, self.stderr)[number]
        with pipe:
            self._written[number] = pipe.read()

    def _told(self) -> int:
        told = self._report.recv(_PID_BYTES)
        if len(told) != _PID_BYTES:
            raise RuntimeError(f"Expected the process that forks {self.args} to live")
        return int.from_bytes(told, "little")


def run_forked(
    command: Sequence[str], *, timeout: float = 120, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a forked program to its end, as subprocess.run does; `options` as of Forked."""
    with Forked(command, **options) as program:
        try:
            out, err = program.communicate(timeout)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(program.args, program.wait(), out, err)


@functools.cache
def _preloaded() -> socket.socket:
    """Start the process that forks, once; return the socket that takes requests."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        number = theirs.fileno()
        process = subprocess.Popen(
            [sys.executable, __file__, str(number)],
            pass_fds=[number],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _next_program(requests: socket.socket) -> list[str]:
    """Fork for each request, until the tests end; return in each fork, with its command."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, _MESSAGE_BYTES, 4)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not message:
            sys.exit()
        request = json.loads(message)
        for name in request["imports"]:
            importlib.import_module(name)
        gc.freeze()  # a collection would copy the pages of all modules
        if not os.fork():
            requests.close()
            return _kept(request, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _kept(request: dict[str, Any], stdin: int, stdout: int, stderr: int, report: int) -> list[str]:
    """Fork the program and wait for its end, which only a parent learns; return in the fork."""
    program = os.fork()
    if program:
        for descriptor in (stdin, stdout, stderr):
            os.close(descriptor)
        status = os.waitpid(program, 0)[1]
        os.write(report, status.to_bytes(_PID_BYTES, "little"))
        os._exit(0)
    os.setsid()
    for number, descriptor in enumerate((stdin, stdout, stderr)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    os.write(report, os.getpid().to_bytes(_PID_BYTES, "little"))
    os.close(report)
    command: list[str] = request["command"]
    return command


def _run(command: list[str]) -> None:
    """Run a script, a module or a text in this process, as the interpreter does."""
    if command[0] == "-m":
        sys.argv[:], sys.path[0] = command[1:], os.getcwd()
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        return
    # It stays `__main__` until the process has ended, so runpy won't do.
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    if command[0] == "-c":
        sys.argv[:], sys.path[0] = ["-c", *command[2:]], ""
        script, text = "<string>", command[1].encode()
    else:
        script = main.__file__ = str(Path(command[0]).resolve())
        sys.argv[:], sys.path[0] = [script, *command[1:]], str(Path(script).parent)
        text = Path(script).read_bytes()
    exec(compile(text, script, "exec"), main.__dict__)


def _main() -> None:
    import torch

    import fastload  # noqa: F401 - for the programs

    command = _next_program(socket.socket(fileno=int(sys.argv[1])))
    if "OMP_NUM_THREADS" in os.environ:  # which torch has read before
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    _run(command)


if __name__ == "__main__":
    _main()
