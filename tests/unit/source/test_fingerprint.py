"""The one file of many that has changed is named."""

from dataclasses import replace

import numpy as np
import pytest

from fastload.source.files import SourceFile
from fastload.source.source import Source, changed_file, file_sums

FILES = [
    SourceFile(f"d/part-{k}.parquet", 1000 + k, 0, None, bytes([k % 256] * 16)) for k in range(3000)
]


def fingerprint(files):
    nothing = np.zeros(0, np.int64)
    return Source(tuple(files), nothing, nothing, nothing, None).fingerprint


@pytest.mark.parametrize("number", [0, 1, 1234, 2999])
@pytest.mark.parametrize(
    "change",
    [{"size": 7}, {"digest": b"other footer bytes"}, {"path": "d/x.parquet"}, {"keys": (1,)}],
)
def test_one_changed_file(number, change):
    files = list(FILES)
    files[number] = replace(files[number], **change)
    assert fingerprint(files) != fingerprint(FILES)
    assert changed_file(file_sums(FILES), file_sums(files), len(files)) == number


def test_several_changed_files():
    files = [replace(file, size=0) for file in FILES]
    assert changed_file(file_sums(FILES), file_sums(files), len(files)) is None
    swapped = [FILES[1], FILES[0], *FILES[2:]]
    assert fingerprint(swapped) != fingerprint(FILES)
    assert changed_file(file_sums(FILES), file_sums(swapped), len(FILES)) is None


def test_moved_and_touched_files():
    files = [replace(file, path=file.path.replace("d/", "e/"), mtime_ns=5) for file in FILES]
    assert fingerprint(files) == fingerprint(FILES)
