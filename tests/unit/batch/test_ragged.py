import collections.abc
import copy
import inspect
import io
import operator
import pickle
import re

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils.data import default_collate, default_convert
from torch.utils.data._utils.pin_memory import pin_memory

from fastload.batch.ragged import Ragged


def lists(rows, dtype=torch.int64):
    lengths = torch.tensor([0] + [len(row) for row in rows])
    flat = torch.tensor([item for row in rows for item in row], dtype=dtype)
    return Ragged(flat, lengths.cumsum(0))


def strings(rows, kind="str"):
    encoded = [row.encode() if isinstance(row, str) else row for row in rows]
    lengths = torch.tensor([0] + [len(row) for row in encoded])
    return Ragged(torch.tensor(list(b"".join(encoded)), dtype=torch.uint8), lengths.cumsum(0), kind)


def nested(rows):
    inner = lists([row for outer in rows for row in outer])
    return Ragged(inner, torch.tensor([0] + [len(outer) for outer in rows]).cumsum(0))


def word_lists(rows):
    inner = strings([word for row in rows for word in row])
    return Ragged(inner, torch.tensor([0] + [len(row) for row in rows]).cumsum(0))


def deep(rows):
    inner = word_lists([words for row in rows for words in row])
    return Ragged(inner, torch.tensor([0] + [len(row) for row in rows]).cumsum(0))


NUMBERS = [[1, 2], [], [3], [4, 5, 6], [7]]
WORDS = ["gold", "", "grün", "日本", "x"]
NESTED = [[[1], [2, 3]], [], [[]], [[4, 5, 6]]]
WORD_LISTS = [["gold", ""], [], ["grün", "日本", "x"], [""], ["y"]]
DEEP = [[["a", "bc"], []], [], [[]], [["grün"], ["", "x"]]]
MAKERS = [
    (lists, NUMBERS),
    (strings, WORDS),
    (nested, NESTED),
    (word_lists, WORD_LISTS),
    (deep, DEEP),
]


@pytest.mark.parametrize(("make", "rows"), MAKERS)
def test_reads_as_the_list_of_its_rows(make, rows):
    ragged = make(rows)

    def plain(item):
        return item.tolist() if hasattr(item, "tolist") else item

    assert len(ragged) == len(rows)
    assert ragged.tolist() == rows
    assert [plain(item) for item in ragged] == rows
    for i in range(-len(rows), len(rows)):
        assert plain(ragged[i]) == rows[i]
    for i in (len(rows), -len(rows) - 1):
        with pytest.raises(IndexError, match="Expected a row"):
            ragged[i]


@pytest.mark.parametrize(("make", "rows"), MAKERS)
def test_slices_and_index_tensors_select_rows(make, rows):
    ragged = make(rows)
    ends = [None, *range(-len(rows) - 1, len(rows) + 2)]
    for start in ends:
        for stop in ends:
            for step in (None, 2, -1, -2):
                part = slice(start, stop, step)
                assert ragged[part].tolist() == rows[part], part
    tail = ragged[1:]
    assert tail[[2, 0, -1, 2]].tolist() == [rows[1:][i] for i in (2, 0, -1, 2)]
    mask = torch.arange(len(rows)) % 2 == 0
    assert ragged[mask].tolist() == rows[::2]
    assert ragged[mask.numpy()].tolist() == rows[::2]
    assert ragged[[]].tolist() == []
    assert ragged[torch.tensor(3)].__class__ is ragged[3].__class__
    with pytest.raises(IndexError, match="float32"):
        ragged[torch.tensor([0.5])]
    with pytest.raises(TypeError):
        ragged["name"]


def test_a_slice_and_a_row_share_memory():
    ragged = lists(NUMBERS)
    part = ragged[2:4]
    assert part.values.data_ptr() == ragged.values.data_ptr()
    assert part.nbytes == (4 + 3) * 8
    ragged[3].add_(10)
    assert part.tolist() == [[3], [14, 15, 16]]
    assert part.clone().values.data_ptr() != part.values.data_ptr()


def test_equality_is_like_for_like():
    assert lists(NUMBERS) == lists(NUMBERS)
    assert lists(NUMBERS)[1:3] == lists([[], [3]])
    assert lists(NUMBERS) != lists([*NUMBERS[:-1], [8]])
    assert lists([[1], [2, 3]]) != lists([[1, 2], [3]])
    assert lists(NUMBERS) != lists(NUMBERS, torch.int32)
    assert strings(["a"]) != strings([b"a"], "bytes")
    assert nested(NESTED) == nested(NESTED)
    assert nested(NESTED)[1:] != nested(NESTED)
    assert word_lists(WORD_LISTS)[1:3] == word_lists(WORD_LISTS[1:3])
    assert word_lists([["a", "b"]]) != word_lists([["a"], ["b"]])
    assert word_lists([["ab"]]) != word_lists([["a", "b"]])
    assert word_lists([["a"]]) != strings(["a"])
    assert nested([[[1]]]) != lists([[1]])
    nan = lists([[float("nan")]], torch.float64)
    assert nan != nan.clone()
    assert lists(NUMBERS) != NUMBERS
    with pytest.raises(TypeError):
        hash(nan)


@pytest.mark.parametrize("other", ["gold", b"gold", 0, True, 0.5, torch.zeros(5)])
def test_a_comparison_with_one_value_is_no_mask(other):
    ragged = strings(WORDS)
    what = "a Tensor" if isinstance(other, torch.Tensor) else re.escape(repr(other))
    for compare in (operator.eq, operator.ne):
        for operands in ((ragged, other), (other, ragged)):
            with pytest.raises(TypeError, match=rf"got {what}: .* A bool for each row is torch"):
                compare(*operands)
    assert ragged != ["gold"]
    assert ragged != None  # noqa: E711
    assert torch.tensor([row == "gold" for row in ragged]).tolist() == [w == "gold" for w in WORDS]


@pytest.mark.parametrize("index", [True, False, torch.tensor(True), np.True_])
def test_a_bool_is_no_row_number(index):
    with pytest.raises(TypeError, match=r"Expected .* got .*(True|False)"):
        lists(NUMBERS)[index]


def test_to_padded():
    assert lists(NUMBERS).to_padded(-1).tolist() == [
        [1, 2, -1],
        [-1, -1, -1],
        [3, -1, -1],
        [4, 5, 6],
        [7, -1, -1],
    ]
    assert lists(NUMBERS)[2:4].to_padded(0, length=2).tolist() == [[3, 0], [4, 5]]
    assert nested(NESTED).to_padded(9).tolist() == [
        [[1, 9, 9], [2, 3, 9]],
        [[9, 9, 9], [9, 9, 9]],
        [[9, 9, 9], [9, 9, 9]],
        [[4, 5, 6], [9, 9, 9]],
    ]
    # A slice is as wide as its own longest list, at every level.
    assert nested(NESTED)[:3].to_padded(9).shape == (3, 2, 2)
    for ragged, lengths in ((lists(NUMBERS), (2, 3)), (nested(NESTED), (2, 3, 4))):
        with pytest.raises(ValueError, match="one length for each level of lists, got 1 more"):
            ragged.to_padded(0, lengths)
    for ragged, length in ((lists(NUMBERS), -1), (nested(NESTED), (None, -2))):
        with pytest.raises(ValueError, match="lengths of at least 0, got -"):
            ragged.to_padded(0, length)
    assert nested(NESTED).to_padded(9, [1, 2]).tolist() == [[[1, 9]], [[9, 9]], [[9, 9]], [[4, 5]]]
    assert nested(NESTED).to_padded(9, [None, 1]).shape == (4, 2, 1)
    assert nested(NESTED).to_padded(9, 3).shape == (4, 3, 3)
    assert word_lists([["ab", "c"], ["d"]]).to_padded(0).tolist() == [
        [[97, 98], [99, 0]],
        [[100, 0], [0, 0]],
    ]
    assert deep(DEEP).to_padded().shape == (4, 2, 2, 5)
    assert lists([]).to_padded().shape == (0, 0)
    assert nested([]).to_padded().shape == (0, 0, 0)
    points = Ragged(torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 3]))
    assert points.to_padded(length=1).tolist() == [[[0.0, 1.0]], [[2.0, 3.0]]]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (torch.uint8, -1),
        (torch.uint16, -100),
        (torch.uint32, 2**32),
        (torch.uint64, -1),
        (torch.int16, 0.5),
        (torch.int64, 2**63),
        (torch.int64, float("nan")),
        (torch.int64, float("inf")),
        (torch.bool, 2),
        (torch.float16, 1e6),
        (torch.int32, 10**400),
        (torch.float64, 10**400),
    ],
    ids=lambda case: str(case)[:20],
)
def test_to_padded_refuses_a_value_that_does_not_fit(dtype, value):
    ragged = Ragged(torch.tensor([1, 0, 1]).to(dtype), torch.tensor([0, 1, 3]))
    message = rf"fits {str(dtype)[6:]}, got .*: cast the elements, .*values\.long"
    with pytest.raises(ValueError, match=message):
        ragged.to_padded(value)
    with pytest.raises(ValueError, match=message):
        Ragged(ragged, torch.tensor([0, 2])).to_padded(value)


def test_to_padded_takes_every_value_that_fits():
    fitting = {
        torch.uint8: (0, 255, 3.0, True),
        torch.uint64: (2**64 - 1,),
        torch.int16: (-(2**15),),
        torch.bool: (True, 0, 1.0),
        torch.float16: (float("inf"), 65504, -0.5),
        torch.bfloat16: (1e38,),
    }
    for dtype, values in fitting.items():
        for value in values:
            padded = Ragged(torch.tensor([1]).to(dtype), torch.tensor([0, 1, 1])).to_padded(value)
            assert padded.dtype == dtype
            assert padded[1, 0].item() == torch.tensor([value], dtype=dtype).item()
    assert strings(["a", ""]).to_padded(255).tolist() == [[97], [255]]


def test_to_nested_is_jagged_and_shares_memory():
    ragged = lists(NUMBERS)[2:]
    jagged = ragged.to_nested()
    assert jagged.layout == torch.jagged
    assert [row.tolist() for row in jagged.unbind()] == NUMBERS[2:]
    assert jagged.values().data_ptr() == ragged.values[2:].data_ptr()
    with pytest.raises(ValueError, match=r"one level of lists .* got lists of int64: write"):
        nested(NESTED).to_nested()
    assert len(nested(NESTED).values.to_nested().unbind()) == 4
    assert lists([]).to_nested().values().shape == (0,)


def test_nested_tensors_pad_to_the_longest_row():
    signature = inspect.signature(torch.nested.nested_tensor_from_jagged)
    if "max_seqlen" not in signature.parameters:
        pytest.skip("torch before 2.5 pads to the number of all values")
    for ragged, longest in ((lists(NUMBERS), 3), (lists(NUMBERS)[1:3], 1)):
        jagged = ragged.to_nested()
        assert torch.nested.to_padded_tensor(jagged, 0).shape == (len(ragged), longest)
        assert torch.nested.to_padded_tensor(jagged, 0).equal(ragged.to_padded(0))
        embedded = torch.nn.Embedding(9, 2)(jagged)
        assert torch.nested.to_padded_tensor(embedded, 0).shape == (len(ragged), longest, 2)


@pytest.mark.parametrize(("make", "rows"), MAKERS)
@pytest.mark.parametrize("how", ["pickle", "torch", "copy", "deepcopy", "clone", "to"])
def test_copies_are_equal(make, rows, how):
    ragged = make(rows)[1:]
    if how == "pickle":
        other = pickle.loads(pickle.dumps(ragged))
    elif how == "torch":
        buffer = io.BytesIO()
        torch.save(ragged, buffer)
        buffer.seek(0)
        other = torch.load(buffer, weights_only=True)
    elif how == "to":
        other = ragged.to("cpu", non_blocking=True)
    else:
        other = {"copy": copy.copy, "deepcopy": copy.deepcopy, "clone": Ragged.clone}[how](ragged)
    assert type(other) is Ragged
    assert other == ragged
    assert other.kind == ragged.kind
    shares = other.offsets.data_ptr() == ragged.offsets.data_ptr()
    assert shares == (how in ("copy", "to"))


def test_a_slice_pickles_its_own_values_only():
    ragged = lists([[i] * 100 for i in range(1000)])
    assert len(pickle.dumps(ragged[10:12])) < 4000
    leaf = Ragged(torch.ones(4, requires_grad=True), torch.tensor([0, 4]))
    assert copy.deepcopy(leaf).values.requires_grad
    assert copy.deepcopy(ragged[10:12]).values.untyped_storage().nbytes() == 1600


@pytest.mark.parametrize(("make", "rows"), MAKERS)
def test_nothing_takes_it_apart_by_accident(make, rows):
    ragged = make(rows)
    assert not isinstance(ragged, collections.abc.Sequence)
    assert default_convert(ragged) is ragged
    with pytest.raises(TypeError, match="Ragged"):
        default_collate([ragged, ragged])
    with pytest.raises(TypeError, match=r"got a Ragged: write ragged\.to_padded.*batch\.to_pandas"):
        np.asarray(ragged)
    with pytest.raises((TypeError, ValueError)):
        torch.as_tensor(ragged)


class Pinnable(torch.Tensor):
    """Says what is asked of it: pinning needs an accelerator."""

    def pin_memory(self):
        return self.clone()


def test_pin_memory_reaches_every_level():
    def watched(tensor):
        return tensor.as_subclass(Pinnable)

    words = word_lists(WORD_LISTS)
    inner = Ragged(watched(words.values.values), watched(words.values.offsets), "str")
    ragged = Ragged(inner, watched(words.offsets))
    pinned = pin_memory(ragged)
    assert type(pinned) is Ragged
    for part, other in zip(pytree.tree_leaves(pinned), pytree.tree_leaves(ragged), strict=True):
        assert part.data_ptr() != other.data_ptr()
    assert pinned.values.kind == "str"
    assert pinned.tolist() == WORD_LISTS


def test_rows_of_lists_of_str_are_of_str():
    ragged = word_lists(WORD_LISTS)[2:]
    row = ragged[0]
    assert (type(row), row.kind, len(row)) == (Ragged, "str", 3)
    assert row[1] == "日本"
    assert [list(words) for words in ragged] == WORD_LISTS[2:]
    assert ragged.values.values.data_ptr() == row.values.data_ptr()
    assert [r.depth for r in (lists([]), strings([]), nested([]), ragged, deep(DEEP))] == [
        1,
        0,
        2,
        1,
        2,
    ]


def test_is_a_pytree_node():
    ragged = nested(NESTED)
    doubled = pytree.tree_map(lambda t: t.clone(), ragged)
    assert doubled == ragged
    assert len(pytree.tree_leaves(ragged)) == 3
    anything = pytree.tree_map(lambda t: None, strings(WORDS))
    assert (anything.values, anything.offsets, anything.kind) == (None, None, "str")


def test_repr_is_short():
    assert repr(strings(WORDS)) == "Ragged(5 rows of str: 'gold', '', 'grün', ...)"
    assert len(repr(lists([list(range(1000))] * 1000))) < 120
    assert repr(lists([])) == "Ragged(0 rows of int64)"
    assert repr(word_lists([["a", "b"], []])) == "Ragged(2 rows of lists of str: ['a', 'b'], [])"
    assert repr(deep([])) == "Ragged(0 rows of lists of lists of str)"
    boxes = Ragged(torch.arange(4).reshape(2, 2), torch.tensor([0, 1, 2]))
    assert repr(boxes) == "Ragged(2 rows of int64 (2,): [[0, 1]], [[2, 3]])"
    assert len(repr(strings(["x" * 10**6] * 5))) < 150
    assert repr(strings([b"\xff"])) == "Ragged(1 rows of str: '\N{REPLACEMENT CHARACTER}')"
    assert repr(strings([b"\xff"], "bytes")) == "Ragged(1 rows of bytes: b'\\xff')"


@pytest.mark.parametrize(
    ("values", "offsets", "kind", "error", "sentence"),
    [
        ([1], torch.tensor([0, 1]), None, TypeError, "values as a Tensor or Ragged, got list"),
        (torch.ones(1), [0, 1], None, TypeError, "offsets as a Tensor, got list"),
        (torch.ones(1), torch.tensor([0, 1]).int(), None, ValueError, "got int32"),
        (torch.ones(1), torch.tensor([]).long(), None, ValueError, "got int64 (0,)"),
        (torch.tensor(1), torch.tensor([0, 1]), None, ValueError, "got a scalar"),
        (torch.ones(2), torch.tensor([0, 3]), None, ValueError, "within [0, 2], got 0 to 3"),
        (torch.ones(2), torch.tensor([0, 2, 1]), None, ValueError, "not decrease"),
        (torch.ones(2), torch.tensor([-1, 2]), None, ValueError, "got -1 to 2"),
        (torch.ones(1), torch.tensor([0, 1]), "str", ValueError, "uint8"),
        (torch.ones(1), torch.tensor([0, 1]), "text", ValueError, "'text'"),
    ],
)
def test_parts_that_do_not_fit_are_refused(values, offsets, kind, error, sentence):
    with pytest.raises(error) as caught:
        Ragged(values, offsets, kind)
    assert sentence in str(caught.value)
