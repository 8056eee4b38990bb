"""Versions of files by the headers of web servers."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from fastload.source.stores.http_versions import check_version, is_strong, version_of

OLD = "Thu, 01 Jan 2026 00:00:00 GMT"
NEW = "Fri, 02 Jan 2026 00:00:00 GMT"


def test_a_time_is_a_weak_version():
    version = version_of("", OLD)
    assert version == "W/Thu, 01 Jan 2026 00:00:00 +0000"
    assert not is_strong(version)
    assert is_strong(version_of('"1"', OLD))
    assert not is_strong(version_of('W/"1"', OLD))


@pytest.mark.parametrize("changed", [None, "", "yesterday", "Thu, 01 Jan 1970 00:00:00 GMT"])
def test_no_time_is_no_version(changed):
    assert version_of(None, changed) == ""


def test_a_file_of_this_moment_has_no_version():
    """A server that makes the file says that each answer is new."""
    assert version_of("", formatdate(time.time() - 10, usegmt=True)) == ""
    assert version_of("", formatdate(time.time() - 100, usegmt=True))


@pytest.mark.parametrize(
    ("version", "etag", "changed"),
    [
        ('"1"', '"1"', NEW),
        ('"1"', "1", None),
        ('"1"', 'W/"1"', None),
        ('"1"', None, NEW),
        ("", '"1"', NEW),
        (version_of("", OLD), '"1"', OLD),
        (version_of("", OLD), '"1"', "Thursday, 01-Jan-26 00:00:00 GMT"),
        (version_of("", OLD), '"1"', None),
    ],
)
def test_the_same_version(version, etag, changed):
    check_version(version, etag, changed)


@pytest.mark.parametrize(
    ("version", "etag", "changed"),
    [('"1"', '"2"', OLD), ('W/"1"', 'W/"2"', OLD), (version_of("", OLD), '"1"', NEW)],
)
def test_another_version(version, etag, changed):
    with pytest.raises(FileNotFoundError, match="another version"):
        check_version(version, etag, changed)
