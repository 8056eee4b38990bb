"""One question: how close does `Image` come to the speed of its decoder, and how do others compare?

    python benchmarks/bench_images.py [--images N] [--passes N] [--threads N] [--peers]

Three quarters of the images are JPEGs of 300 to 500 pixels a side, the others of 2,000 x 1,500. The
first lines are about RandomResizedCrop to 224 x 224 and flips. The roof decodes, crops and resizes
images that lie in memory, on as many threads as fastload, and drops the pixels. The plain
DataLoader has two workers, which decode by OpenCV at full size. Hugging Face's dataset decodes by
Pillow in as many workers, with torchvision's transforms. Then come center crops of the large images
alone, decoded at full size and at a fraction of it; and tensors that `cache=` has kept, next to a
column of uint8 lists of the same shape. The last line is the share of its speed that the trainer's
thread keeps while its process loads, compared with loading in another process.

fastload's pixels are compared with a loop of `fastload.images.decode` before any timing. Each way
runs in a process of its own; the figures are medians over its passes but for the first. The column
of ratios divides by the first line of the same kind.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support.image_ways import CROPPED, by_fastload, check, ways, write_files

from fastload.runtime.cores import available_cores
from fastload.tools.bench.machine import version_of
from support import trainer_thread

_PEERS = ("opencv-python-headless", "pillow", "datasets", "torchvision")


def run_way(given: argparse.Namespace) -> None:
    """Print the median seconds of a pass, or the share of its speed that the trainer keeps."""
    if given.way == "trainer":
        begin = by_fastload(given.home, "mixed", CROPPED, threads=given.threads)
        elsewhere = command(given, "paced")
        print(trainer_thread.compare(begin, elsewhere, None, given.passes).share)
        return
    if given.way == "paced":
        begin = by_fastload(given.home, "mixed", CROPPED, threads=given.threads)
        every, seconds = int(given.pace[0]), float(given.pace[1])
        batches = itertools.chain.from_iterable(begin() for _ in itertools.count())
        for number, _batch in enumerate(batches):
            if number == 0:
                print("ready", flush=True)
            if number % every == 0:
                time.sleep(seconds)
    begin, passes = ways(given.home, given.threads)[given.way](), []
    for _ in range(given.passes + 1):
        start = time.perf_counter()
        for _batch in begin():
            pass
        passes.append(time.perf_counter() - start)
    print(statistics.median(passes[1:]))


def command(given: argparse.Namespace, way: str) -> list[str]:
    """Return the command of a way's own process."""
    options = {"--home": given.home, "--threads": given.threads, "--passes": given.passes}
    pairs = [str(part) for pair in options.items() for part in pair]
    return [sys.executable, __file__, *pairs, "--way", way]


def printed(given: argparse.Namespace, way: str) -> float:
    """Run a way in a process of its own, and return the number that it prints."""
    run = subprocess.run(command(given, way), stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - our own
    return float(run.stdout.split()[-1])


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--peers", action="store_true", help="name the libraries, and stop")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("pace", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        run_way(given)
        return
    print(", ".join(f"{name} {version_of(name) or 'not installed'}" for name in _PEERS))
    if given.peers:
        return
    with tempfile.TemporaryDirectory() as home:
        given.home = Path(home)
        write_files(given.home, given.images)
        check(given.home, given.threads)
        first: dict[str, float] = {}
        print(f"{'':30}{'images/s':>10}{'of first':>10}")
        for way in ways(given.home, given.threads):
            if way.endswith("Hugging Face") and not (
                version_of("torchvision") and version_of("datasets")
            ):
                print(f"{way:30}{'not installed':>20}")
                continue
            kind = way.split(":")[0]
            rows = given.images if kind == "crops" else given.images // 4
            rate = rows / printed(given, way)
            print(f"{way:30}{rate:10,.0f}{rate / first.setdefault(kind, rate):10.2f}", flush=True)
        print(f"{'speed that the trainer keeps':40}{printed(given, 'trainer'):10.2f}")


if __name__ == "__main__":
    main()
