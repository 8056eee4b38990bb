"""The files that the paths, directories and globs of a source name, in canonical order."""

from __future__ import annotations

import functools
import glob
import itertools
import os
import re
import stat
from pathlib import PurePath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from fastload.errors import SourceNotFoundError, StorageError
from fastload.runtime.hints import nearest
from fastload.source.files import FoundFile
from fastload.source.table_formats import (
    DELTA_LOG,
    delta_error,
    described,
    refuse_local,
    refuse_walked,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from fastload.source.files import PathLike

__all__ = ["FOLDER_MARK", "HIDDEN", "find_files", "local_path", "url_of"]

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# A URL after pathlib has joined it.
_ONE_SLASH = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/[^/]")
# What users of other libraries write for a dataset of the Hugging Face Hub.
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w-]*/[A-Za-z0-9][\w.-]*(?:@[\w./-]+)?")
# Number of names of a directory among which a message looks for similar ones.
_MOST_NAMES = 1000
# The suffixes of Parquet files.
_DATA = (".parquet", ".parq", ".pq")
# A name that begins so is hidden. By the rule of Hadoop and Arrow, such files are markers, logs
# and unfinished output, not data.
HIDDEN = ("_", ".")
# The name of an empty file that older Hadoop clients write for a directory in a store ends so.
FOLDER_MARK = "_$folder$"


def find_files(
    source: PathLike | Sequence[PathLike],
    find_remote: Callable[[Sequence[PathLike]], list[list[FoundFile] | None]] = lambda entries: (
        [None] * len(entries)
    ),
) -> list[FoundFile]:
    """Return the files of a source, in canonical order; at least one.

    No file is opened. The paths of local files are absolute.

    Args:
        source: a path, a directory, a glob or a URL, or a list of them.
        find_remote: returns the files of each entry; None for an entry that is local. It gets
            all entries at once.

    Raises:
        SourceNotFoundError: a path does not exist, a directory holds no files, or a glob matches
            none. The error names the path.
        StorageError: the operating system can't look at a path, or can't list a directory.
        TypeError: an entry is not a path.
        UnsupportedTypeError: a directory or a glob's directory is a Delta, Iceberg or Hudi table.
        ValueError: a file:// URL names a host.
    """
    entries = [source] if isinstance(source, (str, os.PathLike)) else source
    if not isinstance(entries, (list, tuple)):
        raise TypeError(f"Expected source to be a path or a list of paths, got {described(source)}")
    if not entries:
        raise SourceNotFoundError("Expected at least one file, got an empty list of paths")
    for entry in entries:
        if not isinstance(entry, (str, os.PathLike)):
            raise TypeError(f"Expected each entry of source to be a path, got {described(entry)}")
    remote = find_remote(entries)
    found: list[FoundFile] = []
    for entry, files in zip(entries, remote, strict=True):
        found += map(_absolute, _find(entry)) if files is None else files
    return found


def url_of(entry: PathLike) -> tuple[str, str] | None:
    """Split the URL of a store into its scheme, in lower case, and the text after "://".

    Returns:
        The scheme and the text; None for a local path or a file:// URL.
    """
    if isinstance(entry, PurePath) or not isinstance(entry, str):
        return None
    url = _URL.match(entry)
    if url is None or url[1].lower() == "file":
        return None
    return url[1].lower(), entry[url.end() :]


def local_path(entry: PathLike) -> str:
    """Return the absolute path that a local path or a file:// URL names.

    Raises:
        SourceNotFoundError, TypeError, ValueError: as `find_files`.
    """
    return _absolute(FoundFile(_local_path(entry))).path


def _find(entry: PathLike) -> list[FoundFile]:
    path = _local_path(entry)
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        # A file may have a name that looks like a glob, so globs are tried last.
        if glob.has_magic(path):
            return _find_glob(path)
        raise SourceNotFoundError(
            f"Expected a file or directory, found none{_nearby(path)} - at {path}"
        ) from None
    except OSError as error:
        raise StorageError(f"Can't look at the source: {error.strerror} - at {path}") from error
    if stat.S_ISDIR(mode):
        refuse_local(path)
        files = sorted(_walk(path))
        if not files:
            raise SourceNotFoundError(
                "Expected a directory with files (names that start with _ or . don't count), "
                f"found none - at {path}"
            )
        root = len(path)
        return [FoundFile(file, _folders(file[root:])) for file in files]
    return [FoundFile(path)]


def _absolute(file: FoundFile) -> FoundFile:
    """Return a file whose path stays valid if the process changes its working directory."""
    if os.path.isabs(file.path):
        return file
    # Not os.path.abspath: where "a" is a link, "a/../b" may be another file than "b".
    return FoundFile(os.path.join(os.getcwd(), file.path), file.folders)


def _folders(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split(os.sep)[:-1] if name)


def _local_path(entry: PathLike) -> str:
    path = os.fspath(entry)
    if not isinstance(path, str):
        raise TypeError(f"Expected a path as str, got {type(path).__name__}: {path!r}")
    if not path:
        raise SourceNotFoundError("Expected a path, got an empty str")
    if "\0" in path:
        raise SourceNotFoundError(f"Expected a path without null bytes, got {path!r}")
    if isinstance(entry, PurePath):
        return os.path.expanduser(path)
    url = _URL.match(path)
    if url is None:
        return os.path.expanduser(path)
    parts = urlsplit(path)
    if parts.netloc not in ("", "localhost"):
        raise ValueError(
            f"Expected a file:// URL without a host, such as file:///data, got `{parts.netloc}` "
            f"- at {path}"
        )
    # "#" and "?" are ordinary characters of a file name, but urlsplit() would split at them.
    return unquote(path[len("file://") + len(parts.netloc) :])


def _find_glob(pattern: str) -> list[FoundFile]:
    parts = PurePath(pattern).parts
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    # A pattern that spells out the mark of hidden names matches hidden files.
    hidden = tuple(
        mark for mark in HIDDEN if not any(part.startswith(mark) for part in parts[fixed:])
    )
    found: set[str] = set()
    has_loop = functools.cache(functools.partial(_has_loop, fixed=fixed))
    for match in _matches(pattern):
        if any(part.startswith(hidden) for part in PurePath(match).parts[fixed:] if hidden):
            continue
        is_directory = os.path.isdir(match)
        if has_loop(match if is_directory else os.path.dirname(match)):
            continue
        if is_directory:
            refuse_local(match)
            found.update(_walk(match))
        elif not match.endswith(FOLDER_MARK) and os.path.isfile(match):
            found.add(match)
    _refuse_tables(found, fixed)
    if not found:
        raise SourceNotFoundError(
            f"Expected files that match the glob, found none{_nearby(pattern)} - at {pattern}"
        )
    return [FoundFile(path, PurePath(path).parts[fixed:-1]) for path in sorted(found)]


def _matches(pattern: str) -> Iterator[str]:
    """Yield what a glob matches, maybe twice, without following `**` into loops of links."""
    parts = PurePath(pattern).parts
    if "**" not in parts:
        yield from glob.iglob(pattern)
        return
    at = parts.index("**")
    rest = parts[at + 1 :]
    if rest and pattern.endswith(os.sep):
        rest += ("",)  # only directories match
    for top in glob.iglob(os.path.join(*parts[:at])) if at else [os.curdir]:
        if not os.path.isdir(top):
            continue
        for directory, _, _ in _directories(top, hidden=(".",)):
            path = directory if at else os.path.relpath(directory)
            inner = "" if path == os.curdir else glob.escape(path)
            yield from _matches(os.path.join(inner, *(rest or ("*",))))


def _has_loop(directory: str, fixed: int) -> bool:
    """Return whether the path of a directory goes through a link to a directory above the link.

    Args:
        directory: the path.
        fixed: number of the names at its start that may be links to any directory.
    """
    parts = PurePath(directory).parts
    paths = [os.path.join(os.curdir, *parts[:n]) for n in range(fixed, len(parts) + 1)]
    links = [os.path.islink(path) for path in paths]
    if not any(links[1:]):
        return False
    reals = [os.path.realpath(path) for path in paths]
    return any(links[n] and reals[n] in reals[:n] for n in range(1, len(paths)))


def _nearby(path: str) -> str:
    """Return what a message adds about a path that does not exist: the names where it ends."""
    if _ONE_SLASH.match(path):
        return "; a URL has two slashes and is a str, since Path() takes one away"
    if _REPOSITORY.fullmatch(path) and not os.path.isdir(path.partition("/")[0]):
        return f"; a dataset of the Hugging Face Hub is hf://datasets/{path}"
    directory, names = os.getcwd(), PurePath(path).parts
    for name in names:
        if not os.path.isdir(os.path.join(directory, name)):
            break
        directory = os.path.join(directory, name)
    else:  # the pattern of a directory that exists
        name = names[-1]
    try:
        with os.scandir(directory) as entries:
            found = sorted(entry.name for entry in itertools.islice(entries, _MOST_NAMES))
    except OSError:
        return ""
    plain = [each for each in found if not each.startswith(HIDDEN)]
    data = [each for each in plain if PurePath(each).suffix in _DATA]
    wants_data = PurePath(name).suffix in _DATA
    shown = nearest(name, data if wants_data and data else found) or (data or plain)[:3]
    listed = ", ".join(f"`{each}`" for each in shown)
    more = len(data) - len(shown) if set(shown) <= set(data) else 0
    if more:
        listed += f" and {more} more Parquet file{'s' if more > 1 else ''}"
    return f"; {directory} holds {listed}" if shown else f"; {directory} is empty"


def _refuse_tables(files: Iterable[str], fixed: int) -> None:
    """Raise an error if the directories of a glob's files belong to a table.

    Args:
        files: paths of the files.
        fixed: number of the names of each path that stand before the first wildcard.
    """
    directories: set[str] = set()
    for path in {os.path.dirname(file) for file in files}:
        parts = PurePath(path).parts
        directories.update(os.path.join(*parts[:n]) for n in range(fixed, len(parts) + 1) if n)
    for directory in sorted(directories) or ["."]:
        refuse_local(directory)
        if os.path.isdir(os.path.join(directory, DELTA_LOG)):
            raise delta_error(directory)


def _walk(directory: str) -> list[str]:
    """Return all regular files below a directory that are not hidden."""
    found: list[str] = []
    for parent, directories, names in _directories(directory, HIDDEN):
        refuse_walked(parent, directories)
        for name in names:
            path = os.path.join(parent, name)
            counts = not name.startswith(HIDDEN) and not name.endswith(FOLDER_MARK)
            if counts and os.path.isfile(path):
                found.append(path)
    return found


def _directories(
    directory: str, hidden: tuple[str, ...]
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each directory with the names of its directories and of its files, as os.walk does.

    The walk follows links, but not a link to a directory above it, which would be a loop.

    Args:
        directory: the directory that the walk begins with.
        hidden: what the names of directories begin with that are left out.
    """
    # The real path of each directory still to be walked, and of the directories above it.
    above: dict[str, tuple[str, ...]] = {directory: (os.path.realpath(directory),)}

    def refuse(error: OSError) -> None:
        raise StorageError(
            f"Can't list the directory: {error.strerror} - at {error.filename}"
        ) from error

    for parent, directories, names in os.walk(directory, onerror=refuse, followlinks=True):
        yield parent, directories, names
        kept, outer = [], above.pop(parent)
        for name in sorted(directories):
            path = os.path.join(parent, name)
            real = os.path.join(outer[-1], name)
            if os.path.islink(path):
                real = os.path.realpath(path)
            if name.startswith(hidden) or real in outer:
                continue
            above[path] = (*outer, real)
            kept.append(name)
        directories[:] = kept
