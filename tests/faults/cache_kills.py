"""Fills and evicts a small cache in several processes at once, which are killed again and again.

    python tests/faults/cache_kills.py [--kills 200] [--processes 3]

What a process reads of the cache it compares with what the bytes should be. At the end all that is
left is read, whatever the killed ones held is taken over, and the sum of bytes is looked at.
"""

import os
import random
from functools import partial
from pathlib import Path

import numpy as np

from fastload import Cache
from fastload.runtime._core import check_range
from fastload.runtime.disk.cache import RAW
from fastload.runtime.disk.entries import entries_of, used_bytes
from fastload.source.files import StoredFile
from fastload.source.stores.raw_tier import RawTier
from killing import kill_again_and_again, run_command

OBJECTS = 5
OBJECT_BYTES = 1 << 20
MOST_BYTES = 2 << 20  # less than half of what is asked for
PIECE = 64 << 10
CONTENT = np.random.default_rng(0).integers(0, 256, OBJECT_BYTES + OBJECTS, np.uint8).tobytes()
FILES = [StoredFile(f"bucket/{i}", OBJECT_BYTES, f"v{i}") for i in range(OBJECTS)]


def content(number, start, stop):
    return CONTENT[number + start : number + stop]


def fill(tier, wrong, seed):
    """Until it is killed."""
    choice = random.Random(seed)
    tier = tier.of_process()
    while True:
        number = choice.randrange(OBJECTS)
        start = choice.randrange(0, OBJECT_BYTES // PIECE) * PIECE
        stop = min(OBJECT_BYTES, start + choice.choice([1, 2, 3]) * PIECE)
        name = tier.name_of("gs", FILES[number])
        kept = tier.ranges.read(name, start, stop)
        if kept is not None:
            if kept != content(number, start, stop):
                (wrong / f"{os.getpid()}").write_text(f"{number} {start} {stop}")
            continue
        claim = tier.claim(name, start, stop)
        if claim is not None:
            tier.publish(claim, name, "gs", FILES[number], content(number, start, stop))
        if not tier.writes:
            (wrong / f"{os.getpid()}").write_text("gave up")
            return


def run(directory, kills, processes):
    """Returns how many entries were left."""
    cache = Cache(Path(directory) / "cache", max_bytes=MOST_BYTES)
    fills = partial(fill, RawTier(cache, ""))
    kill_again_and_again(fills, Path(directory) / "wrong", kills, processes, (0.005, 0.05))
    return check(cache)


def check(cache):
    raw = cache.path / RAW
    numbers = {RawTier(cache, "").name_of("gs", file): i for i, file in enumerate(FILES)}
    entries = list(entries_of(raw))
    for entry in entries:
        assert check_range(str(raw), entry.object, *entry.range)
        body = Path(entry.path).read_bytes()[-(entry.range[1] - entry.range[0]) :]
        assert body == content(numbers[entry.object], *entry.range)
    assert used_bytes(raw) <= MOST_BYTES
    tier = RawTier(cache, "")
    for name in numbers:
        for start in range(0, OBJECT_BYTES, PIECE):
            if tier.ranges.read(name, start, start + PIECE) is None:
                claim = tier.claim(name, start, start + PIECE)
                assert claim is not None, "what a killed process held is not given up"
                claim.release()
    return len(entries)


if __name__ == "__main__":
    run_command(run, "entries")
