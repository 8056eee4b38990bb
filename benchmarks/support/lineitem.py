"""Rows of the lineitem table of TPC-H, made by the rules of its specification.

The rules are in sections 4.2.2 (text) and 4.2.3 (lineitem) of "TPC Benchmark H, revision 3". The
random numbers are numpy's, not dbgen's, so the values differ from dbgen's values and the
distributions do not. Comments name the sections.
"""

from __future__ import annotations

import functools
import random
import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

_MONEY = pa.decimal128(15, 2)
_START = np.datetime64("1992-01-01")  # STARTDATE
_CURRENT = np.datetime64("1995-06-17")  # CURRENTDATE
_END = np.datetime64("1998-12-31")  # ENDDATE
_MODES = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]
_INSTRUCTIONS = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"]
_COMMENT_CHARACTERS = (10, 43)
# Bytes of the text from which comments are cut; dbgen's text has 300 MB. Within a codec's window,
# a text of this size repeats as seldom.
_TEXT_BYTES = 8 << 20

# 4.2.2.14: a name in [] stands for one of its forms, which "|" separates.
_GRAMMAR = {
    "sentence": "[np] [vp][end]|[np] [vp] [pp][end]|[np] [vp] [np][end]|[np] [pp] [vp] [np][end]|"
    "[np] [pp] [vp] [pp][end]",
    "np": "[noun]|[adjective] [noun]|[adjective], [adjective] [noun]|[adverb] [adjective] [noun]",
    "vp": "[verb]|[auxiliary] [verb]|[verb] [adverb]|[auxiliary] [verb] [adverb]",
    "pp": "[preposition] the [np]",
    "noun": "foxes|ideas|theodolites|pinto beans|instructions|dependencies|excuses|platelets|"
    "asymptotes|courts|dolphins|multipliers|sauternes|warthogs|frets|dinos|attainments|somas|"
    "Tiresias'|patterns|forges|braids|hockey players|frays|warhorses|dugouts|notornis|epitaphs|"
    "pearls|tithes|waters|orbits|gifts|sheaves|depths|sentiments|decoys|realms|pains|grouches|"
    "escapades|packages|requests|accounts|deposits",
    "verb": "sleep|wake|are|cajole|haggle|nag|use|boost|affix|detect|integrate|maintain|nod|was|"
    "lose|sublate|solve|thrash|promise|engage|hinder|print|x-ray|breach|eat|grow|impress|mold|"
    "poach|serve|run|dazzle|snooze|doze|unwind|kindle|play|hang|believe|doubt",
    "adjective": "furious|sly|careful|blithe|quick|fluffy|slow|quiet|ruthless|thin|close|dogged|"
    "daring|brave|stealthy|permanent|enticing|idle|busy|regular|final|ironic|even|bold|silent|"
    "special|pending|unusual|express",
    "adverb": "sometimes|always|never|furiously|slyly|carefully|blithely|quickly|fluffily|slowly|"
    "quietly|ruthlessly|thinly|closely|doggedly|daringly|bravely|stealthily|permanently|"
    "enticingly|idly|busily|regularly|finally|ironically|evenly|boldly|silently",
    "preposition": "about|above|according to|across|after|against|along|alongside of|among|around|"
    "at|atop|before|behind|beneath|beside|besides|between|beyond|by|despite|during|except|for|"
    "from|in place of|inside|instead of|into|near|of|on|outside|over|past|since|through|"
    "throughout|to|toward|under|until|up|upon|without|with|within",
    "auxiliary": "do|may|might|shall|will|would|can|could|should|ought to|must|will have to|"
    "shall have to|could have to|should have to|must have to|need to|try to",
    "end": ".|;|:|?|!|--",
}
_FORMS = {name: forms.split("|") for name, forms in _GRAMMAR.items()}
_NAME = re.compile(r"\[(\w+)\]")


def table(orders: int, parts: int, seed: int = 0) -> pa.Table:
    """Make the lines of `orders` orders, 1 to 7 each; at scale factor 1, `parts` is 200,000."""
    rng = np.random.default_rng(seed)
    lines = rng.integers(1, 8, orders)
    rows = int(lines.sum())
    first = np.cumsum(lines) - lines
    order = np.repeat(np.arange(orders), lines)
    part = rng.integers(1, parts + 1, rows)
    quantity = rng.integers(1, 51, rows)
    ordered = _START + rng.integers(0, (_END - _START).astype(int) - 151 + 1, orders)
    shipped = ordered[order] + rng.integers(1, 122, rows)
    committed = ordered[order] + rng.integers(30, 91, rows)
    received = shipped + rng.integers(1, 31, rows)
    returned = np.where(received <= _CURRENT, rng.integers(0, 2, rows), 2)
    columns = {
        # Only the first 8 of every 32 keys are used.
        "l_orderkey": order // 8 * 32 + order % 8 + 1,
        "l_partkey": part,
        "l_suppkey": _supplier(part, rng.integers(0, 4, rows), max(1, parts // 20)),
        "l_linenumber": (np.arange(rows) - first[order] + 1).astype(np.int32),
        "l_quantity": _decimals(quantity * 100),
        "l_extendedprice": _decimals(quantity * _retail_cents(part)),
        "l_discount": _decimals(rng.integers(0, 11, rows)),
        "l_tax": _decimals(rng.integers(0, 9, rows)),
        "l_returnflag": _pick(["R", "A", "N"], returned),
        "l_linestatus": _pick(["F", "O"], (shipped > _CURRENT).astype(int)),
        "l_shipdate": shipped,
        "l_commitdate": committed,
        "l_receiptdate": received,
        "l_shipinstruct": _pick(_INSTRUCTIONS, rng.integers(0, len(_INSTRUCTIONS), rows)),
        "l_shipmode": _pick(_MODES, rng.integers(0, len(_MODES), rows)),
        "l_comment": _comments(rng, rows),
    }
    arrays = [pa.array(column) for column in columns.values()]
    fields = [
        pa.field(name, a.type, nullable=False) for name, a in zip(columns, arrays, strict=True)
    ]
    return pa.table(arrays, schema=pa.schema(fields))


def _supplier(part: Int64s, which: Int64s, suppliers: int) -> Int64s:
    """Return PS_SUPPKEY of one of the four suppliers of each part."""
    return (part + which * (suppliers // 4 + (part - 1) // suppliers)) % suppliers + 1


def _retail_cents(part: Int64s) -> Int64s:
    """Return P_RETAILPRICE of each part, in cents."""
    return 90_000 + part // 10 % 20_001 + 100 * (part % 1_000)


def _decimals(cents: Int64s) -> pa.Array:
    """Convert non-negative cents to decimals with two digits after the point."""
    halves = np.zeros((len(cents), 2), np.int64)
    halves[:, 0] = cents
    return pa.Array.from_buffers(_MONEY, len(cents), [None, pa.py_buffer(halves)])


def _pick(words: list[str], indices: npt.NDArray[np.integer]) -> pa.Array:
    return pa.array(words).take(pa.array(indices))


def _comments(rng: np.random.Generator, rows: int) -> pa.Array:
    """Return comments of random lengths, cut from the text at random positions."""
    low, high = _COMMENT_CHARACTERS
    lengths = rng.integers(low, high + 1, rows)
    starts = rng.integers(0, _TEXT_BYTES - high, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    data = _text()[places]
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), rows, buffers)


@functools.cache
def _text() -> npt.NDArray[np.uint8]:
    """Return random sentences as one text."""
    draw = random.Random(14)
    sentences: list[str] = []
    size = 0
    while size < _TEXT_BYTES:
        sentences.append(_expand("sentence", draw))
        size += len(sentences[-1]) + 1
    return np.frombuffer(" ".join(sentences).encode()[:_TEXT_BYTES], np.uint8)


def _expand(name: str, draw: random.Random) -> str:
    form = draw.choice(_FORMS[name])
    return _NAME.sub(lambda match: _expand(match[1], draw), form)
