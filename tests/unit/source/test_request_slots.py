"""Places for requests: as many as the store allows, and every one comes back."""

from __future__ import annotations

import asyncio
import time

import pytest

from fastload.source.stores.requests import RequestSlots


def test_no_more_than_there_are_and_in_turns():
    order = []

    async def request(slots, name):
        await slots.take()
        order.append(name)
        assert slots.taken <= 2
        await asyncio.sleep(0)
        slots.free()

    async def run():
        slots = RequestSlots(2)
        await asyncio.gather(*(request(slots, name) for name in "abcde"))
        return slots

    slots = asyncio.run(run())
    assert order == list("abcde")
    assert slots.taken == 0


@pytest.mark.parametrize("moment", ["while it waits", "as it is given one"])
def test_who_is_cancelled_has_none(moment):
    async def run():
        slots = RequestSlots(1)
        await slots.take()
        assert not slots.crowded
        waiting = asyncio.ensure_future(slots.take())
        await asyncio.sleep(0)
        assert slots.crowded
        if moment == "as it is given one":
            slots.free()
            assert slots.taken == 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        if moment == "while it waits":
            slots.free()
        assert slots.taken == 0
        assert not slots.crowded
        await asyncio.wait_for(slots.take(), 10)

    asyncio.run(run())


def test_a_place_passes_over_who_was_cancelled_just_now():
    """Who was cancelled knows of it in the loop's next round."""

    async def run():
        slots = RequestSlots(1)
        await slots.take()
        waiting = [asyncio.ensure_future(slots.take()) for _ in range(2)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        slots.free()
        await asyncio.wait_for(waiting[1], 10)
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]
        assert slots.taken == 1
        assert not slots.crowded

    asyncio.run(run())


def test_fewer_after_an_overload_and_then_more():
    async def run():
        slots = RequestSlots(8)
        began = time.monotonic()
        for _ in range(8):
            await slots.take()
        for _ in range(5):  # all of one time
            slots.shrink(began)
        assert slots.limit == 4
        assert slots.crowded
        waiting = asyncio.ensure_future(slots.take())
        for _ in range(4):
            slots.free()
            await asyncio.sleep(0)
            assert not waiting.done()
        slots.free()
        await asyncio.wait_for(waiting, 10)
        assert slots.taken == slots.limit == 4
        slots.shrink(time.monotonic())
        assert slots.limit == 2
        for _ in range(3):
            slots.grow()
        assert slots.limit == 3
        for _ in range(100):
            slots.grow()
        assert slots.limit == 8

    asyncio.run(run())


def test_never_none():
    slots = RequestSlots(1)
    for _ in range(3):
        slots.shrink(time.monotonic())
    assert slots.limit == 1
