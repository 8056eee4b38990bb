"""Random specs of columns that may be nested and hold nulls."""

import pyarrow as pa
import torch
from hypothesis import strategies as st

from fastload import Codes, Column, Hash, Pad
from fastload.arrow_numbers import is_binary, is_text
from stored_tables import fill_of, has_nulls

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
# Values of a column that a vocabulary is made of.
WORDS = 20


@st.composite
def spec_of(draw, leaf):
    """Any spec that the values of a leaf fit and its nulls allow."""
    name, fill = leaf.name, fill_of(leaf)
    specs = [Column(name, fill=fill), Column(name, fill=fill, valid=True), Column(name, valid=True)]
    if not has_nulls(leaf):
        specs.append(Column(name))
    kind = leaf.values.type
    is_bytes = is_text(kind) or is_binary(kind)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        specs.append(Column(name, dtype=draw(st.sampled_from(FLOATS)), fill=fill))
    if is_bytes or pa.types.is_integer(kind):
        buckets, seed = draw(st.integers(1, 2**63 - 1)), draw(st.integers(0, 2**64 - 1))
        specs.append(Hash(name, buckets, seed=seed, fill=fill))
        words = [word for word in leaf.values[:WORDS].to_pylist() if word is not None]
        specs.append(Codes(name, sorted(codable({fill, *words}))))
    spec = draw(st.sampled_from(specs))
    is_list = leaf.levels and all(lists.size for lists in leaf.levels[1:])
    if is_list and not (is_bytes and isinstance(spec, Column)) and draw(st.booleans()):
        return Pad(spec, draw(st.integers(1, 6)), value=draw(st.sampled_from([0, 1])))
    return spec


def codable(words):
    """The words that a vocabulary may hold: integers only of 64 bits with a sign."""
    return {word for word in words if not isinstance(word, int) or word < 2**63}
