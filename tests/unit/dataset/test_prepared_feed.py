"""The feed that goes on after prepared rows were found damaged."""

from types import SimpleNamespace

import pytest

from fastload.dataset.passes.feed import PreparedFeed
from fastload.engine.prepared_engine import PreparedEngine
from fastload.errors import CorruptFileError, SourceChangedError, StorageError

CAUSE = CorruptFileError("a page is cut")
PREPARED = PreparedEngine.__new__(PreparedEngine)
OF_FILES = SimpleNamespace(name="an engine that reads the files")


class Feed:
    """Hands out batches, or raises errors."""

    on_opened = None
    closed = False

    def __init__(self, *batches, engine=PREPARED):
        self.batches = list(batches)
        self.engine = engine

    def next(self, mark):
        if not self.batches:
            return None
        batch = self.batches.pop(0)
        if isinstance(batch, BaseException):
            raise batch
        return SimpleNamespace(name=batch, mark=mark)

    def close(self):
        self.closed, self.batches = True, []


def opened(first, *rests):
    """A feed, and the calls that open the rest of its pass, of which each gives the next rest."""
    calls, left = [], list(rests)

    def open_rest(engine, error, handed_out):
        calls.append((engine, error, handed_out))
        rest = left.pop(0)
        if isinstance(rest, BaseException):
            raise rest
        return rest

    return PreparedFeed(first, open_rest), calls


def names(feed):
    return [batch.name for batch in iter(lambda: feed.next(None), None)]


@pytest.mark.parametrize("cause", [CAUSE, SourceChangedError("other"), StorageError("gone")])
def test_the_rest_of_a_pass_is_opened_anew(cause):
    first, told = Feed("a", "b", cause, "c"), []
    first.on_opened = told.append
    feed, calls = opened(first, Feed("c", "d"))
    assert names(feed) == ["a", "b", "c", "d"]
    assert calls == [(PREPARED, cause, 2)]
    assert (first.closed, told) == (True, [None])


def test_damage_is_met_again_until_the_files_are_read():
    feed, calls = opened(Feed("a", CAUSE), Feed("b", CAUSE), Feed("c", CAUSE, engine=OF_FILES))
    assert [feed.next(None).name for _ in range(3)] == ["a", "b", "c"]
    assert [handed_out for _, _, handed_out in calls] == [1, 2]
    with pytest.raises(CorruptFileError):
        feed.next(None)
    assert feed.engine is OF_FILES


def test_other_errors_are_raised():
    feed, calls = opened(Feed("a", ValueError("of augment"), "b"))
    assert feed.next(None).name == "a"
    with pytest.raises(ValueError, match="of augment"):
        feed.next(None)
    assert calls == []


def test_an_error_while_the_rest_is_opened_loses_no_batch():
    feed, calls = opened(
        Feed("a", CAUSE, "b"), OSError("late"), KeyboardInterrupt(), Feed("b", "c")
    )
    assert feed.next(None).name == "a"
    for error in (OSError, KeyboardInterrupt):
        with pytest.raises(error):
            feed.next(None)
    assert names(feed) == ["b", "c"]
    assert calls == [(PREPARED, CAUSE, 1)] * 3
