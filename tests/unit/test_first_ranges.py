"""What is read ahead of a store is there for whoever asks for it, in whatever order."""

import asyncio
from types import SimpleNamespace

from fastload.source.stores.first_reads import FirstReads, Range
from fastload.source.stores.store import StoredFile

MOST_BYTES = 100  # of what is read ahead
FILE = StoredFile("bucket/a.parquet", 1000, "1")


class Client:
    """One that is asked for bytes, and for whether its store pins versions."""

    async def store(self, _kind):
        return SimpleNamespace(pins=True)

    async def fetch(self, _kind, _file, start, stop):
        return bytes(stop - start)


def range_of(start, stop):
    return Range("gs", FILE, start, stop)


def read_ahead(*ranges):
    first = FirstReads((), MOST_BYTES * 32)

    async def read():
        async with first.reading(Client(), ranges):
            pass

    asyncio.run(read())
    return first


def test_ranges_in_another_order_at_the_limit():
    first = read_ahead(range_of(0, 60), range_of(60, 100))
    assert first.asked(range_of(500, 550)) is None
    assert first.asked(range_of(0, 60)) == bytes(60)  # which no longer fits beside it
    assert first.asked(range_of(60, 100)) == bytes(40)
    assert first.asked(range_of(60, 100)) is None  # handed out once


def test_what_nobody_asks_for_is_let_go():
    first = read_ahead(range_of(0, 60))
    for start in range(100, 500, 40):
        assert first.asked(range_of(start, start + 40)) is None
    assert first.asked(range_of(0, 60)) is None


def test_nothing_is_there_after_the_end():
    first = read_ahead(range_of(0, 60))
    first.close()
    assert first.asked(range_of(0, 60)) is None
