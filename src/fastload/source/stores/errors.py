"""The meaning of errors that clients of stores raise: retry, a changed file, or failure."""

from __future__ import annotations

import asyncio
import errno
import json
import re
import time
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.request import getproxies, proxy_bypass

from typing_extensions import override

from fastload.errors import SourceChangedError, StorageError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from fastload.source.files import StoredFile

__all__ = [
    "NO_RANGES",
    "NoRangeError",
    "check_length",
    "check_range",
    "check_size",
    "describe",
    "is_changed",
    "is_overload",
    "is_transient",
    "meaning",
    "most_retries",
    "pause_s",
    "status_of",
    "without_secrets",
]

NO_RANGES = "Expected a store that answers with ranges, got the whole file"
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_WORD = re.compile(r"[A-Za-z]\w+")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"status code:? (\d{3})\b")
# The query of a URL may hold a signature, and the text before a host may hold a password.
_QUERY = re.compile(r"\?[^\s\"'>]*")
_USER = re.compile(r"://[^/\s@]*@")
# The requests that are left, and the seconds until there are more.
_RESET = re.compile(r"\br=(\d+)\s*;\s*t=(\d+)")
# The limits of stores hold for minutes; a longer wish is no reason to hang.
_MOST_PAUSE_S = 330.0
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
    HTTPStatus.GONE,
    HTTPStatus.PRECONDITION_FAILED,
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
}


# Errors that come again however often a request is made.
_FINAL = (PermissionError, IsADirectoryError, NotADirectoryError, NotImplementedError)
_FINAL_NAMES = (
    # obstore
    "InvalidPathError",
    "NotSupportedError",
    "PermissionDeniedError",
    "UnauthenticatedError",
    "UnknownConfigurationKeyError",
    # botocore
    "PaginationError",
    "ParamValidationError",
    "PartialCredentialsError",
    "ProfileNotFound",
    # aiohttp
    "InvalidUrlClientError",
    "NonHttpUrlClientError",
    # ftplib, paramiko, zipfile, tarfile
    "error_perm",
    "AuthenticationException",
    "BadZipFile",
    "ReadError",
)
# botocore's error where there are no credentials, or where the metadata server that has them is too
# busy to answer.
_NO_CREDENTIALS = "NoCredentialsError"
# After errors that settings, or a server without ranges, make more likely than an outage.
_FEW_RETRIES = 3
# The host that tells the credentials of a machine in a cloud. obstore asks it where it finds none.
_METADATA_HOST = "169.254.169.254"
_ANON = 'storage_options={"anon": True} (gs://: {"token": "anon"})'
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired")
_SKEWED = ("RequestTimeTooSkewed", "RequestExpired")
# Parts of errors of obstore, aiohttp and botocore about connections that a proxy may have refused.
_UNCONNECTED = ("error sending request", "ProxyConnectionError", "ProxyError")
_SERVER = re.compile(r"\b(https?)://([^/\s]+)")
_PROXIED = ("http", "https", "all")
_FINAL_NUMBERS = (errno.EINVAL, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTSUP, errno.EROFS)


class WrongLengthError(Exception):
    """An answer has more, fewer or other bytes than the request asked for."""


class NoRangeError(Exception):
    """An answer has another body, such as the whole file, in place of the range asked for.

    Attributes:
        answers: the server has answered with ranges before, so another try may succeed.
    """

    answers = False

    @override
    def __str__(self) -> str:
        return "another body in place of the range"


def check_length(data: Buffer, file: StoredFile, start: int, stop: int) -> None:
    """Raise unless an answer has as many bytes as the range [start, stop) of a file.

    Raises:
        NoRangeError: the answer is the whole file.
        WrongLengthError: the answer has another number of bytes.
    """
    got = len(memoryview(data))
    if got == stop - start:
        return
    if got == file.size:
        raise NoRangeError
    raise WrongLengthError(f"{got} bytes")


def check_range(
    header: str | None,
    file: StoredFile,
    start: int,
    stop: int,
    status: int = HTTPStatus.PARTIAL_CONTENT,
) -> None:
    """Check that an answer, by its head, has the range [start, stop) of a file.

    Args:
        header: the header Content-Range, which answers of some servers lack.
        file: the file, as it was listed.
        start: offset of the range.
        stop: offset of the end of the range.
        status: the HTTP status.

    Raises:
        FileNotFoundError: the file has another size than was listed.
        NoRangeError: the answer has no range.
        WrongLengthError: the answer has another range.
    """
    found = _CONTENT_RANGE.match(header or "")
    if found is None:
        if status == HTTPStatus.OK and (start, stop) != (0, file.size):
            raise NoRangeError
        return
    if (int(found[1]), int(found[2])) != (start, stop - 1):
        raise WrongLengthError(f"bytes {found[1]} to {found[2]}")
    if found[3] != "*":
        check_size(int(found[3]), file)


def check_size(size: int, file: StoredFile) -> None:
    """Raise FileNotFoundError unless the size in an answer is that of the listed file."""
    if size != file.size:
        raise FileNotFoundError(f"a file of {size} bytes in place of {file.size}")


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that an error carries; None without one."""
    for name in ("status", "code"):
        value = getattr(error, name, None)
        if isinstance(value, int) and 100 <= value < 600:
            return value
    for each in (error, error.__cause__):  # botocore's errors, and the errors s3fs makes of them
        response = getattr(each, "response", None)
        value = getattr(response, "status_code", None)  # errors of huggingface_hub
        if isinstance(value, int):
            return value
        if isinstance(response, dict):
            value = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if isinstance(value, int):
                return value
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def code_of(error: BaseException) -> str:
    """Return the store's own word for an error, such as ExpiredToken; "" without one."""
    for each in (error, error.__cause__):
        response = getattr(each, "response", None)
        code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
        code = code or getattr(each, "error_code", None)  # the latter of Azure's library
        if isinstance(code, str) and _WORD.fullmatch(code):
            return code
    found = _CODE.search(str(error))  # obstore shows the body of the answer
    return found[1] if found else ""


def pause_s(error: BaseException) -> float:
    """Return the seconds that a store asks to wait before the next try; 0 without a wish."""
    headers = getattr(error, "headers", None)
    if headers is None:
        headers = getattr(getattr(error, "response", None), "headers", None)
    get = getattr(headers, "get", None)
    if get is None or status_of(error) not in _OVERLOADED:
        return 0.0
    wishes = [_seconds(str(get("Retry-After") or ""))]
    limits = _RESET.search(str(get("RateLimit") or ""))  # of the Hugging Face Hub
    if limits is not None and limits[1] == "0":
        wishes.append(float(limits[2]))
    return min(_MOST_PAUSE_S, max(wishes))


def _seconds(wish: str) -> float:
    if wish.strip().isdigit():
        return float(wish)
    try:
        then = parsedate_to_datetime(wish)
    except ValueError:
        return 0.0
    return max(0.0, then.timestamp() - time.time())


def is_changed(error: BaseException) -> bool:
    """Return whether an error says that a listed file was replaced or deleted."""
    if isinstance(error, FileNotFoundError | FileExistsError):  # gcsfs raises the latter for 412
        return True
    if type(error).__name__ == "PreconditionError":  # obstore's, which may not be installed
        return True
    return status_of(error) in _CHANGED


def is_overload(error: BaseException) -> bool:
    """Return whether an error says that the store asks for fewer requests."""
    return status_of(error) in _OVERLOADED


def is_transient(error: BaseException) -> bool:
    """Return whether another try may succeed after an error."""
    status = status_of(error)
    if status is not None:
        return status in _AGAIN
    if isinstance(error, _FINAL) or type(error).__name__ in _FINAL_NAMES:
        return False
    if isinstance(error, OSError) and error.errno in _FINAL_NUMBERS:
        return False
    if isinstance(
        error, WrongLengthError | NoRangeError | asyncio.TimeoutError | ConnectionError | EOFError
    ):
        return True
    if str(error).startswith("Forbidden"):  # gcsfs raises this for a 403
        return False
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):  # a listing was cut off
        return True
    return not isinstance(
        error, TypeError | ValueError | AttributeError | ImportError | LookupError
    )


def most_retries(error: BaseException, retries: int) -> int:
    """Return how often a request is made again after an error.

    Args:
        error: the client's error, which `is_transient`.
        retries: the most retries after any error.
    """
    never = isinstance(error, NoRangeError) and not error.answers
    if never or type(error).__name__ == _NO_CREDENTIALS:
        return min(retries, _FEW_RETRIES)
    return retries


def describe(error: BaseException) -> str:
    """Describe an error in few words, without anything that may be secret."""
    status = status_of(error)
    if status is not None:
        phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
        code = code_of(error)
        return f"HTTP {status} {phrase}".rstrip() + (f" ({code})" if code else "")
    line, _, rest = str(error).partition("\n")
    if type(error).__name__ == "ParamValidationError":  # of which the first line is a heading
        line += " " + rest.partition("\n")[0]
    if isinstance(error, WrongLengthError | NoRangeError):
        return line
    if isinstance(error, asyncio.TimeoutError):
        return "no answer in time"
    line = without_secrets(line)
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def _advice(error: BaseException) -> str:
    """Say what to do about an error of credentials; "" for any other error."""
    code, status = code_of(error), status_of(error)
    if code in _EXPIRED:
        return ": get new credentials, start the program again and load its last state"
    if code in _SKEWED:
        return ": set the clock of this machine"
    if type(error).__name__ == _NO_CREDENTIALS or _METADATA_HOST in str(error):
        return f": set credentials, or write {_ANON} for public files"
    named = type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError")
    if named or status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return f": check what the credentials may read, or write {_ANON} for public files"
    return ""


def without_secrets(text: str) -> str:
    """Return a text with URLs in it, without their users and queries."""
    return _USER.sub("://", _QUERY.sub("?...", text))


def meaning(error: BaseException, what: str, tries: int) -> StorageError | SourceChangedError:
    """Make the error to raise for a client's error, without a location.

    Args:
        error: the client's error.
        what: name of the expected answer.
        tries: number of failed tries.
    """
    if is_changed(error):
        return SourceChangedError(
            "Expected the file as it was when it was listed, got "
            f"{describe(error)}: the file was replaced or deleted"
        )
    times = f" after {tries} tries" if tries > 1 else ""
    if isinstance(error, NoRangeError) and not error.answers:
        return StorageError(f"{NO_RANGES}{times}")
    got = f"{describe(error)}{_proxy_hint(error)}{times}"
    return StorageError(f"Expected {what}, got {got}{_advice(error)}")


def _proxy_hint(error: BaseException) -> str:
    """Name the environment's proxy, for an error about a connection that the proxy may refuse."""
    if not any(text in f"{type(error).__name__}: {error}" for text in _UNCONNECTED):
        return ""
    proxies = {scheme: proxy for scheme, proxy in getproxies().items() if scheme in _PROXIED}
    url = _SERVER.search(str(error)) if "error sending request" in str(error) else None
    if url is not None:
        used = url[1] if url[1] in proxies else "all"
        if proxy_bypass(url[2]):
            return ""
        proxies = {used: proxies[used]} if used in proxies else {}
    found = [f"{scheme.upper()}_PROXY={_USER.sub('://', proxies[scheme])}" for scheme in proxies]
    return f", through the environment's proxy {' or '.join(sorted(found))}" if found else ""
