"""Programs that are drawn from a seed: files, columns, options, steps, damage and resumes."""

import decimal
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import fastload

NAMES = ["a b", "größe", "日本", "tab\t", "q'\"", "x/y", "%s", "a__b", "A", "dot.ted", "名 前"]


def double(block):
    return {"double": block["id"] * 2}


def halve(block):
    return {"half": block["id"] / 2}


def describe(number):
    return f"row {number}", [number] * (number % 3)


@fastload.kernel(inputs=["id"], outputs={"third": np.int64})
def third(ids, out):
    for i in range(len(ids)):
        out[i] = ids[i] // 3


def drawn_seeds(batch, seeds):
    return {"seeds": np.asarray(seeds).astype(np.int64)}


PER_ROW = fastload.per_row(describe, ["id"], {"text of": None, "list of": "ragged"}, threads=2)
STEPS = {
    "numpy": double,
    "per_block": fastload.per_block(halve, threads=2),
    "per_row": PER_ROW,
    "kernel": third,
}
ADDED = {"double", "half", "third", "text of", "list of", "seeds"}

ODD_FLOATS = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, 1e300]
# For each kind of column: its type, and the value that an integer gives.
KINDS = {
    "float": (pa.float64(), lambda n: ODD_FLOATS[n % len(ODD_FLOATS)]),
    "few": (pa.int16(), lambda n: n % 3),
    "nulls": (pa.int64(), lambda n: n if n % 4 else None),
    "bool": (pa.bool_(), lambda n: n > 0),
    "string": (pa.string(), lambda n: chr(97 + n % 26) * (n % 9) + "é" * (n % 2)),
    "decimal": (pa.decimal128(12, 3), lambda n: decimal.Decimal(n) / 8),
    "timestamp": (pa.timestamp("us", "UTC"), lambda n: n * 10**6),
    "date": (pa.date32(), lambda n: n),
    "list": (pa.list_(pa.int32()), lambda n: [n] * (n % 5)),
    "nested": (pa.list_(pa.list_(pa.float32())), lambda n: [[float(n)] * k for k in range(n % 4)]),
    "fixed": (pa.list_(pa.int16(), 3), lambda n: [n, 1, 2]),
    "nested fixed": (pa.list_(pa.list_(pa.int64(), 2)), lambda n: [[n, k] for k in range(n % 3)]),
    "strings": (pa.list_(pa.string()), lambda n: ["x" * k for k in range(n % 4)]),
}


def values_of(kind, rows, rng):
    """A column of a kind."""
    arrow, value = KINDS[kind]
    return pa.array([value(n) for n in rng.integers(-100, 100, rows).tolist()], arrow)


FILTERS = {
    "id over 9": lambda: pc.field("id") > 9,
    "id odd": lambda: pc.bit_wise_and(pc.field("id"), 1) == 1,
    "NaN or key": lambda: pc.is_nan(pc.field("f")) | (pc.field("key") == 1),
    "not one": lambda: pc.field("f") != 1.5,
    "in zero": lambda: pc.field("f").isin([0.0, 1.5]),
    "not in": lambda: ~pc.field("f").isin([0.0, np.inf]) & (pc.field("key") < 2),
    "none": lambda: pc.field("key") > 99,
}


def drawn(seed):
    """Draw a program: a dict of plain values."""
    r = random.Random(seed)
    some = r.choice([1, 2, 3, 5, 12, 40, 200])
    files = [[r.randint(0, some) for _ in range(r.randint(0, 5))] for _ in range(r.randint(1, 4))]
    groups = sum(map(len, files))
    names = r.sample(NAMES, r.randint(0, 4))
    workers = lambda: r.choice([0, 0, 0, 0, 0, 0, 1, 2])  # noqa: E731
    legs = [
        (r.choice([1, 1, 2, 3, 7]), workers(), r.choice([0, 1, 2, 5, 20]))
        for _ in range(r.randint(0, 3))
    ]
    if r.random() < 0.4:
        legs = [(*legs[0][:2], steps) for *_, steps in legs]
    damage = r.random() < 0.25
    rows = r.random() < 0.1
    return {
        "seed": seed,
        "files": files,
        "columns": {name: r.choice(sorted(KINDS)) for name in names},
        "filters": r.choice([None, None, *FILTERS]),
        "split": r.choice([None, None, None, ("id", 0.2, 0.8), ("id", 0, 0.1)]),
        "limit": r.choice([None, None, None, r.randint(0, 60), 1000]),
        "shuffle": r.random() < 0.6,
        "window": r.choice([1, 2, 7, 30, 100, 10**6]),
        "uneven": r.choice(["wrap", "drop", "pad", "keep"]),
        "drop_last": r.random() < 0.25,
        "batch_size": 1 if rows else r.choice([1, 2, 3, 8, 20, 200]),
        "rows": rows,
        "provenance": r.random() < 0.3,
        "preprocess": () if rows else tuple(r.sample(sorted(STEPS), r.choice([0, 0, 0, 1, 2, 3]))),
        "augment": not rows and r.random() < 0.2,
        "cache": r.random() < 0.2,
        "damage": tuple(n for n in range(groups) if r.random() < 0.3) if damage else (),
        "legs": [*legs, (r.choice([1, 1, 2, 3, 7]), workers(), None)],
        "persistent": r.random() < 0.5,
        "start": r.choice(["fork"] * 30 + ["forkserver"]),
        "stateful": r.choice([None] * 9 + [0, 1, 2]),
        "mixed": r.random() < 0.1,
        "threads": r.choice([0, 0, 1, 2]),
        "epoch": r.randint(0, 3),
        "order": r.choice([0, 1, 2**64 - 1, r.getrandbits(64)]),
        "write": {
            "compression": r.choice(["none", "snappy", "zstd"]),
            "use_dictionary": r.random() < 0.5,
            "data_page_version": r.choice(["1.0", "2.0"]),
            "data_page_size": r.choice([64, 1 << 20]),
            "write_statistics": r.random() < 0.8,
            "write_page_index": r.random() < 0.3,
        },
    }  # fmt: skip
