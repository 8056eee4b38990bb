"""Random outputs, of columns that may be nested and hold nulls."""

import pyarrow as pa
import torch
from hypothesis import strategies as st

from fastload import Codes, Column, Fixed, Hash, Pad, Stack
from support.expected_numbers import is_binary, is_text
from support.stored_tables import becomes_float, fill_of, has_nulls

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
# By the bits and sign of integers, dtypes that all of them fit.
INTEGERS = {
    pa.int8(): [torch.int8, torch.int16, torch.int32, torch.int64],
    pa.int16(): [torch.int16, torch.int32, torch.int64],
    pa.int32(): [torch.int32, torch.int64],
    pa.int64(): [torch.int64],
    pa.uint8(): [torch.uint8, torch.int16, torch.int64],
    pa.uint16(): [torch.uint16, torch.int32, torch.uint64],
    pa.uint32(): [torch.uint32, torch.int64],
    pa.uint64(): [torch.uint64],
}
# Values of a column that a vocabulary is made of.
WORDS = 20


@st.composite
def outputs_of(draw, leaves):
    """A `columns` argument: outputs of some of the leaves, most of all, some renamed.

    leaves: by the name that is asked for.
    """
    r = draw(st.randoms(use_true_random=False))
    columns = {}
    for number, name in enumerate(
        r.sample(list(leaves), r.randint(max(1, len(leaves) - 3), len(leaves)))
    ):
        output = r.choice([name, f"o{number}"])
        columns[output] = spec_of(r, leaves[name])
    stacked = [leaf for leaf in leaves.values() if is_number(leaf) and not leaf.levels]
    if stacked and r.choice([False, True]):
        columns["stack"] = stack_of(r, r.sample(stacked, r.randint(1, len(stacked))))
    return columns


def stack_of(r, leaves):
    """A Stack of those leaves; `r` is a random.Random."""
    kinds = {leaf.values.type for leaf in leaves}
    dtypes = list(FLOATS)
    if kinds <= {pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint32()}:
        dtypes.append(torch.int64)
    names = [leaf.name for leaf in leaves]
    fill = r.choice([0, 1, dict.fromkeys(names, 1) | {names[0]: 0}])
    return Stack(names, r.choice(dtypes), fill)


def is_number(leaf):
    """Whether its values are integers, floats or booleans."""
    kind = leaf.values.type
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def spec_of(r, leaf):
    """Any spec that the values of a leaf fit and its nulls allow; `r` is a random.Random."""
    name, fill = leaf.name, fill_of(leaf)
    specs = [Column(name, fill=fill), Column(name, fill=fill, valid=True), Column(name, valid=True)]
    if not has_nulls(leaf):
        specs.append(Column(name))
    if becomes_float(leaf):
        specs.append(Column(name, fill=float("nan")))
    kind = leaf.values.type
    is_bytes = is_text(kind) or is_binary(kind)
    if kind in INTEGERS:
        specs.append(Column(name, dtype=r.choice(INTEGERS[kind]), fill=fill))
    if is_number(leaf):
        specs.append(Column(name, dtype=r.choice(FLOATS), fill=fill))
    if is_bytes or pa.types.is_integer(kind):
        buckets, seed = r.randint(1, 2**63 - 1), r.randint(0, 2**64 - 1)
        words = [word for word in leaf.values[:WORDS].to_pylist() if word is not None]
        vocabulary = sorted(codable({fill, *words}))
        # As often as all the others.
        specs += 2 * [Hash(name, buckets, seed=seed, fill=fill), Codes(name, vocabulary)]
    spec = r.choice(specs)
    is_list = leaf.levels and all(lists.size for lists in leaf.levels[1:])
    if not is_list or (is_bytes and isinstance(spec, Column)) or r.choice([False, True]):
        return spec
    lengths = set(leaf.levels[0].lengths[leaf.valid].tolist())
    if len(lengths) == 1 and lengths != {0} and not leaf.levels[0].size:
        return Fixed(spec, *lengths)
    return Pad(
        spec,
        r.randint(1, 6),
        value=r.choice([0, 1]),
        side=r.choice(["right", "left"]),
        keep=r.choice(["first", "last"]),
        mask=r.choice([False, True]),
    )


def needs_no_fill(leaf, nulls):
    """Whether a Column without `fill` reads the leaf, by the `nulls` argument of a dataset."""
    if not has_nulls(leaf) or nulls in ("zero", "mask"):
        return True
    return nulls == "nan" and becomes_float(leaf) and not any(level.nulls for level in leaf.levels)


def codable(words):
    """The words that a vocabulary may hold: integers only of 64 bits."""
    return {word for word in words if not isinstance(word, int) or word < 2**64}
