"""URLs of fsspec that name more than a scheme and a path: chains, and URLs with a host.

The kind of a file of such a URL is the URL without the path: "ftp://host", "zip://::x.zip".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastload.source.stores.obstore_options import AZURE, GCS, S3
from fastload.source.stores.store import HTTP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["is_known", "is_one_at_a_time", "open_url", "options_in_chain", "split_url"]

_CHAIN = "::"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
# The scheme of a URL, which ends before "://", or before "::" in a chain.
_FIRST = re.compile(rf"({_SCHEME.pattern})(?:://|::)")
# Filesystems that break if two threads use them: they have one connection or one open file.
_ONE_AT_A_TIME = ("ftp", "libarchive", "tar", "zip")


def split_url(url: str) -> tuple[str, str] | None:
    """Split a URL that fsspec's filesystems read into the kind and the path of its files.

    Returns:
        The kind and the path; None if the text is not a URL of fsspec, or if other modules read
        the URL: files of the large object stores, and of web servers.
    """
    first = _FIRST.match(url)
    if first is None:
        return None
    bits = url.split(_CHAIN)
    if len(bits) > 1:
        if not is_known(first[1].lower()):
            return None
        # Caches in front of a chain have no path of their own.
        at = next((n for n, bit in enumerate(bits[:-1]) if not _has_no_path(bit)), len(bits) - 1)
    else:
        at = 0
    bit = bits[at]
    scheme, found, rest = bit.partition("://")
    scheme = scheme.lower() if found else "file"
    if len(bits) == 1 and scheme in (*AZURE, *GCS, *HTTP, *S3):
        return None
    path, options = _parse(scheme, bit if found else f"file://{bit}")
    if path is None:
        path = rest if found else bit
    if bit.endswith("/") and path and not path.endswith("/"):
        path += "/"  # fsspec takes off the mark of a directory
    if len(bits) == 1 and not options:
        return scheme, path
    host = urlsplit(bit).netloc if options else ""
    bits[at] = f"{scheme}://{host}"
    return _CHAIN.join(bits), path


def open_url(kind: str, options: Mapping[str, Any]) -> Any:
    """Open the filesystem of a kind that `split_url` returned, which may wait for a server.

    Args:
        kind: the kind, with "://".
        options: options of fsspec's filesystems.

    Raises:
        ImportError, ValueError: fsspec has no filesystem for a scheme of the kind.
    """
    from fsspec.core import url_to_fs

    filesystem, _ = url_to_fs(kind, **{**options, "skip_instance_cache": True})
    return filesystem


def options_in_chain(
    kind: str, options: Mapping[str, Any], schemes: Sequence[str]
) -> list[Mapping[str, Any]]:
    """Return the options of the filesystems of some schemes that lie below others in a chain.

    Args:
        kind: the kind of a chain.
        options: options of fsspec's filesystems: those of a filesystem below another are a dict
            under its scheme.
        schemes: the schemes.
    """
    below = [bit.partition("://")[0] for bit in kind.split(_CHAIN)[1:]]
    given = [options.get(scheme) for scheme in below if scheme in schemes]
    return [each for each in given if isinstance(each, dict)]


def is_one_at_a_time(kind: str) -> bool:
    """Return whether the filesystem of a kind must not be used by two threads at a time."""
    return any(bit.partition("://")[0] in _ONE_AT_A_TIME for bit in kind.split(_CHAIN))


def is_known(scheme: str) -> bool:
    """Return whether fsspec has a filesystem for a scheme, installed or not."""
    import fsspec

    return scheme in fsspec.available_protocols() or scheme in fsspec.registry


def _has_no_path(bit: str) -> bool:
    scheme, found, rest = bit.partition("://")
    return is_known(scheme) and (not found or not rest) and _is_cache(scheme)


def _is_cache(scheme: str) -> bool:
    """Return whether the files of a filesystem have the paths that they have in the next one."""
    return scheme.endswith("cache") or scheme in ("cached", "blockcache")


def _parse(scheme: str, url: str) -> tuple[str | None, Mapping[str, Any]]:
    """Return the path in a URL and the options in its host; None as path if it is unknown."""
    import fsspec

    try:
        cls = fsspec.get_filesystem_class(scheme)
    except (ImportError, ValueError):  # opening the filesystem raises the error
        return None, {}
    path: str = cls._strip_protocol(url)
    return path, cls._get_kwargs_from_urls(url)
