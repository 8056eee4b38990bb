"""The source of each batch of a mix, against one draw at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastload.plan.mix import draws as mix_schedule
from fastload.plan.mix.draws import Stock, draw_sources
from fastload.plan.permutation import stream_values


def one_by_one(key, weights, stock, stop):
    """The definition: the sources until the end, drawn one after the other."""
    scaled = [w / max(weights) for w in weights] if any(weights) else weights
    shares = [max(1, int(w / sum(scaled) * 2**31)) if w else 0 for w in scaled]
    left, again, needed = (array.tolist() for array in stock)
    drawn = [0] * len(weights)
    sources = []
    while True:
        alive = [w > 0 for w in weights]
        if stop == "all":
            alive = [a and drawn[c] < left[c] for c, a in enumerate(alive)]
        if stop == "repeat":
            alive = [a and again[c] > 0 for c, a in enumerate(alive)]
            if all(drawn[c] >= needed[c] for c in range(len(weights))):
                return sources
        if not any(alive):
            return sources
        bounds = np.cumsum([w if a else 0 for w, a in zip(shares, alive, strict=True)]).tolist()
        number = int(stream_values(key, len(sources) + 1)[-1]) * bounds[-1] >> 64
        source = next(c for c, bound in enumerate(bounds) if number < bound)
        if stop == "first" and drawn[source] == left[source]:
            return sources
        drawn[source] += 1
        sources.append(source)


@st.composite
def stocks(draw):
    again = draw(st.lists(st.integers(0, 40), min_size=1, max_size=5))
    left = [draw(st.integers(0, most)) for most in again]
    needed = [draw(st.sampled_from([0, most])) for most in left]
    return Stock(*(np.array(counts) for counts in (left, again, needed)))


@settings(max_examples=150, deadline=None)
@given(st.data(), stocks(), st.integers(0, 2**64 - 1), st.sampled_from(["first", "all", "repeat"]))
def test_as_if_drawn_one_by_one(data, stock, key, stop):
    positive = st.sampled_from([0.5, 1, 1, 2, 3, 0.3])
    weights = [data.draw(positive) if again else 0 for again in stock.again]
    expected = one_by_one(key, weights, stock, stop)
    with pytest.MonkeyPatch.context() as patch:
        # Several pieces of draws to put together.
        patch.setattr(mix_schedule, "_LEAST_DRAWS", data.draw(st.sampled_from([1, 7, 1 << 7])))
        patch.setattr(mix_schedule, "_MOST_DRAWS", data.draw(st.sampled_from([7, 1 << 18])))
        assert draw_sources(key, weights, stock, stop).tolist() == expected


def plenty(*batches):
    counts = np.array(batches)
    return Stock(counts, counts, counts)


@pytest.mark.parametrize("stop", ["first", "all", "repeat"])
def test_sources_come_as_often_as_their_weights_say(stop):
    weights = [3, 1, 0.5, 1e-300]
    stock = plenty(300_000, 100_000, 50_000, 1 if stop == "all" else 50)
    stock = stock._replace(needed=np.array([0, 100_000, 0, 0]))
    steps = draw_sources(5, weights, stock, stop)[:300_000]
    share = np.bincount(steps, minlength=4) / len(steps)
    assert share == pytest.approx([6 / 9, 2 / 9, 1 / 9, 0], abs=0.005)
    # Neighbours are independent: a pair comes as often as the product says.
    pairs = (steps[1:] == 1) & (steps[:-1] == 1)
    assert pairs.mean() == pytest.approx((2 / 9) ** 2, abs=0.003)


def test_all_are_delivered():
    stock = plenty(1000, 0, 70_000, 1)
    steps = draw_sources(1, [1, 0, 1e9, 1e9], stock, "all")
    assert np.bincount(steps, minlength=4).tolist() == stock.left.tolist()


def test_keys_and_weights_of_many_sources():
    stock = plenty(*[100] * 300)
    orders = [draw_sources(key, [1e308] * 300, stock, "all").tolist() for key in (1, 2)]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])


def test_too_long(monkeypatch):
    monkeypatch.setattr(mix_schedule, "_MOST_STEPS", 1000)
    with pytest.raises(ValueError, match="Expected an epoch of at most 1000 batches"):
        draw_sources(1, [1000, 1], plenty(10, 10), "repeat")
