"""Fingerprints of a source's files, which show whether files have changed, and which file."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from fastload.source.hive import keys_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.source.files import SourceFile

__all__ = ["changed_file", "file_sums", "fingerprint", "same_files"]

# The largest prime below 2**53. Every JSON reader keeps integers below 2**53 exactly.
_PRIME = 2**53 - 111


def fingerprint(files: Sequence[SourceFile], table: str = "") -> str:
    """Return 32 hexadecimal digits over each file's name, Hive keys, size and footer, in order.

    Args:
        files: the files.
        table: a text that identifies the version of the table that the files belong to.
    """
    digest = hashlib.blake2b(table.encode(), digest_size=16)
    for file in files:
        digest.update(_identity(file))
    return digest.hexdigest()


def file_sums(files: Sequence[SourceFile]) -> tuple[int, int]:
    """Return two sums from which `changed_file` finds a single changed file.

    With h(i) the hash of file i, they are the sums of h(i) and of (i + 1) * h(i). When the hash
    of one file changes by d, the sums change by d and by (i + 1) * d, whose quotient is i + 1.
    """
    plain = weighted = 0
    for number, file in enumerate(files, 1):
        own = int.from_bytes(hashlib.blake2b(_identity(file), digest_size=8).digest(), "little")
        plain += own
        weighted += number * own
    return plain % _PRIME, weighted % _PRIME


def changed_file(before: Sequence[int], now: Sequence[int], files: int) -> int | None:
    """Return the index of the changed file, or None unless exactly one file has changed.

    Args:
        before: sums that `file_sums` returned for the files before.
        now: sums for the present files.
        files: number of files, the same before and now.
    """
    plain, weighted = ((a - b) % _PRIME for a, b in zip(now, before, strict=True))
    if not plain:
        return None
    number = weighted * pow(plain, -1, _PRIME) % _PRIME
    return number - 1 if 1 <= number <= files else None


def same_files(before: Sequence[int], files: Sequence[SourceFile]) -> Literal["order", "keys", ""]:
    """Return what alone tells the files of two sources apart; "" if the files differ.

    Args:
        before: sums that `file_sums` returned for the files before, as many as now.
        files: the present files.

    Returns:
        "order" if the files are the same in another order, "keys" if they are the same with Hive
        keys where they had none, or without the keys of all of their directories.
    """
    if list(before) == list(file_sums(files)):
        return ""
    if before[0] == file_sums(files)[0]:
        return "order"
    without = [replace(file, keys=()) for file in files]
    with_all = [replace(f, keys=keys_of(f.path.split("/")[:-1], f.path)) for f in files]
    if list(before) in (list(file_sums(without)), list(file_sums(with_all))):
        return "keys"
    return ""


def _identity(file: SourceFile) -> bytes:
    name = os.path.basename(file.path).encode("utf-8", "surrogateescape")
    identity = b"%d:%s:%d:%s" % (len(name), name, file.size, file.digest)
    return identity + (repr(file.keys).encode() if file.keys else b"")
