"""A folder of a store, to which files are written by fsspec's filesystems."""

from __future__ import annotations

import contextlib
import tempfile
from typing import IO, TYPE_CHECKING, Any

from fastload.errors import StorageError
from fastload.source.stores.obstore_options import GCS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["StoreFolder"]


class StoreFolder:
    """A folder of a store. A file appears whole, or not at all.

    Args:
        url: URL of the folder, such as "gs://bucket/prepared".
        options: fsspec's options for the store.

    Raises:
        StorageError: no package that is installed writes to such a store.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.url = url.rstrip("/")
        self._options = dict(options)
        self._filesystem: Any = None
        self._opened()

    def names(self) -> list[str]:
        """Return the paths below the folder of all files in it."""
        filesystem, root = self._opened()
        try:
            found = filesystem.find(root)
        except FileNotFoundError:
            return []
        return sorted(path[len(root) :].lstrip("/") for path in found)

    def has(self, name: str) -> bool:
        """Return True if a file is there."""
        filesystem, root = self._opened()
        return bool(filesystem.exists(f"{root}/{name}"))

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a file; None if there is no such file."""
        filesystem, root = self._opened()
        try:
            content: bytes = filesystem.cat_file(f"{root}/{name}")
        except FileNotFoundError:
            return None
        return content

    @contextlib.contextmanager
    def publish(self, name: str) -> Iterator[IO[bytes]]:
        """Yield a local file whose bytes appear in the store once the with block has ended."""
        filesystem, root = self._opened()
        with tempfile.NamedTemporaryFile(prefix="fastload-") as file:
            yield file
            file.flush()
            filesystem.put_file(file.name, f"{root}/{name}")

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        filesystem, root = self._opened()
        with contextlib.suppress(FileNotFoundError):
            filesystem.rm_file(f"{root}/{name}")

    def _opened(self) -> tuple[Any, str]:
        import fsspec

        scheme, _, path = self.url.partition("://")
        if self._filesystem is None:
            options = {**self._options, "use_listings_cache": False, "skip_instance_cache": True}
            try:
                if scheme in GCS:  # as in fsspec_store
                    from gcsfs.core import GCSFileSystem

                    self._filesystem = GCSFileSystem(**options)
                else:
                    self._filesystem = fsspec.filesystem(scheme, **options)
            except (ImportError, ValueError) as error:
                raise StorageError(
                    f"Expected a filesystem that writes to {scheme}://, got none: {error}"
                ) from error
        return self._filesystem, self._filesystem._strip_protocol(f"{scheme}://{path}")  # noqa: SLF001

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_filesystem": None}
