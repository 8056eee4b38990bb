"""Outputs of every dtype and shape that a step may return, for tests of prepared rows."""

import itertools

import numpy as np
import torch

from fastload import Ragged
from fastload.testing import assert_same_batches


def sums(lengths):
    """Return the offsets of lists with these lengths."""
    return torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])


def of_every_kind(block):
    """A step that computes them of an int column `x`."""
    x = torch.as_tensor(block["x"])
    lists = Ragged(torch.repeat_interleave(x, x % 3), torch.cat([x[:0], sums(x % 3)]))
    tensors = lists.values[:, None, None].repeat(1, 2, 2)
    return {
        "float16": (x % 9).half(),
        "bfloat16": (x % 9).bfloat16(),
        "uint64": (x + 2**40).to(torch.uint64),
        "uint8": (x % 256).to(torch.uint8),
        "bool": x % 2 == 0,
        "vector": x[:, None].repeat(1, 3).float(),
        "flags": x[:, None].repeat(1, 5) % 7 > 2,
        "narrow": x[:, None].repeat(1, 2).bfloat16(),
        "image": x[:, None, None, None].repeat(1, 3, 4, 2).to(torch.uint8),
        "lists": lists,
        "of vectors": Ragged(lists.values[:, None].repeat(1, 2).half(), lists.offsets),
        "of tensors": Ragged(tensors.float(), lists.offsets),
        "of narrow": Ragged(lists.values.bfloat16(), lists.offsets),
        "array": np.sqrt(block["x"]),
    }


def assert_same_outputs(batches, others):
    """Check that batches hold the same outputs in the same order, `__file__` and such too."""
    for got, expected in itertools.zip_longest(batches, others, fillvalue={}):
        assert list(got) == list(expected), f"Expected {list(expected)}, got {list(got)}"
        assert_same_batches([got], [expected])
