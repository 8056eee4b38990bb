"""The store of the Hugging Face Hub."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from fastload.source.stores.errors import status_of
from fastload.source.stores.hub.address_readers import NativeReader, SessionReader
from fastload.source.stores.hub.hub_api import Address, HubApi, Revision
from fastload.source.stores.obstore_store import is_whole, lacks_headers
from fastload.source.stores.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor

    from typing_extensions import Buffer

    from fastload.source.files import StoredFile
    from fastload.source.stores.hub.address_readers import AddressReader
    from fastload.source.stores.io import IO

__all__ = ["HubMemory", "HubStore"]

# A signed address that has expired is answered so.
_EXPIRED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


@dataclass
class HubMemory:
    """What a dataset has learned from the Hub; worker processes get a copy with the dataset.

    Attributes:
        commits: the commit of each revision: a branch names one commit as long as the dataset
            lives.
        addresses: the address of each file, by path.
    """

    commits: dict[Revision, str] = field(default_factory=dict)
    addresses: dict[str, Address] = field(default_factory=dict, repr=False)


class HubStore(Store):
    """The Hub, asked through huggingface_hub; bytes come from the addresses that the Hub gives.

    Args:
        options: options of `HfFileSystem`.
        io: how files are read.
        threads: threads for calls of huggingface_hub.
        memory: what the dataset has learned from the Hub.
        native: read bytes with obstore.

    Raises:
        StorageError: huggingface_hub is not installed.
    """

    pins = True

    def __init__(
        self,
        options: Mapping[str, Any],
        io: IO,
        threads: Executor,
        memory: HubMemory,
        *,
        native: bool,
    ) -> None:
        self._api = HubApi(options, io.timeout_s)
        self._threads = threads
        self._memory = memory
        self._session = SessionReader(io)
        self._reader: AddressReader = NativeReader(io, self._session) if native else self._session
        self._asking: dict[object, asyncio.Task[Any]] = {}

    async def _run(self, call: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *args)

    def check(self, path: str) -> None:
        """Check that a path names a repository, without a request.

        Raises:
            ValueError: the path names none.
        """
        self._api.parse(path)

    async def pin(self, path: str) -> str:
        """Return a path with the commit in place of the branch or tag that the path names."""
        revision, name = self._api.parse(path)
        commit = self._memory.commits.get(revision)
        if commit is None:
            found = await self._once(revision, self._api.commit, revision)
            commit = self._memory.commits.setdefault(revision, found)
        pinned = f"{revision.repo}@{commit}"
        return f"{pinned}/{name}" if name else pinned

    @override
    async def ls(self, directory: str) -> Sequence[StoredFile]:
        found: Sequence[StoredFile] = await self._run(self._api.ls, directory.rstrip("/"))
        return found

    @override
    async def info(self, path: str) -> StoredFile | None:
        found: StoredFile | None = await self._run(self._api.info, path)
        return found

    @override
    async def read(self, file: StoredFile, start: int, stop: int) -> Buffer:
        address = self._memory.addresses.get(file.path) or await self._ask(file)
        try:
            data = await self._read_at(file, address, start, stop)
        except Exception as error:
            if status_of(error) not in _EXPIRED:
                raise
            # Another request may have asked for a new address in the meantime.
            new = self._memory.addresses.get(file.path)
            if new is None or new == address:
                new = await self._ask(file)
            data = await self._read_at(file, new, start, stop)
        if len(memoryview(data)) == file.size:  # the Hub may answer with all of a small file
            return memoryview(data)[start:stop]
        return data

    async def _read_at(self, file: StoredFile, address: Address, start: int, stop: int) -> Buffer:
        try:
            return await self._reader.read(file, address, start, stop)
        except Exception as error:
            if not lacks_headers(error) and not is_whole(error):
                raise
        return await self._session.read(file, address, start, stop)

    async def _ask(self, file: StoredFile) -> Address:
        """Ask the Hub for a new address of a file, once for all requests that wait for it."""
        address: Address = await self._once(file.path, self._api.address, file)
        self._memory.addresses[file.path] = address
        return address

    async def _once(self, key: object, call: Callable[..., Any], *args: Any) -> Any:
        """Return the result of a call; callers with one key at the same time share one call."""
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.ensure_future(self._run(call, *args))
            asking.add_done_callback(partial(self._asked, key))
        return await asyncio.shield(asking)

    def _asked(self, key: object, asking: asyncio.Task[Any]) -> None:
        self._asking.pop(key, None)
        if not asking.cancelled():
            asking.exception()  # the callers may have been cancelled

    @override
    async def close(self) -> None:
        await self._reader.close()
