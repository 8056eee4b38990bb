"""Random outputs, of columns that may be nested and hold nulls."""

import pyarrow as pa
import torch
from hypothesis import strategies as st

from fastload import Codes, Column, Hash, Pad, Stack
from fastload.testing.expected_numbers import is_binary, is_text
from support.stored_tables import fill_of, has_nulls

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
    names = draw(st.permutations(list(leaves)))
    names = names[: draw(st.integers(max(1, len(names) - 3), len(names)))]
    columns = {}
    for number, name in enumerate(names):
        output = f"o{number}" if draw(st.booleans()) else name
        columns[output] = draw(spec_of(leaves[name]))
    stacked = [leaf for leaf in leaves.values() if is_number(leaf) and not leaf.levels]
    if stacked and draw(st.booleans()):
        columns["stack"] = draw(stack_of(stacked))
    return columns


@st.composite
def stack_of(draw, leaves):
    """A Stack of some of those leaves, of any order."""
    leaves = draw(st.permutations(leaves))[: draw(st.integers(1, len(leaves)))]
    kinds = {leaf.values.type for leaf in leaves}
    dtypes = list(FLOATS)
    if len(kinds) == 1:
        dtypes.append(None)
    if kinds <= {pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint32()}:
        dtypes.append(torch.int64)
    fill = draw(st.sampled_from([0, 1]))
    return Stack([leaf.name for leaf in leaves], draw(st.sampled_from(dtypes)), fill)


def is_number(leaf):
    """Whether its values are integers, floats or booleans."""
    kind = leaf.values.type
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


@st.composite
def spec_of(draw, leaf):
    """Any spec that the values of a leaf fit and its nulls allow."""
    name, fill = leaf.name, fill_of(leaf)
    specs = [Column(name, fill=fill), Column(name, fill=fill, valid=True), Column(name, valid=True)]
    if not has_nulls(leaf):
        specs.append(Column(name))
    kind = leaf.values.type
    is_bytes = is_text(kind) or is_binary(kind)
    if kind in INTEGERS:
        dtype = draw(st.sampled_from(INTEGERS[kind]))
        specs.append(Column(name, dtype=dtype, fill=fill))
    if is_number(leaf):
        specs.append(Column(name, dtype=draw(st.sampled_from(FLOATS)), fill=fill))
    if is_bytes or pa.types.is_integer(kind):
        buckets, seed = draw(st.integers(1, 2**63 - 1)), draw(st.integers(0, 2**64 - 1))
        words = [word for word in leaf.values[:WORDS].to_pylist() if word is not None]
        vocabulary = sorted(codable({fill, *words}))
        # As often as all the others.
        specs += 2 * [Hash(name, buckets, seed=seed, fill=fill), Codes(name, vocabulary)]
    spec = draw(st.sampled_from(specs))
    is_list = leaf.levels and all(lists.size for lists in leaf.levels[1:])
    if is_list and not (is_bytes and isinstance(spec, Column)) and draw(st.booleans()):
        return Pad(
            spec,
            draw(st.integers(1, 6)),
            value=draw(st.sampled_from([0, 1])),
            side=draw(st.sampled_from(["right", "left"])),
            keep=draw(st.sampled_from(["first", "last"])),
            mask=draw(st.booleans()),
        )
    return spec


def codable(words):
    """The words that a vocabulary may hold: integers only of 64 bits."""
    return {word for word in words if not isinstance(word, int) or word < 2**64}
