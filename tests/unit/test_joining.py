"""Batches that come in parts."""

import torch

from fastload import Batch, Ragged
from fastload.batch.joining import joined


def ragged(lists, kind=None):
    """Of lists of numbers, or of str."""
    if kind == "str":
        values = torch.tensor(list("".join(lists).encode()), dtype=torch.uint8)
        lengths = [len(text.encode()) for text in lists]
    else:
        values = torch.tensor([n for row in lists for n in row], dtype=torch.int64)
        lengths = [len(row) for row in lists]
    return Ragged(values, torch.tensor([0, *lengths]).cumsum(0), kind)


def nested(rows):
    offsets = torch.tensor([0, *(len(row) for row in rows)]).cumsum(0)
    return Ragged(ragged([inner for row in rows for inner in row]), offsets)


def test_a_single_part_stays_as_it_is():
    batch = Batch({"x": torch.arange(3)}, position="here")
    assert joined([batch]) is batch


def test_rows_follow_one_another():
    texts, lists = ["a", "", "bé", "cc", "d"], [[[1], []], [], [[2, 3]], [[4]], [[], [5]]]
    numbers = torch.arange(10).reshape(5, 2).to(torch.uint16)
    whole = {"n": numbers, "t": ragged(texts, "str"), "l": nested(lists)}
    parts = [
        Batch({name: column[part] for name, column in whole.items()}, position=number)
        for number, part in enumerate([slice(0, 1), slice(1, 1), slice(1, 4), slice(4, 5)])
    ]
    batch = joined(parts)
    assert batch._position == 3
    assert torch.equal(batch["n"].to(torch.int64), numbers.to(torch.int64))
    assert list(batch["t"]) == texts
    assert batch["l"].tolist() == lists
    assert batch["t"] == whole["t"]
    assert batch["l"] == whole["l"]
    # Of offsets that begin at 0, as every batch has.
    assert batch["t"].offsets[0] == 0
