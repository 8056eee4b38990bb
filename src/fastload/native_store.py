"""Files read without the GIL, by obstore."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from typing_extensions import override

from fastload.errors import StorageError
from fastload.store import Store, StoredFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Buffer

    from fastload.storage import IO

__all__ = ["NativeStore", "UnsupportedOptionsError", "check_forked", "is_native", "was_forked"]

_GCS = ("gs", "gcs")
_S3 = ("s3", "s3a")
# Options of fsspec's filesystems that say nothing about where bytes lie or who may read them.
_IGNORED = {
    "access", "cache_timeout", "cache_type", "check_connection", "consistency",
    "default_block_size", "default_fill_cache", "project", "requests_timeout", "session_kwargs",
    "skip_instance_cache", "timeout", "use_listings_cache", "use_ssl", "version_aware",
}  # fmt: skip
# The process that has used it: its runtime's threads don't live on in a fork's child.
_used_by: list[int] = []


class UnsupportedOptionsError(ValueError):
    """What storage_options ask for has no word in obstore."""


def is_native(protocol: str) -> bool:
    """Whether URLs of that protocol can be read so."""
    return protocol in (*_GCS, *_S3, "http", "https")


def was_forked() -> bool:
    """Whether this process was forked from one that had used it: here it would hang."""
    return bool(_used_by) and _used_by[0] != os.getpid()


def check_forked() -> None:
    """Raises `StorageError` where it would hang."""
    if was_forked():
        raise StorageError(
            "Expected a process that was not forked from one that has read an object store with "
            'transport="native", got a forked worker: write DataLoader(..., '
            'multiprocessing_context="forkserver")'
        )


class NativeStore(Store):
    """A client of one protocol.

    Raises `UnsupportedOptionsError` naming the option, or `StorageError` in a forked process.
    """

    pins = True

    def __init__(self, protocol: str, options: Mapping[str, Any], io: IO) -> None:
        check_forked()
        self._protocol = protocol
        self._config = _config(protocol, options)
        timeout = timedelta(seconds=io.timeout_s)
        self._client = {
            "allow_http": True,
            "connect_timeout": timeout,
            "read_timeout": timeout,
            "timeout": timedelta(days=1),  # of a whole answer; who asks gives up before
            "pool_max_idle_per_host": str(io.concurrency),
        }
        self._stores: dict[str, Any] = {}

    def _store(self, path: str) -> tuple[Any, str]:
        """The store of a file, and its name in that."""
        from obstore import store as stores

        _used_by[:] = [os.getpid()]
        if self._protocol in ("http", "https"):
            parts = urlsplit(path)
            if parts.query:
                raise UnsupportedOptionsError(
                    'Expected a URL without a query, got one: write IO(transport="fsspec")'
                )
            place, name = f"{parts.scheme}://{parts.netloc}", parts.path.lstrip("/")
        else:
            place, _, name = path.partition("/")
        if place not in self._stores:
            common: dict[str, Any] = {
                "client_options": self._client,
                "retry_config": {"max_retries": 0},
            }
            config: Any = self._config
            if self._protocol in _GCS:
                made: Any = stores.GCSStore(place, config=config, **common)
            elif self._protocol in _S3:
                made = stores.S3Store(place, config=config, **common)
            else:
                made = stores.HTTPStore.from_url(place, **common)
            self._stores[place] = made
        return self._stores[place], name

    @override
    async def ls(self, directory: str) -> Sequence[StoredFile]:
        import obstore

        place = directory.partition("/")[0]
        store, prefix = self._store(directory)
        found = await obstore.list(store, prefix, chunk_size=1000).collect_async()
        return [self._file(meta, f"{place}/{meta['path']}") for meta in found]

    @override
    async def info(self, path: str) -> StoredFile | None:
        import obstore

        store, name = self._store(path)
        try:
            return self._file(await obstore.head_async(store, name), path)
        except FileNotFoundError:
            found = await obstore.list_with_delimiter_async(store, name)
            if found["objects"] or found["common_prefixes"]:
                return None
            raise

    def _file(self, meta: Any, path: str) -> StoredFile:
        version = meta["version"] if self._protocol in _GCS else meta["e_tag"]
        return StoredFile(path, meta["size"], version or "")

    @override
    async def read(self, file: StoredFile, start: int, stop: int) -> Buffer:
        import obstore

        store, name = self._store(file.path)
        options: Any = {"range": (start, stop)}
        if file.version and not file.version.startswith("W/"):  # that is no exact one
            options["version" if self._protocol in _GCS else "if_match"] = file.version
        answer = await obstore.get_async(store, name, options=options)
        data: Buffer = await answer.bytes_async()
        return data

    @override
    async def close(self) -> None:
        self._stores.clear()


def _config(protocol: str, options: Mapping[str, Any]) -> dict[str, Any]:
    given = {k: v for k, v in options.items() if k not in _IGNORED and v is not None}
    if protocol in _GCS:
        config = _gcs_config(given)
    elif protocol in _S3:
        config = _s3_config(given)
    else:
        config = {}
    if given:
        raise UnsupportedOptionsError(
            f"Expected storage_options that the native transport knows, got `{next(iter(given))}`"
            f' for {protocol}://: write IO(transport="fsspec")'
        )
    return config


def _gcs_config(given: dict[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    emulator = os.environ.get("STORAGE_EMULATOR_HOST")
    endpoint = given.pop("endpoint_url", None) or emulator
    if endpoint:
        config["base_url"] = endpoint if "://" in endpoint else f"http://{endpoint}"
    token = given.pop("token", None) or ("anon" if emulator else None)
    if token == "anon":  # noqa: S105 - no secret: gcsfs's word for none
        config["skip_signature"] = True
    elif isinstance(token, dict) and token.get("type") == "service_account":
        config["service_account_key"] = json.dumps(token)
    elif isinstance(token, str) and Path(token).is_file():
        config["application_credentials"] = token
    elif token not in (None, "google_default", "cloud"):
        given["token"] = token
    return config


def _s3_config(given: dict[str, Any]) -> dict[str, Any]:
    client = dict(given.pop("client_kwargs", None) or {})
    config: dict[str, Any] = {}
    endpoint = client.pop("endpoint_url", None) or given.pop("endpoint_url", None)
    region = client.pop("region_name", None)
    names = {
        "key": "access_key_id",
        "secret": "secret_access_key",
        "token": "session_token",
        "anon": "skip_signature",
    }
    for name, own in names.items():
        if name in given:
            config[own] = given.pop(name)
    if endpoint:
        config["endpoint"] = endpoint
    if region:
        config["region"] = region
    if client:
        given["client_kwargs"] = client
    return config
