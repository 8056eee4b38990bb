"""Ranges of objects on disk: what is found of what was put there."""

import random

import numpy as np
import pytest

from fastload import IO, StorageError
from fastload.runtime._core import RangeCache, check_range
from fastload.runtime.progress import line_of
from fastload.source.files import StoredFile
from fastload.source.stores.raw_tier import RawTier, store_identity
from fastload.source.stores.stores import Stores

NAME = "0f/" + "f" * 32
DATA = np.random.default_rng(0).integers(0, 256, 5000, np.uint8).tobytes()


def put(ranges, start, stop):
    claim = ranges.claim(NAME, start, stop)
    if claim is not None:
        claim.publish(DATA[start:stop])


@pytest.mark.parametrize("seed", range(20))
def test_any_ranges_that_cover_another(seed, tmp_path):
    """Whole, joined or cut, by whoever has put them there."""
    choice = random.Random(seed)
    ranges, covered = RangeCache(str(tmp_path)), np.zeros(len(DATA), bool)
    for _ in range(12):
        start, stop = sorted(choice.sample(range(len(DATA)), 2))
        put(ranges, start, stop)
        covered[start:stop] = True
    for reader in (ranges, RangeCache(str(tmp_path))):
        for _ in range(100):
            start, stop = sorted(choice.sample(range(len(DATA)), 2))
            there = bool(covered[start:stop].all())
            assert reader.covers(NAME, start, stop) == there
            assert reader.read(NAME, start, stop) == (DATA[start:stop] if there else None)


def test_claims(tmp_path):
    ranges = RangeCache(str(tmp_path))
    claim = ranges.claim(NAME, 0, 10)
    assert ranges.claim(NAME, 0, 10) is None
    assert RangeCache(str(tmp_path)).claim(NAME, 0, 10) is None
    with pytest.raises(ValueError, match="Expected 10 bytes, got 9"):
        claim.publish(bytes(9))
    claim.release()
    claim.release()
    with pytest.raises(StorageError, match="Expected a held claim"):
        claim.publish(bytes(10))
    assert not ranges.covers(NAME, 0, 10)
    put(ranges, 0, 10)
    assert ranges.claim(NAME, 0, 10) is None
    assert check_range(str(tmp_path), NAME, 0, 10) is True
    assert check_range(str(tmp_path), NAME, 0, 11) is None
    for start, stop in ((0, 0), (5, 4), (-1, 3)):
        with pytest.raises(ValueError, match="Expected a range with bytes"):
            ranges.read(NAME, start, stop)


def test_names_tell_versions_and_places_apart_and_no_secret(monkeypatch, tmp_path):
    from fastload import Cache

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:s3cr3t@store:9000")
    assert store_identity(None, {}) == "store:9000"
    assert store_identity(None, {"endpoint_url": "http://a:1/x?sig=s3cr3t"}) == "a:1/x"
    assert (
        store_identity(None, {"client_kwargs": {"endpoint_url": "https://b"}, "secret": "s"}) == "b"
    )
    assert store_identity(None, {"account_name": "a", "account_key": "s"}) == "store:9000 a"
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "b")
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    assert store_identity(None, {}) == "b"
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME")
    text = "AccountName=c;AccountKey=s3cr3t;BlobEndpoint=http://host:1/c?sig=s3cr3t"
    assert store_identity(None, {"connection_string": text}) == "c host:1/c"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    assert store_identity(None, {}) == "c host:1/c"
    assert "c host:1/c" in str(Stores(None, None, IO()).identity_for_footers("az"))
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    found = []
    for endpoint in ("http://a", "http://b"):
        stores = Stores(None, None, IO(), Cache(tmp_path))
        stores.take_options({"endpoint_url": endpoint})  # as the catalog of a table gives them
        found.append(stores._raw.name_of("s3", StoredFile("x", 1, "v")))
    assert found[0] != found[1]
    tiers = [RawTier(Cache(tmp_path), store) for store in ("a", "b")]
    files = [StoredFile("x", 1, "v"), StoredFile("x", 1, "w"), StoredFile("y", 1, "v")]
    names = {tier.name_of("gs", file) for tier in tiers for file in files}
    assert len(names) == 6
    assert tiers[0].name_of("gs", StoredFile("x", 1, "")) == ""
    assert tiers[0].name_of("http", StoredFile("x", 1, 'W/"1"')) == ""
    assert tiers[0].name_of("memory", files[0]) == ""


def test_lines_of_progress():
    assert line_of(50, 200, "rows", 10) == "50 of 200 rows (25 %), 5 a second, 30 s left"
    assert line_of(0, 200, "rows", 10) == "0 of 200 rows (0 %)"
    assert line_of(0, 0, "rows", 0) == "0 rows in 0 s"
    assert line_of(10**6, 10**6, "rows", 0.1) == "1.0 M rows in 100 ms, 10.0 M a second"
    assert line_of(10**9, 2 * 10**9, "bytes", 2) == (
        "1 GB of 2 GB (50 %), 500 MB a second, 2 s left"
    )
