"""Programs that begin in a fork of a process which has imported torch and fastload.

Such a program starts in milliseconds, where a fresh interpreter takes seconds of a core to import
torch, and ends as every program does: its interpreter is finalized. Take a fresh interpreter where
imports, arguments of the interpreter or its first moments count.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

_BEGINNING = "from support.forked_program import serve; serve()"
_HEAD = 8  # bytes of the length of a request
_servers: dict[int, socket.socket] = {}  # by the process that began it


class ForkedProgram:
    """What subprocess.Popen is for a program in text, with pipes for stdout and stderr.

    Args:
        code: the program, which runs as `__main__`.
        arguments: its `sys.argv[1:]`.
        path: the program's file, if it has one.
        new_session: True for a session, and a group of processes, of its own.
    """

    def __init__(
        self, code: str, *arguments: str, path: str | None = None, new_session: bool = False
    ) -> None:
        request = [code, arguments, path, new_session, dict(os.environ), os.getcwd()]
        ends = [os.pipe() for _ in range(3)]
        _send(_server(), request, [write for _, write in ends])
        for _, write in ends:
            os.close(write)
        (out, _), (err, _), (status, _) = ends
        self.stdout, self.stderr = os.fdopen(out), os.fdopen(err)
        self._status = os.fdopen(status)  # a line with the pid, and one with the exit code
        self.pid = int(self._status.readline())
        self.returncode: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self.stdout.close()
        self.stderr.close()

    def wait(self) -> int:
        """Return the exit code once the program has ended."""
        if self.returncode is None:
            self.returncode = int(self._status.readline())
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if the program has not ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the program."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Return the rest of both outputs, once no process can write to them; then close them.

        Raises:
            subprocess.TimeoutExpired: some process writes to them still.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        parts: dict[Any, list[bytes]] = {self.stdout: [], self.stderr: []}
        with selectors.DefaultSelector() as selector:
            for file in () if self.stdout.closed else parts:
                selector.register(file, selectors.EVENT_READ)
            while selector.get_map():
                left = None if deadline is None else deadline - time.monotonic()
                ready = selector.select(left) if left is None or left > 0 else []
                if not ready:
                    raise subprocess.TimeoutExpired("a forked program", timeout or 0)
                for key, _ in ready:
                    part = os.read(key.fd, 1 << 16)
                    parts[key.fileobj].append(part)
                    if not part:
                        selector.unregister(key.fileobj)
        self.__exit__()
        out, err = (b"".join(part).decode() for part in parts.values())
        return out, err


def _server() -> socket.socket:
    """Return the socket of this process's server of forks."""
    if os.getpid() not in _servers:
        ours, theirs = socket.socketpair()
        with theirs:
            path = [os.path.dirname(os.path.dirname(__file__)), *sys.path]
            server = subprocess.Popen(
                [sys.executable, "-c", _BEGINNING],
                stdin=theirs,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
            )
        _servers[os.getpid()] = ours
        atexit.register(_end, server, ours, os.getpid())
    return _servers[os.getpid()]


def _end(server: subprocess.Popen[bytes], ours: socket.socket, pid: int) -> None:
    """End a server, in the process that began it."""
    if os.getpid() == pid:
        ours.close()
        server.wait()


def _send(server: socket.socket, request: Any, files: list[int]) -> None:
    data = json.dumps(request).encode()
    rights = array.array("i", files)
    head = len(data).to_bytes(_HEAD, "little")
    server.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    server.sendall(data)


def serve() -> None:
    """Fork a process for each request that comes through stdin, until it is closed."""
    import fastload  # noqa: F401 - what the programs need not import

    server = socket.socket(fileno=os.dup(0))
    os.set_inheritable(server.fileno(), False)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    watching: set[int] = set()
    while True:
        head, files, *_ = socket.recv_fds(server, _HEAD, 3)
        watching -= {pid for pid in watching if os.waitpid(pid, os.WNOHANG if head else 0)[0]}
        if not head:
            return
        data = b""
        while len(data) < int.from_bytes(head, "little"):
            data += server.recv(1 << 16)
        pid = os.fork()
        if pid == 0:
            server.close()
            _watch(json.loads(data), *files)
            return
        watching.add(pid)
        for file in files:
            os.close(file)


def _watch(request: Any, out: int, err: int, status: int) -> None:
    """Fork the program, and tell its pid and exit code; return in the program."""
    program = os.fork()
    if program:
        for file in (out, err):
            os.close(file)
        os.setsid()
        os.write(status, f"{program}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
        os.write(status, f"{code}\n".encode())
        os._exit(0)
    os.close(status)
    code, arguments, path, new_session, environment, directory = request
    if new_session:
        os.setsid()
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    _become(code, arguments, path)


def _become(code: str, arguments: list[str], path: str | None) -> None:
    """Run a program as `__main__`, whose names live until the interpreter is finalized."""
    main = ModuleType("__main__")
    if path is not None:
        main.__file__ = path
    sys.modules["__main__"] = main
    sys.argv = [path or "-c", *arguments]
    sys.path[0] = os.path.dirname(path) if path else ""
    exec(compile(code, path or "<string>", "exec"), main.__dict__)
