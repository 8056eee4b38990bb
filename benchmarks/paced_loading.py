"""Load from a store at a trainer's pace, in a process of its own, until it is killed.

python benchmarks/paced_loading.py URL TRANSPORT CONNECTIONS EVERY SECONDS
"""

from __future__ import annotations

import itertools
import sys
import time

from support.click_log_store import Store

from support import store_readers as readers


def main() -> None:
    """Take `EVERY` batches and sleep in turns; print a line when loading has begun."""
    url, transport, connections, every, seconds = sys.argv[1:]
    readers.prepare()
    dataset = readers.fastload(Store(url, 0), transport, int(connections), threads=1)
    for _ in dataset:
        pass
    passes = itertools.chain.from_iterable(itertools.repeat(dataset))
    for number, _ in enumerate(passes):
        if number % int(every) == 0:
            time.sleep(float(seconds))
        if number == 0:
            print("ready", flush=True)


if __name__ == "__main__":
    main()
