"""Blocks that are written behind, by a real thread to a real directory."""

import os
import threading

import pyarrow as pa

from fastload import Cache
from fastload.engine.cache.arrow_format import FileOverhead
from fastload.engine.cache.entry_writer import EntryWriter
from fastload.engine.cache.store import BlockStore
from fastload.engine.cache.write_behind import WriteBehind
from fastload.runtime.native import core

NAMES = [f"0123456789abcdef/{group}" for group in range(3)]
SCHEMA = pa.schema([pa.field("x", pa.int64(), nullable=False)])


def test_close_does_not_give_up_blocks_that_another_thread_publishes(tmp_path):
    store, queue = BlockStore(Cache(tmp_path)), core.DecodedQueue(1)
    published, first, leave = [], threading.Event(), threading.Event()

    def publish(key, name, checksum):
        published.append(name)
        first.set()
        leave.wait(20)

    behind = WriteBehind(queue, 1 << 26, publish)
    before = queue.wait(-1, 0)
    batch = core.BlockBatch.copied(pa.record_batch([pa.array([1, 2, 3])], schema=SCHEMA))
    for group, name in enumerate(NAMES):
        writer = EntryWriter.lock(store, name)
        behind.put((0, group), writer, [batch], FileOverhead.of(SCHEMA), 0)
    calls = before
    while calls < before + len(NAMES):  # each written block wakes the queue's waiters
        calls = queue.wait(calls, 20)
    publisher = threading.Thread(target=behind.finish_written)
    publisher.start()
    assert first.wait(20)
    closer = threading.Thread(target=behind.close, args=(20,))
    closer.start()
    closer.join(0.5)
    leave.set()
    publisher.join(20)
    closer.join(20)
    assert published == NAMES
    assert all(os.path.exists(store.path(name)) for name in NAMES)
    queue.close()
