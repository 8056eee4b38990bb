"""The feed that turns from cached row groups to the files."""

from types import SimpleNamespace

import pytest

from fastload.dataset.passes.feed import BlockFeed
from fastload.engine.cache.arrow_format import UncacheableError


class Engine:
    replaced = False


class Feed:
    """Hands out batches."""

    on_opened = None
    begun = closed = False

    def __init__(self, *batches):
        self.batches = list(batches)

    def begin(self):
        self.begun = True

    def next(self, mark):
        if not self.batches:
            return None
        batch = self.batches.pop(0)
        if isinstance(batch, Exception):
            raise batch
        return SimpleNamespace(name=batch, mark=mark)

    def close(self):
        self.closed, self.batches = True, []  # as a SteppedFeed, whose close() leaves no batch


def opened(first, rest, engine):
    calls = []

    def open_rest(cause, handed_out):
        calls.append((cause, handed_out))
        return rest

    return BlockFeed(first, engine, open_rest), calls


def names(feed):
    return [batch.name for batch in iter(lambda: feed.next(None), None)]


def test_the_rest_of_a_pass_comes_from_the_files():
    cause, engine = UncacheableError("full"), Engine()
    first, told = Feed("a", "b", cause, "c"), []
    first.on_opened = told.append
    feed, calls = opened(first, Feed("c", "d"), engine)
    assert names(feed) == ["a", "b", "c", "d"]
    assert calls == [(cause, 2)]
    assert (first.closed, told) == (True, [None])


def test_a_prepared_pass_begins_with_the_engine_that_replaced_its_own():
    engine, first = Engine(), Feed("a")
    feed, calls = opened(first, Feed("from files"), engine)
    engine.replaced = True
    feed.begin()
    assert names(feed) == ["from files"]
    assert (first.begun, first.closed, calls) == (False, True, [(None, 0)])


def test_an_error_while_the_rest_is_opened_loses_no_batch():
    cause, engine, errors = (
        UncacheableError("full"),
        Engine(),
        [OSError("late"), KeyboardInterrupt()],
    )

    def open_rest(why, handed_out):
        assert why is cause
        if errors:
            raise errors.pop(0)
        return Feed(f"from {handed_out}")

    feed = BlockFeed(Feed("a", cause, "b"), engine, open_rest)
    assert feed.next(None).name == "a"
    for error in (OSError, KeyboardInterrupt):
        with pytest.raises(error):
            feed.next(None)
    assert names(feed) == ["from 1"]
