"""Calls of the Hub's API through huggingface_hub, which wait for answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastload.errors import SourceNotFoundError, StorageError
from fastload.source.files import StoredFile
from fastload.source.stores.errors import describe, status_of
from fastload.source.stores.hub.hub_paths import BUCKETS, split_pinned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastload.errors import FastloadError

__all__ = ["Address", "HubApi", "Revision"]

_SHA256_DIGITS = 64
_PREFIXES = {"model": "", "dataset": "datasets/", "space": "spaces/"}
_LOGIN = (
    "run `hf auth login` (`huggingface-cli login` of older releases), set HF_TOKEN, or pass "
    'storage_options={"token": ...}'
)
_DENIED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision of a repository, as a URL names it.

    Attributes:
        type: type of the repository, such as "dataset".
        id: name of the repository, such as "org/name".
        name: branch, tag or commit; None = the default branch.
    """

    type: str
    id: str
    name: str | None

    @property
    def repo(self) -> str:
        """The repository as paths name it, such as "datasets/org/name"."""
        return f"{_PREFIXES[self.type]}{self.id}"


@dataclass(frozen=True, slots=True)
class Address:
    """The place of a file's bytes.

    Attributes:
        url: URL, mostly on another host, with a signature that expires.
        authorization: header of requests for the URL; "" = the URL suffices. Only the Hub itself
            gets the header.
    """

    url: str
    authorization: str = ""

    def __repr__(self) -> str:
        return f"Address({self.url.partition('?')[0]!r})"  # without secrets


class HubApi:
    """The API of a Hub.

    Args:
        options: options of `HfFileSystem`, such as "token" and "endpoint".
        timeout_s: seconds to wait for an answer.

    Raises:
        StorageError: huggingface_hub is not installed.
    """

    def __init__(self, options: Mapping[str, Any], timeout_s: float) -> None:
        try:
            from huggingface_hub import HfApi, HfFileSystem
        except ImportError as error:
            raise StorageError(
                "Expected the package huggingface_hub to read hf://, found none: "
                "run `pip install huggingface_hub`"
            ) from error

        class Filesystem(HfFileSystem):
            """HfFileSystem without a request for each revision: the commit is known."""

            def _repo_and_revision_exist(self, *_: object) -> tuple[bool, None]:
                return True, None

            def info(self, path: str, *_: object, **__: object) -> dict[str, Any]:
                """Refuse to look for a file where `find` found no directory."""
                raise FileNotFoundError(path)

        self._open = partial(Filesystem, **{**options, "skip_instance_cache": True})
        self._fs = self._open()
        self._token = options.get("token")
        self.endpoint: str = self._fs.endpoint
        self._api = HfApi(endpoint=self.endpoint, token=self._token)
        self._timeout_s = timeout_s

    def parse(self, path: str) -> tuple[Revision, str]:
        """Split a path into a revision and the path in the repository, without a request.

        Raises:
            ValueError: the path names no repository.
        """
        if path.startswith(BUCKETS):
            raise ValueError(
                "Expected a repository of the Hub, got a bucket, which has no commits: pass "
                f"filesystem=huggingface_hub.HfFileSystem() and the path {path!r} - at hf://{path}"
            )
        try:
            found = self._fs.resolve_path(path)
        except (ValueError, NotImplementedError) as error:
            raise ValueError(
                "Expected hf://datasets/org/name or hf://datasets/org/name@revision/path, got "
                f"another URL of the Hub - at hf://{path}"
            ) from error
        # Without a name, the Hub chooses the branch, which need not be "main".
        name = path.split("/")[1 if found.repo_type == "model" else 2]
        revision = found.revision if "@" in name else None
        return Revision(found.repo_type, found.repo_id, revision), found.path_in_repo

    def commit(self, revision: Revision) -> str:
        """Return the commit that a revision names now. One request.

        Raises:
            SourceNotFoundError: there is no such revision.
            StorageError: the token may not see the repository.
        """
        try:
            info = self._api.repo_info(
                revision.id,
                repo_type=revision.type,
                revision=revision.name,
                timeout=self._timeout_s,
            )
        except Exception as error:  # noqa: BLE001 - whatever huggingface_hub raises
            raise self._meaning(error, revision.repo) from None
        commit = info.sha
        if not commit:
            raise SourceNotFoundError(f"Expected a commit of {revision.repo}, found none")
        return str(commit)

    def ls(self, directory: str) -> Sequence[StoredFile]:
        """Return the files below a directory; () if there is none. One request a page."""
        try:
            # Another thread may list too, and a filesystem keeps its listings.
            found = self._open().find(directory, detail=True)
        except FileNotFoundError:
            return ()
        except Exception as error:  # noqa: BLE001 - whatever huggingface_hub raises
            raise self._meaning(error, _repo_of(directory)) from None
        return [_stored(name, entry) for name, entry in found.items() if name != directory]

    def info(self, path: str) -> StoredFile | None:
        """Return the file at a path, or None for a directory. One request.

        Raises:
            FileNotFoundError: nothing exists at the path.
        """
        revision, name = self.parse(path)
        if not name:
            return None
        try:
            found = self._api.get_paths_info(
                revision.id, [name], revision=revision.name, repo_type=revision.type
            )
        except Exception as error:  # noqa: BLE001 - whatever huggingface_hub raises
            raise self._meaning(error, revision.repo) from None
        if not found:
            raise FileNotFoundError(path)
        entry = vars(found[0])
        if "size" not in entry:
            return None
        return _stored(path, entry)

    def address(self, file: StoredFile) -> Address:
        """Return the present address of a file's bytes. One request.

        Raises:
            FileNotFoundError: the file no longer exists, or has other bytes.
        """
        from huggingface_hub import get_hf_file_metadata, hf_hub_url
        from huggingface_hub.errors import EntryNotFoundError, RevisionNotFoundError
        from huggingface_hub.utils import build_hf_headers

        revision, name = self.parse(file.path)
        url = hf_hub_url(
            revision.id,
            name,
            repo_type=revision.type,
            revision=revision.name,
            endpoint=self.endpoint,
        )
        try:
            found = get_hf_file_metadata(
                url, token=self._token, timeout=self._timeout_s, endpoint=self.endpoint
            )
        except (EntryNotFoundError, RevisionNotFoundError):
            raise FileNotFoundError(file.path) from None
        except Exception as error:  # noqa: BLE001 - whatever huggingface_hub raises
            raise self._meaning(error, revision.repo) from None
        known = {len(text) for text in (found.etag or "", file.version)} == {_SHA256_DIGITS}
        if (found.size is not None and found.size != file.size) or (
            known and found.etag != file.version
        ):
            raise FileNotFoundError("another version")
        if not _same_host(found.location, self.endpoint):
            return Address(found.location)
        headers = build_hf_headers(token=self._token)
        return Address(found.location, headers.get("authorization") or "")

    @staticmethod
    def _meaning(error: Exception, repo: str) -> Exception:
        return _meaning_on_hub(error, repo) or error


def _repo_of(path: str) -> str:
    parts = split_pinned(path)
    return path if parts is None else parts[0]


def _stored(path: str, entry: Mapping[str, Any]) -> StoredFile:
    # The digest of the bytes; `blob_id` is the digest of a pointer for a large file.
    lfs = entry.get("lfs")
    digest = entry.get("xet_hash") if lfs is None else lfs["sha256"]
    version = digest or entry.get("blob_id") or entry.get("mtime") or ""
    return StoredFile(path, int(entry["size"] or 0), str(version))


def _same_host(url: str, endpoint: str) -> bool:
    one, other = urlsplit(url), urlsplit(endpoint)
    return (one.scheme, one.netloc.lower()) == (other.scheme, other.netloc.lower())


def _meaning_on_hub(error: BaseException, repo: str) -> FastloadError | None:
    """Make the error to raise for an error of huggingface_hub, without a location.

    Args:
        error: the error.
        repo: the repository, such as "datasets/org/name".

    Returns:
        The error, which no other try would change; None if the error has no meaning of its own
        on the Hub.
    """
    from huggingface_hub.errors import (
        GatedRepoError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, OfflineModeIsEnabled):
        return StorageError(
            "Expected access to the Hugging Face Hub, got HF_HUB_OFFLINE=1: pass the directory "
            "that huggingface_hub.snapshot_download(...) returns as the source"
        )
    got = describe(error)
    if isinstance(error, GatedRepoError):
        return StorageError(
            f"Expected access to the gated repository {repo}, got {got}: accept its conditions "
            f"on the Hub's page of the repository, then {_LOGIN}"
        )
    if isinstance(error, RepositoryNotFoundError):
        hint = "" if repo.count("/") > 1 else f"; is it a dataset? Write hf://datasets/{repo}"
        if status_of(error) in _DENIED:
            return StorageError(
                f"Expected access to the repository {repo}, got {got}: the repository does not "
                f"exist, or is private: {_LOGIN}{hint}"
            )
        return SourceNotFoundError(
            f"Expected a repository, found no {repo} that the token may read{hint}"
        )
    if isinstance(error, RevisionNotFoundError):
        return SourceNotFoundError(
            f"Expected a branch, tag or commit of the repository {repo}, found none"
        )
    if status_of(error) in _DENIED:
        return StorageError(f"Expected access to the repository {repo}, got {got}: {_LOGIN}")
    return None
