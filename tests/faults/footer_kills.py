"""Keeps footers in several processes at once, which are killed again and again.

    python tests/faults/footer_kills.py [--kills 200] [--processes 3]

Each process writes packs of footers, in few shards, so that packs are merged all the time, and
compares the footers that it finds with those of the files. At the end all packs are whole, nothing
that killed writers held is held any more, and a few packs are all that is left.
"""

import io
import os
import random
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fastload.runtime._core import Footer, FooterSchemas
from fastload.source.footer_cache import _MOST_PACKS, FooterCache, FooterKey, NewFooter
from killing import kill_again_and_again, run_command

FILES = 40


def written(rows):
    """The bytes of a footer, and the size of its file; both tell `rows`."""
    sink = io.BytesIO()
    table = pa.table({"a": pa.array(range(rows)), "s": ["x" * (1 + rows)] * rows})
    pq.write_table(table, sink, row_group_size=3)
    data = sink.getvalue()
    return data[-Footer.tail_bytes(data[-8:], len(data), "x") :], len(data)


FOOTERS = [written(10 + number) for number in range(FILES)]
KEYS = [FooterKey(f"gs://bucket/part-{number}.parquet", "1") for number in range(FILES)]


def new(number):
    tail, size = FOOTERS[number]
    footer = Footer(tail, size, "there")
    parts = (KEYS[number].key, KEYS[number].path, tail[:16], footer.packed_rows, footer.pack())
    return KEYS[number], NewFooter(*parts, footer.schema)


def differs(number, found):
    """What is wrong with a kept footer; empty if nothing is."""
    tail, size = FOOTERS[number]
    expected = Footer(tail, size, "there")
    got = found.footer(size, "there")
    if found.digest != tail[:16] or got.row_group_rows != expected.row_group_rows:
        return f"rows of file {number}: {got.row_group_rows}"
    for leaf in range(len(expected.leaves)):
        if got.leaf_chunks(leaf).compressed_bytes != expected.leaf_chunks(leaf).compressed_bytes:
            return f"chunks of file {number}, leaf {leaf}"
    return ""


def fill(home, wrong, seed):
    """Until it is killed."""
    choice = random.Random(seed)
    while True:
        cache = FooterCache(FooterSchemas(), home)
        some = choice.sample(range(FILES), 5)
        found = cache.load([KEYS[number] for number in some])
        told = [
            differs(number, found[KEYS[number].key]) for number in some if KEYS[number].key in found
        ]
        cache.store([new(number) for number in some])
        if any(told):
            (wrong / f"{os.getpid()}").write_text("; ".join(filter(None, told)))


def run(directory, kills, processes):
    """Returns how many packs are left."""
    home = Path(directory) / "cache"
    fills = partial(fill, home)
    kill_again_and_again(fills, Path(directory) / "wrong", kills, processes, (0.005, 0.05))
    return check(home)


def check(home):
    cache = FooterCache(FooterSchemas(), home)
    before = set(home.glob("footers-4/*/*.pack"))
    cache.load(KEYS)
    assert before == set(home.glob("footers-4/*/*.pack")), "a pack was damaged, and removed"
    for _ in range(2 * _MOST_PACKS):
        cache.store([new(number) for number in range(FILES)])
    found = cache.load(KEYS)
    assert len(found) == FILES
    assert not any(differs(number, found[KEYS[number].key]) for number in range(FILES))
    left = list(home.glob("footers-4/*/*.pack"))
    assert len(left) <= _MOST_PACKS + 1, "what a killed process held is not given up"
    return len(left)


if __name__ == "__main__":
    run_command(run, "packs")
