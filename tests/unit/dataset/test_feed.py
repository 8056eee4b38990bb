"""The feed that goes on with another scan after prepared rows were found damaged."""

from types import SimpleNamespace

import pytest

from fastload.dataset.passes.feed import Feed, FeedContext
from fastload.engine.prepared_engine import PreparedEngine
from fastload.errors import CorruptFileError, SourceChangedError, StorageError

CAUSE = CorruptFileError("a page is cut")
WHOLE = ["a", "b", "c", "d"]


class Scan:
    """Hands out batches, or raises errors."""

    opened_all = closed = False

    def __init__(self, batches):
        self.batches = list(batches)

    def close(self):
        self.closed, self.batches = True, []


class Engine(PreparedEngine):
    """Reads WHOLE from a batch on, with errors in place of some batches."""

    def __init__(self, errors=()):
        self.errors = dict(errors)
        self.steps, self.lost = None, {}
        self.budget = SimpleNamespace(stripe_rows=1)
        self.starts = []

    def __del__(self):
        pass

    def start(self, plan, batch_rows, before=None, *, again=False):
        self.starts.append((plan.first, again))
        scan = Scan(WHOLE[plan.first :])
        for name, error in self.errors.items():
            if name in scan.batches:
                scan.batches[scan.batches.index(name)] = error
        return scan

    def next_of(self, scan):
        batch = scan.batches[0] if scan.batches else None
        if isinstance(batch, BaseException):
            raise batch
        return scan.batches.pop(0) if scan.batches else None

    def batch_of(self, lent, mark, tensors=None):
        return lent, False


def opened(first, *mended):
    """A feed, and the calls that mend its prepared rows, each of which gives the next engine."""
    calls, left = [], list(mended)

    def mend(engine, error):
        calls.append((engine, error))
        following = left.pop(0)
        if isinstance(following, BaseException):
            raise following
        return following

    engines = SimpleNamespace(mended=mend, prefetch=4, batch_rows=1)
    context = FeedContext(engines=engines, steps=None, report=None)

    class Plan:
        def reads(self, stripe_rows, delivered):
            return SimpleNamespace(first=delivered, batches=len(WHOLE) - delivered)

    return Feed(context, first, Plan()), calls


def taken(feed):
    """The next batch, taken over."""
    batch = feed.next(None)
    feed.held = None
    return batch


def rest(feed):
    return list(iter(lambda: taken(feed), None))


@pytest.mark.parametrize("cause", [CAUSE, SourceChangedError("other"), StorageError("gone")])
def test_the_rest_of_a_pass_is_read_anew(cause):
    first, second = Engine({"c": cause}), Engine()
    feed, calls = opened(first, second)
    scan, told = feed._scan, []
    feed.on_opened = told.append
    assert rest(feed) == WHOLE
    assert calls == [(first, cause)]
    assert (scan.closed, told) == (True, [None])
    assert second.starts == [(2, False)]


def test_a_batch_is_held_until_it_is_taken_over():
    feed, _ = opened(Engine())
    assert [feed.next(None), feed.next(None)] == ["a", "a"]
    feed.held = None
    assert feed.next(None) == "b"


def test_damage_is_mended_as_often_as_it_is_met():
    last = Engine()
    feed, calls = opened(Engine({"b": CAUSE}), Engine({"c": CAUSE}), last)
    assert rest(feed) == WHOLE
    assert len(calls) == 2
    assert feed.engine is last


def test_other_errors_are_raised():
    feed, calls = opened(Engine({"b": ValueError("of a kernel")}))
    assert taken(feed) == "a"
    with pytest.raises(ValueError, match="of a kernel"):
        feed.next(None)
    assert calls == []


def test_an_error_while_the_rest_is_opened_loses_no_batch():
    first = Engine({"b": CAUSE})
    feed, calls = opened(first, OSError("late"), KeyboardInterrupt(), Engine())
    assert taken(feed) == "a"
    for error in (OSError, KeyboardInterrupt):
        with pytest.raises(error):
            feed.next(None)
    assert rest(feed) == ["b", "c", "d"]
    assert calls == [(first, CAUSE)] * 3
