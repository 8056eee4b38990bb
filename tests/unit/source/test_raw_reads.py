"""How one client keeps what it reads."""

import asyncio

import pytest

from fastload import Cache
from fastload.source.files import StoredFile
from fastload.source.stores.raw_tier import RawReads, RawTier

FILE = StoredFile("bucket/a.parquet", 1000, "1")
RANGE = ("gs", FILE, 100, 200)
BYTES = bytes(range(100))


async def never():
    raise AssertionError("it is on disk")


@pytest.fixture
def tier(tmp_path):
    return RawTier(Cache(tmp_path), "")


def run(tier, *steps):
    """The results of calls of a `RawReads`, in one event loop."""

    async def run_all():
        reads = RawReads(tier, patience_s=3600)
        results = [await asyncio.wait_for(step(reads), 60) for step in steps]
        await reads.flush()
        reads.close()
        return results

    return asyncio.run(run_all())


async def fetched():
    return BYTES


def test_what_was_fetched_is_kept(tier):
    run(tier, lambda reads: reads.read(*RANGE, fetched))
    (found,) = run(tier, lambda reads: reads.read(*RANGE, never))
    assert bytes(found) == BYTES


def test_what_cannot_be_fetched_leaves_no_claim(tier):
    with pytest.raises(AssertionError, match="on disk"):
        run(tier, lambda reads: reads.read(*RANGE, never))
    run(tier, lambda reads: reads.read(*RANGE, fetched))
    assert tier.ranges.covers(tier.name_of("gs", FILE), 100, 200)
