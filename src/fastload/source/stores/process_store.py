"""Azure stores that a separate process reads with obstore, which does not survive a fork.

A dataset is made before its workers are forked, and a worker can't use obstore if its parent has
used obstore: the threads of obstore's runtime don't exist in the worker. So the process that makes
a dataset does not use obstore itself. fsspec lists other stores; docs/notes/source-stores.md says
why fsspec's filesystem for Azure, adlfs, is not asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import subprocess
import sys
import threading
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from fastload.source.stores.obstore_options import NativeOptions
from fastload.source.stores.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Buffer

    from fastload.source.files import StoredFile
    from fastload.source.stores.io import IO

__all__ = ["ProcessStore"]

# The program of the other process. It imports only the modules that it needs: the package itself
# would import torch.
_PROGRAM = """
import sys, types
package = types.ModuleType("fastload")
package.__path__ = [sys.argv[1]]
sys.modules["fastload"] = package
from fastload.source.stores.process_store import main
main(int(sys.argv[2]))
"""


class ProcessStore(Store):
    """A `NativeStore` in another process, which starts with the first request.

    Raises:
        UnsupportedOptionsError: obstore has no counterpart of an option, which is named.
    """

    pins = True

    def __init__(self, protocol: str, options: Mapping[str, Any], io: IO) -> None:
        NativeOptions.of(protocol, options)
        self._made_of = (protocol, dict(options), io)
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count()

    @override
    async def ls(self, directory: str) -> Sequence[StoredFile]:
        found: list[StoredFile] = await self._ask("ls", directory)
        return found

    @override
    async def info(self, path: str) -> StoredFile | None:
        found: StoredFile | None = await self._ask("info", path)
        return found

    @override
    async def read(self, file: StoredFile, start: int, stop: int) -> Buffer:
        data: bytes = await self._ask("read", file, start, stop)
        return data

    @override
    async def close(self) -> None:
        self._end()

    async def _ask(self, method: str, *arguments: Any) -> Any:
        if self._process is None:
            self._begin()
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._pipe.send((number, method, arguments))
            return await answer
        finally:
            self._waiting.pop(number, None)

    def _begin(self) -> None:
        self._pipe, other = Pipe()
        with other:
            descriptor = other.fileno()
            root = str(Path(__file__).parents[2])
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with a fixed program
                [sys.executable, "-c", _PROGRAM, root, str(descriptor)],
                pass_fds=[descriptor],
                stdin=subprocess.DEVNULL,
            )
        self._pipe.send(self._made_of)  # where no other process can read the credentials
        asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._take_answer)

    def _take_answer(self) -> None:
        try:
            number, value, error = self._pipe.recv()
        except (EOFError, OSError):
            self._end()
            return
        waiting = self._waiting.get(number)
        if waiting is None or waiting.done():
            return
        if error is None:
            waiting.set_result(value)
        else:
            waiting.set_exception(error)

    def _end(self) -> None:
        if self._process is None:
            return
        asyncio.get_running_loop().remove_reader(self._pipe.fileno())
        self._pipe.close()
        self._process.kill()  # a forked child may hold a copy of the pipe open
        self._process.wait()
        self._process = None
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the process that reads the store has ended"))


def main(descriptor: int) -> None:
    """Answer the requests of a `ProcessStore`, until the `ProcessStore` closes the pipe.

    Args:
        descriptor: file descriptor of this process's end of the pipe.
    """
    from fastload.source.stores.obstore_store import NativeStore

    pipe = Connection(descriptor)
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        store = NativeStore(*pipe.recv())
        while True:
            asyncio.run_coroutine_threadsafe(_answer(pipe, store, *pipe.recv()), loop)
    os._exit(0)  # without waiting for requests that nobody needs


async def _answer(
    pipe: Connection, store: Store, number: int, method: str, arguments: tuple[Any, ...]
) -> None:
    value, failure = None, None
    try:
        value = await getattr(store, method)(*arguments)
        if method == "read":
            value = bytes(value)
    except Exception as error:  # noqa: BLE001 - the error is sent to the caller
        failure = error
    try:
        pipe.send((number, value, failure))
    except Exception:  # noqa: BLE001 - an error that can't be pickled is sent as its text
        pipe.send((number, None, OSError(str(failure))))
