"""Azure stores that a separate process reads with obstore, which does not survive a fork."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import pickle
import struct
import sys
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

__all__ = ["ProcessStore", "main"]

_LENGTH = struct.Struct("<Q")
# The program of the other process. It imports only the modules that it needs: the package itself
# would import torch.
_PROGRAM = """
import sys, types
package = types.ModuleType("fastload")
package.__path__ = [sys.argv[1]]
sys.modules["fastload"] = package
from fastload.source.stores.process_store import main
main()
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
        self._process: asyncio.Task[asyncio.subprocess.Process] | None = None
        self._answers: asyncio.Task[None] | None = None
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
        if self._process is None:
            return
        process = await self._process
        with contextlib.suppress(ProcessLookupError):
            process.kill()  # a forked child may hold its input open
        await process.wait()
        if self._answers is not None:
            await self._answers

    async def _ask(self, method: str, *arguments: Any) -> Any:
        if self._process is None or (self._answers is not None and self._answers.done()):
            self._answers = None
            self._process = asyncio.ensure_future(self._begin())
        process = await asyncio.shield(self._process)
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        assert process.stdin is not None
        process.stdin.write(_frame((number, method, arguments)))
        try:
            return await answer
        finally:
            self._waiting.pop(number, None)

    async def _begin(self) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _PROGRAM,
            str(Path(__file__).parents[2]),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(_frame(self._made_of))  # where nobody else can read the credentials
        self._answers = asyncio.ensure_future(self._take_answers(process.stdout))
        return process

    async def _take_answers(self, reader: Any) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                number, value, error = await _read_frame(reader)
                waiting = self._waiting.get(number)
                if waiting is None or waiting.done():
                    continue
                if error is None:
                    waiting.set_result(value)
                else:
                    waiting.set_exception(error)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the process that reads the store has ended"))


def _frame(value: object) -> bytes:
    data = pickle.dumps(value)
    return _LENGTH.pack(len(data)) + data


async def _read_frame(reader: asyncio.StreamReader) -> Any:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    # The frame was written by this process's child or parent.
    return pickle.loads(await reader.readexactly(length))  # noqa: S301


def main() -> None:
    """Answer the requests of a `ProcessStore` until the input ends."""
    with contextlib.suppress(asyncio.IncompleteReadError, KeyboardInterrupt):
        asyncio.run(_serve())


async def _serve() -> None:
    from fastload.source.stores.obstore_store import NativeStore

    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    out = sys.stdout.buffer
    store = NativeStore(*await _read_frame(reader))

    async def answer(number: int, method: str, arguments: tuple[Any, ...]) -> None:
        value, failure = None, None
        try:
            value = await getattr(store, method)(*arguments)
            if method == "read":
                value = bytes(value)
        except Exception as error:  # noqa: BLE001 - the error is sent to the caller
            failure = error
        try:
            frame = _frame((number, value, failure))
        except Exception:  # noqa: BLE001 - an error that can't be pickled is sent as its text
            frame = _frame((number, None, OSError(str(failure))))
        out.write(frame)
        out.flush()

    tasks: set[asyncio.Task[None]] = set()
    while True:
        task = asyncio.ensure_future(answer(*await _read_frame(reader)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
