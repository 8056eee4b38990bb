"""Footers on disk: shared, never trusted blindly, never in the way."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import pickle
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload.runtime._core import Footer, FooterSchemas, summarize_leaves
from fastload.runtime.disk.private_directory import publish, remove_unused_once
from fastload.source.footer_cache import _MOST_PACKS, FooterCache, FooterKey, NewFooter

DIGEST = bytes(range(16))


def tail_of(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    data = sink.getvalue()
    return data[-Footer.tail_bytes(data[-8:], len(data), "x") :], len(data)


TABLE = pa.table({"a": pa.array([1, None, 3] * 40), "s": ["x", "yy", "zzz"] * 40})
TAIL, SIZE = tail_of(TABLE, row_group_size=7)


def new(key, tail=TAIL, size=SIZE, schemas=None):
    footer = Footer(tail, size, "there", schemas)
    packed = footer.pack()
    parts = (key.key, key.path, DIGEST, footer.packed_rows, packed, footer.schema)
    return key, NewFooter(*parts)


def key_of(number, version="1"):
    return FooterKey(f"gs://bucket/train/part-{number}.parquet", version)


@pytest.fixture
def home(tmp_path):
    return tmp_path / "cache"


def cache(home):
    return FooterCache(FooterSchemas(), home)


def packs(home):
    return sorted(home.glob("footers-4/*/*.pack"))


def same(footer, expected):
    assert footer.row_group_rows == expected.row_group_rows
    assert footer.num_rows == expected.num_rows
    assert footer.same_schema(expected)
    assert [leaf.path for leaf in footer.leaves] == [leaf.path for leaf in expected.leaves]
    for leaf in range(len(expected.leaves)):
        got, wanted = footer.leaf_chunks(leaf), expected.leaf_chunks(leaf)
        for name in ("compressed_bytes", "num_values", "null_count", "value_bytes"):
            assert getattr(got, name) == getattr(wanted, name)
    columns = [[leaf] for leaf in range(len(expected.leaves))]
    got = summarize_leaves([footer], columns)
    wanted = summarize_leaves([expected], columns)
    for name in ("values", "value_bytes", "null_file", "null_row_group", "nulls_known"):
        assert [getattr(each, name) for each in got] == [getattr(each, name) for each in wanted]


def test_footers_are_as_they_were(home):
    other, other_size = tail_of(TABLE.select(["s"]), row_group_size=50)
    keys = [key_of(i) for i in range(5)]
    footers = [new(key) for key in keys[:4]] + [new(keys[4], other, other_size)]
    cache(home).store(footers)
    assert len(packs(home)) == 1
    found = cache(home).load([*keys, key_of(9)])
    assert len(found) == 5
    for key in keys:
        placed = found[key.key]
        assert placed.digest == DIGEST
        tail, size = (other, other_size) if key is keys[4] else (TAIL, SIZE)
        footer, expected = placed.footer(size, "here"), Footer(tail, size, "here")
        same(footer, expected)
        same(pickle.loads(pickle.dumps(footer)), expected)
    assert home.joinpath("footers-4").stat().st_mode & 0o777 == 0o700


def test_another_version_is_not_found(home):
    cache(home).store([new(key_of(1))])
    assert not cache(home).load([key_of(1, "2")])


def test_footers_of_one_schema_share_it_also_in_pickles():
    schemas = FooterSchemas()
    footers = []
    for i in range(3):
        table = TABLE.replace_schema_metadata({"index": str(i)})
        tail, size = tail_of(table)
        footer = Footer(tail, size, "x", schemas)
        packed = footer.pack()
        footers.append(Footer.of_packed(packed, size, "x", footer.packed_rows, footer.schema))
    for alike in (footers, pickle.loads(pickle.dumps(footers))):
        kept = [footer.schema for footer in alike]  # an id is one's own only while it lives
        assert all(schema is kept[0] for schema in kept)
    wide, size = tail_of(pa.table({"a": pa.array([1], pa.int32())}))
    assert Footer(wide, size, "x", schemas).schema is not footers[0].schema


def told(footers, pipe):
    pipe.send([footer.leaf_chunks(1).offset for footer in footers])


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
@pytest.mark.parametrize("removed", [False, True])
def test_a_started_process_opens_the_file_of_kept_footers(home, start, removed):
    keys = [key_of(i) for i in range(50)]
    found = cache(home).store([new(key) for key in keys])
    footers = [found[key.key].footer(SIZE, "here") for key in keys]
    [pack] = packs(home)
    if removed:
        pack.unlink()
    context = multiprocessing.get_context(start)
    here, there = context.Pipe()
    process = context.Process(target=told, args=(footers, there))
    process.start()
    assert here.poll(100)
    assert here.recv() == [Footer(TAIL, SIZE, "x").leaf_chunks(1).offset] * 50
    process.join()
    assert len(pickle.dumps(footers[0])) > len(footers[0].pack())  # elsewhere by value


def test_damage_is_no_footer(home):
    key = key_of(1)
    cache(home).store([new(key)])
    (path,) = packs(home)
    whole = path.read_bytes()
    for at in [0, 9, 20, 60, 150, len(whole) // 2, len(whole) - 1]:
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        path.write_bytes(damaged)
        assert not cache(home).load([key]), at
        assert not packs(home)
    for size in [0, 5, 56, len(whole) - 1]:
        path.write_bytes(whole[:size])
        assert not cache(home).load([key]), size
    cache(home).store([new(key)])
    assert cache(home).load([key])


def test_footers_that_nobody_asked_for_in_a_month_are_removed(home):
    asked, unasked, later = map(key_of, range(3))
    for key in (asked, unasked):
        cache(home).store([new(key)])
    month_ago = time.time() - 31 * 24 * 3600
    for path in packs(home):
        os.utime(path, (month_ago, month_ago))
    assert cache(home).load([asked])
    remove_unused_once.cache_clear()  # as in the next process
    cache(home).store([new(later)])
    assert sorted(cache(home).load([asked, unasked, later])) == sorted([asked.key, later.key])


def test_many_packs_become_one(home):
    kept = cache(home)
    for run in range(_MOST_PACKS + 1):
        kept.store([new(key_of(run)), new(key_of(99, version=str(run)))])
    assert len(packs(home)) == 2
    found = cache(home).load([key_of(run) for run in range(_MOST_PACKS + 1)])
    assert len(found) == _MOST_PACKS + 1
    versions = [key_of(99, version=str(run)) for run in range(_MOST_PACKS + 1)]
    assert len(cache(home).load(versions)) == 2  # of the merged ones the newest
    for placed in found.values():
        same(placed.footer(SIZE, "here"), Footer(TAIL, SIZE, "here"))


def test_a_merge_removes_what_killed_writers_left(home):
    kept = cache(home)
    kept.store([new(key_of(0))])
    [pack] = packs(home)
    old, fresh = pack.with_name(".new-old"), pack.with_name(".new-fresh")
    for path in (old, fresh):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    for run in range(1, _MOST_PACKS + 1):
        kept.store([new(key_of(run))])
    assert fresh.exists()
    assert not old.exists()


def test_a_full_disk_is_told_once(home, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fastload.source.footer_cache.publish", full)
    kept = cache(home)
    with pytest.warns(UserWarning, match="Can't keep footers: No space left") as warned:
        placed = kept.store([new(key_of(1)), new(FooterKey("gs://b/x/y", "1"))])
    assert not placed
    assert not kept.store([new(key_of(2))])
    assert len(warned) == 1


def test_a_directory_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="Can't keep footers"):
        kept = FooterCache(FooterSchemas())
    assert not kept.store([new(key_of(1))])
    assert not kept.load([key_of(1)])


def test_a_pack_of_another_format_is_left_alone(home):
    other = home / "footers-2"
    other.mkdir(parents=True)
    (other / "x.pack").write_bytes(b"FLFOOT03")
    cache(home).store([new(key_of(1))])
    assert (other / "x.pack").read_bytes() == b"FLFOOT03"


def _store_and_load(home, first):
    kept = cache(home)
    for number in range(first, first + 10):
        kept.store([new(key_of(number))])
    return len(kept.load([key_of(number) for number in range(first, first + 10)]))


def test_processes_write_at_once(home):
    with multiprocessing.get_context("fork").Pool(3) as pool:
        assert pool.starmap(_store_and_load, [(home, 10 * i) for i in range(3)]) == [10] * 3
    found = cache(home).load([key_of(number) for number in range(30)])
    assert len(found) == 30
    for placed in found.values():
        same(placed.footer(SIZE, "here"), Footer(TAIL, SIZE, "here"))
    assert not [name for name in os.listdir(packs(home)[0].parent) if name.startswith(".new")]


def test_a_pack_that_another_merges_at_once_is_found(home, monkeypatch):
    """Between its being written and its being opened."""
    kept = cache(home)
    for run in range(_MOST_PACKS - 1):
        kept.store([new(key_of(run))])

    @contextlib.contextmanager
    def publish_and_merge(name):
        with publish(name) as file:
            yield file
        monkeypatch.setattr("fastload.source.footer_cache.publish", publish)
        cache(home).store([new(key_of(50))])

    monkeypatch.setattr("fastload.source.footer_cache.publish", publish_and_merge)
    last = key_of(_MOST_PACKS)
    placed = kept.store([new(last)])
    assert len(packs(home)) == 2
    same(placed[last.key].footer(SIZE, "here"), Footer(TAIL, SIZE, "here"))
    assert kept.store([new(key_of(60))])


def test_footers_are_kept_in_few_bytes():
    rng = np.random.default_rng(0)
    columns = {f"c{i}": rng.integers(0, 1 << 40, 10_000) for i in range(3)}
    tail, size = tail_of(pa.table(columns), row_group_size=100)
    assert len(new(key_of(1), tail, size)[1].packed) < len(tail) / 3
