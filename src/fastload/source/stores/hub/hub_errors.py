"""The meaning of errors that huggingface_hub raises."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from fastload.errors import SourceNotFoundError, StorageError
from fastload.source.stores.errors import describe, status_of

if TYPE_CHECKING:
    from fastload.errors import FastloadError

__all__ = ["meaning_on_hub"]

_LOGIN = (
    "run `hf auth login` (`huggingface-cli login` of older releases), set HF_TOKEN, or pass "
    'storage_options={"token": ...}'
)
_DENIED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def meaning_on_hub(error: BaseException, repo: str) -> FastloadError | None:
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
