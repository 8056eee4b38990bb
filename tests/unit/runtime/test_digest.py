"""One digest for the names of everything that a cache keeps."""

import os

from hypothesis import given
from hypothesis import strategies as st

from fastload.runtime.digest import digest

PARTS = st.lists(st.binary(max_size=4) | st.text("0:a", max_size=4), max_size=4)


def as_bytes(parts):
    return [part if isinstance(part, bytes) else part.encode() for part in parts]


@given(PARTS, PARTS)
def test_digests_are_equal_where_the_parts_are(one, other):
    assert (digest(*one) == digest(*other)) == (as_bytes(one) == as_bytes(other))


def test_a_digest_is_32_hexadecimal_digits():
    assert digest("a", b"bc") == "a4d2502de3aca3ac159bba2d99ea81a8"
    assert digest("a", memoryview(b"abcdefgh").cast("I")) == digest("a", b"abcdefgh")
    assert digest() != digest("") != digest("", "")


def test_file_names_need_not_be_utf_8():
    assert digest(os.fsdecode(b"\xff.parquet")) != digest(os.fsdecode(b"\xfe.parquet"))
