"""What the errors of stores' clients mean: another try, a changed file, or the end."""

from __future__ import annotations

import asyncio
import json
import re
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastload.errors import SourceChangedError, StorageError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from fastload.source.files import StoredFile

__all__ = [
    "WrongLengthError",
    "check_length",
    "describe",
    "is_changed",
    "is_overload",
    "is_transient",
    "meaning",
    "status_of",
]

_STATUS = re.compile(r"status code:? (\d{3})\b")
# What follows may be a signature, and what stands before a host a password.
_QUERY = re.compile(r"\?[^\s\"'>]*")
_USER = re.compile(r"://[^/\s@]*@")
_AGAIN = {
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
_OVERLOADED = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
_CHANGED = {
    HTTPStatus.NOT_FOUND,
    HTTPStatus.PRECONDITION_FAILED,
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
}


class WrongLengthError(Exception):
    """An answer has another number of bytes than were asked for."""


def check_length(data: Buffer, file: StoredFile, start: int, stop: int) -> None:
    """Raises unless they are as many as there are in [start, stop) of the file."""
    got = len(memoryview(data))
    if got == stop - start:
        return
    if got == file.size:
        raise StorageError("Expected a store that answers with ranges, got the whole file")
    raise WrongLengthError(f"{got} bytes")


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an error tells of."""
    for name in ("status", "code"):
        value = getattr(error, name, None)
        if isinstance(value, int) and 100 <= value < 600:
            return value
    for each in (error, error.__cause__):  # botocore's errors, and s3fs' words for them
        response = getattr(each, "response", None)
        if isinstance(response, dict):
            value = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if isinstance(value, int):
                return value
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def is_changed(error: BaseException) -> bool:
    """Return whether a file that was there is not, or not any more as it was."""
    if isinstance(error, FileNotFoundError | FileExistsError):  # gcsfs' answer to a 412
        return True
    if type(error).__name__ == "PreconditionError":  # of obstore, which need not be there
        return True
    return status_of(error) in _CHANGED


def is_overload(error: BaseException) -> bool:
    """Return whether the store asks for fewer requests."""
    return status_of(error) in _OVERLOADED


def is_transient(error: BaseException) -> bool:
    """Return whether another try may succeed."""
    status = status_of(error)
    if status is not None:
        return status in _AGAIN
    denied = ("PermissionDeniedError", "UnauthenticatedError", "NotSupportedError")
    if isinstance(error, PermissionError) or type(error).__name__ in denied:
        return False
    if isinstance(error, WrongLengthError | asyncio.TimeoutError | ConnectionError | EOFError):
        return True
    if str(error).startswith("Forbidden"):  # gcsfs' answer to a 403
        return False
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):  # of a listing
        return True
    return not isinstance(error, TypeError | ValueError | AttributeError | ImportError)


def describe(error: BaseException) -> str:
    """An error in few words, without what may be secret."""
    status = status_of(error)
    if status is not None:
        phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
        return f"HTTP {status} {phrase}".rstrip()
    line = str(error).partition("\n")[0]
    if isinstance(error, WrongLengthError):
        return line
    if isinstance(error, asyncio.TimeoutError):
        return "no answer in time"
    line = _USER.sub("://", _QUERY.sub("?...", line))
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def meaning(error: BaseException, what: str, tries: int) -> StorageError | SourceChangedError:
    """The error to raise for one of a client, without a place."""
    if is_changed(error):
        return SourceChangedError(
            "Expected the file as it was when it was listed, got "
            f"{describe(error)}: it was replaced or deleted"
        )
    times = f" after {tries} tries" if tries > 1 else ""
    return StorageError(f"Expected {what}, got {describe(error)}{times}")
