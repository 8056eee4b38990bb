"""What do ways to write a cache's files cost?

    python benchmarks/loops/file_writes.py [--directory DIR] [--megabytes N] [--repeats N]

Printed are, in turns, the milliseconds and the CPU milliseconds to write so many bytes: to files of
24 MB through the page cache; likewise past it (`O_DIRECT`); in pieces of 16,640 bytes and of
256 KiB; to files of 2 MB, plain and with their blocks found by `posix_fallocate` first; and through
a mapping. Every file is new, and all are removed in the end alone.
"""

from __future__ import annotations

import argparse
import mmap
import os
import sys
import tempfile
from functools import partial
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import turns

_NAMES = count()


def write(
    directory: str,
    total: int,
    file_bytes: int,
    piece: int,
    *,
    direct: bool = False,
    allocate: bool = False,
) -> None:
    """Write `total` bytes to new files of `file_bytes`, in pieces."""
    block = mmap.mmap(-1, piece)  # aligned, as O_DIRECT asks for
    block.write(b"\x55" * piece)
    flags = os.O_CREAT | os.O_WRONLY | (os.O_DIRECT if direct else 0)
    for _ in range(total // file_bytes):
        descriptor = os.open(Path(directory, str(next(_NAMES))), flags, 0o600)
        if allocate:
            os.posix_fallocate(descriptor, 0, file_bytes)
        for offset in range(0, file_bytes - piece + 1, piece):
            os.pwrite(descriptor, block, offset)
        os.close(descriptor)


def write_mapped(directory: str, total: int, file_bytes: int) -> None:
    """Write likewise, through mappings of the files."""
    block = b"\x55" * (1 << 20)
    for _ in range(total // file_bytes):
        with Path(directory, str(next(_NAMES))).open("w+b") as file:
            file.truncate(file_bytes)
            with mmap.mmap(file.fileno(), file_bytes) as mapped:
                for offset in range(0, file_bytes, len(block)):
                    mapped[offset : offset + len(block)] = block


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", help="on the disk in question; no tmpfs")
    parser.add_argument("--megabytes", type=int, default=192)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    total = arguments.megabytes << 20
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        large = partial(write, directory, total, 24 << 20)
        small = partial(write, directory, total, 2 << 20, 2 << 20)
        ways = {
            "files of 24 MB": partial(large, 1 << 20),
            "past the page cache": partial(large, 1 << 20, direct=True),
            "pieces of 16,640 bytes": partial(large, 16_640),
            "pieces of 256 KiB": partial(large, 1 << 18),
            "through a mapping": partial(write_mapped, directory, total, 24 << 20),
            "files of 2 MB": small,
            "likewise, allocated first": partial(small, allocate=True),
        }
        costs = turns.in_turns(ways, arguments.repeats)
    turns.show(f"{arguments.megabytes} MiB", costs)


if __name__ == "__main__":
    main()
