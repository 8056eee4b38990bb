"""The stores that a client opens."""

import asyncio
import contextlib

from fastload import IO
from fastload.source.stores.client import StoreClient


class Opened:
    """A store that counts how many of its kind are not closed."""

    pins = True
    left = 0

    def __init__(self):
        Opened.left += 1

    async def close(self):
        Opened.left -= 1


def test_each_store_is_closed_once_whoever_waited_for_one_that_failed():
    tries = []

    async def open_store(kind):
        tries.append(kind)
        await asyncio.sleep(0)
        if len(tries) == 1:
            raise ConnectionError
        return Opened()

    async def ask(client, steps):
        for _ in range(steps):  # each asks at another moment of the opening that fails
            await asyncio.sleep(0)
        with contextlib.suppress(ConnectionError):
            await client.store("s3")

    async def ask_often(client):
        await asyncio.gather(*(ask(client, steps) for steps in range(10) for _ in range(3)))

    client = StoreClient(open_store, IO(), None)
    client.call(ask_often(client))
    assert len(tries) == 2
    client.close()
    assert Opened.left == 0
