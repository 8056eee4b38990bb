"""Programs that are drawn from a seed: files, columns, options, steps, damage and resumes."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from nested_cases import Shape
from parquet_cases import MAKERS, NESTED_LEAVES

import fastload
from fastload import Pack, TokenBudget

NAMES = ["a b", "größe", "日本", "tab\t", "q'\"", "x/y", "%s", "a__b", "A", "dot.ted", "名 前"]
# No list of tokens is as long: token k of row n is n * TOKENS + k.
TOKENS = 64
# More column chunks take long to write.
_CHUNKS = 20_000
# Of more columns, most are not read.
WIDE = 16


def double(block):
    return {"double": block["id"] * 2}


def pair(block):
    ids = block["id"]
    return {"pair": np.stack([ids, -ids], 1), "cube": np.stack([ids] * 6, 1).reshape(-1, 2, 3)}


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


STEPS = {
    "numpy": double,
    "dimensions": pair,
    "per_block": fastload.per_block(halve, threads=2),
    "per_row": fastload.per_row(
        describe, ["id"], {"text of": None, "list of": "ragged"}, threads=2
    ),
    "kernel": third,
}
# By the output of a step, its value in the row with an id.
ADDED = {
    "double": lambda n: 2 * n,
    "pair": lambda n: [n, -n],
    "cube": lambda n: [[n] * 3] * 2,
    "half": lambda n: n / 2,
    "third": lambda n: n // 3,
    "text of": lambda n: describe(n)[0],
    "list of": lambda n: describe(n)[1],
}

FIELDS = pa.struct([("x", pa.int32()), ("y", pa.float32()), ("z", pa.string())])
# Columns of lists that `MAKERS` and a `Shape` rarely give: the type, and the value of an integer.
LISTS = {
    "list": (pa.list_(pa.int32()), lambda n: [n] * (n % 5)),
    "lists": (pa.list_(pa.list_(pa.float32())), lambda n: [[float(n)] * k for k in range(n % 4)]),
    "vector": (pa.list_(pa.float32()), lambda n: [n, n + 0.5, -n]),
    "fixed": (pa.list_(pa.int16(), 3), lambda n: [n, 1, 2]),
    "fixed fixed": (pa.list_(pa.list_(pa.int8(), 2), 2), lambda n: [[n % 99, 1], [2, 3]]),
    "list of fixed": (pa.list_(pa.list_(pa.int64(), 2)), lambda n: [[n, k] for k in range(n % 3)]),
    "vector of fixed": (pa.list_(pa.list_(pa.float64(), 2)), lambda n: [[n, 0.5], [n, 1.5]]),
    "strings": (pa.list_(pa.string()), lambda n: ["x" * k for k in range(n % 4)]),
    "structs": (pa.list_(FIELDS), lambda n: [{"x": n, "y": k, "z": str(k)} for k in range(n % 3)]),
    "struct": (FIELDS, lambda n: {"x": n, "y": n / 2, "z": str(n)}),
    "map": (pa.map_(pa.string(), pa.int16()), lambda n: [(str(k), n) for k in range(n % 3)]),
}


def values_of(kind, share, rows, rng):
    """A column of a kind, a share of whose rows is null."""
    name, number = kind
    if name == "flat":
        made = MAKERS[number](rng, rows)
    elif name == "nested":
        made = Shape(number, NESTED_LEAVES).array(rng, rows)
    else:
        arrow, value = LISTS[name]
        made = [value(n) for n in rng.integers(-10_000, 10_000, rows).tolist()]
        nulls = rng.random(rows) < share
        return pa.array([None if null else v for v, null in zip(made, nulls, strict=True)], arrow)
    if not share or name == "nested":  # which has its own nulls
        return made
    nulls = pa.array(np.arange(rows), mask=rng.random(rows) < share)
    return made.cast(pa.string()).take(nulls) if made.type == pa.string_view() else made.take(nulls)


FILTERS = {
    "id over 9": lambda: pc.field("id") > 9,
    "id odd": lambda: pc.bit_wise_and(pc.field("id"), 1) == 1,
    "NaN or key": lambda: pc.is_nan(pc.field("f")) | (pc.field("key") == 1),
    "not one": lambda: pc.field("f") != 1.5,
    "in zero": lambda: pc.field("f").isin([0.0, 1.5]),
    "not in": lambda: ~pc.field("f").isin([0.0, np.inf]) & (pc.field("key") < 2),
    "tokens": lambda: pc.is_valid(pc.field("weight")) & (pc.field("weight") > 0.5),
    "none": lambda: pc.field("key") > 99,
}


def _forms(r):
    """How rows form batches: the arguments that say so, and the number of canonical slices."""
    slices = r.choice([None, None, 1, 2, 3, 4, 6])
    size = r.choice([1, 2, 3, 8, 20, 200])
    form = r.choice(["rows"] * 9 + ["budget"] * 7 + ["pack"] * 4)
    if form == "budget":
        budget = TokenBudget(
            "t",
            r.choice([1, 5, 12, 40, 100, 200]),
            padded=r.random() < 0.4,
            max_rows=r.choice([None, None, None, None, 1, 4]),
            long="alone",
        )
        return {"batch_size": budget, **({"canonical_ranks": slices} if slices else {})}
    how = {"batch_size": size}
    if slices:
        how = {"global_batch_size": slices * min(size, 20), "canonical_ranks": slices}
    if form == "pack":
        along = tuple(r.sample(["l", "p"], r.randint(0, 2)))
        pads = {"t": -9, "l": 0.5, "p": 3}
        how["pack"] = Pack(
            "t",
            r.choice([1, 2, 3, 8, 16, 50, 500]),
            along=along,
            fit=r.choice(["best", "split"]),
            long=r.choice(["split", "truncate", "drop"]),
            pad={name: pads[name] for name in ("t", *along)} if r.random() < 0.5 else 0,
        )
    return how


def _shaped(r, files):
    """Give some files many small row groups; return a number of columns of which few are read."""
    if r.random() < 0.12:
        files[:] = files[:2]
        files[-1] = [r.choice([0, 1, 1, 2, 3]) for _ in range(r.randint(100, 300))]
    most = min(400, _CHUNKS // max(1, sum(map(len, files))))
    return r.randint(100, max(100, most)) if r.random() < 0.12 else 0


def _nulls(seed, drawn):
    """The rule of nulls: "nan" in half of the programs for which "raise" was drawn."""
    return "nan" if drawn == "raise" and random.Random(f"{seed} nulls").random() < 0.5 else drawn


def drawn(seed):
    """Draw a program: a dict of plain values."""
    r = random.Random(seed)
    some = r.choice([1, 3, 12, 40, 100])
    files = [
        [r.randint(0, some) for _ in range(r.choice([0, 1, 2, 3, 4]))]
        for _ in range(r.randint(1, 3))
    ]
    wide = _shaped(random.Random(f"{seed} shape"), files)
    groups = sum(map(len, files))
    form = _forms(r)
    slices = form.get("canonical_ranks")
    by_tokens = "pack" in form or isinstance(form.get("batch_size", 0), TokenBudget)
    plain = not by_tokens and not slices
    numbered = lambda: (r.choice(["flat", "flat", "nested"]), r.randrange(2**16))  # noqa: E731
    kinds = [
        numbered() if r.random() < 0.5 else (r.choice(list(LISTS)), 0)
        for _ in range(r.choice([0, 1, 2, 3, 4]))
    ]
    kinds = [
        ("flat", number % len(MAKERS)) if name == "flat" else (name, number)
        for name, number in kinds
    ]
    names = r.sample(NAMES, len(kinds))
    columns = {
        name: (kind, r.choice([0, 0, 0.1, 0.6])) for name, kind in zip(names, kinds, strict=True)
    }
    worlds = [n for n in (1, 2, 3, 4, 6) if slices % n == 0] if slices else [1, 1, 1, 2, 3, 5]
    workers = lambda: r.choice([0] * 24 + [1, 2])  # noqa: E731
    legs = [
        (r.choice(worlds), workers(), r.choice([0, 1, 2, 5, 20])) for _ in range(r.randint(0, 2))
    ]
    if r.random() < 0.4:
        legs = [(*legs[0][:2], steps) for *_, steps in legs]
    legs.append((r.choice(worlds), workers(), None))
    start = r.choice(["fork"] * 9 + ["forkserver", "spawn"])
    if start != "fork":  # each worker takes seconds
        legs = [(1, *leg) for _, *leg in legs]
    weights = r.choice([None, None, None, "column", "array"]) if not by_tokens else None
    damage = plain and not weights and r.random() < 0.2
    steps = tuple(r.sample(sorted(STEPS), r.choice([0, 0, 1, 2, 3])))
    return {
        "seed": seed,
        "files": files,
        "columns": columns,
        "lacks": tuple((n, name) for n in range(len(files)) for name in names if r.random() < 0.05),
        "wide": max(wide, r.choice([0, 0, 3, 12, 16])),
        "twice": r.random() < 0.5,
        "hive": r.choice([None, None, "", "x"]),
        "form": form,
        "nulls": _nulls(seed, r.choice(["raise", "zero", *([] if "pack" in form else ["mask"])])),
        "filters": r.choice([*[None] * 6, *FILTERS]),
        "split": r.choice([None, None, None, ("id", 0.2, 0.8), ("id", 0, 0.1)]),
        "limit": r.choice([None, None, None, r.randint(0, 60), 1000]),
        "offset": r.choice([0, 0, 0, 0, 1, 20]),
        "shuffle": r.random() < 0.65,
        "window": r.choice([None, None, 1, 7, 30, 100]),
        "weights": weights,
        "uneven": r.choice(["wrap", "drop", "pad", *([] if slices else ["keep"])]),
        "drop_last": r.random() < 0.25,
        "preprocess": () if "pack" in form else steps,
        "augment": "pack" not in form and r.random() < 0.2,
        "cache": r.random() < 0.35,
        "store": r.random() < 0.15,
        "damage": tuple(n for n in range(groups) if r.random() < 0.3) if damage else (),
        "legs": legs,
        "persistent": r.random() < 0.5 or start != "fork",
        "start": start,
        "stateful": r.choice([None] * 14 + [0, 0, 1]),
        "mixed": r.random() < 0.1,
        "threads": r.choice([0, 0, 1, 2, 4]),
        "prefetch": r.choice([0, 1, 4, 4]),
        "memory": r.choice(["32MB", "64MB", "256MB", "2GB"]),
        "epoch": r.randint(0, 3),
        "epochs": r.choice([1, 1, 1, 3]),
        "order": r.choice([0, 1, 2**64 - 1, r.getrandbits(64)]),
        "write": {
            "compression": r.choice(["none", "snappy", "zstd"]),
            "use_dictionary": r.random() < 0.5,
            "data_page_version": r.choice(["1.0", "2.0"]),
            "data_page_size": r.choice([64, 1 << 20]),
            "write_statistics": r.random() < 0.8,
            "write_page_index": r.random() < 0.3,
        },
        "packed": r.random() < 0.2,
    }  # fmt: skip


# What stands for each feature in a program without the feature.
WITHOUT = {
    "columns": {},
    "lacks": (),
    "wide": 0,
    "twice": False,
    "hive": None,
    "filters": None,
    "split": None,
    "limit": None,
    "offset": 0,
    "shuffle": False,
    "weights": None,
    "uneven": "wrap",
    "drop_last": False,
    "preprocess": (),
    "augment": False,
    "cache": False,
    "store": False,
    "damage": (),
    "persistent": False,
    "stateful": None,
    "mixed": False,
    "threads": 0,
    "epoch": 0,
    "epochs": 1,
    "write": {},
    "packed": False,
}


def without(program, name):
    """The program without a feature, a column (`columns.0`), later legs, workers or groups."""
    if name == "legs":
        return {**program, "legs": program["legs"][-1:]}
    if name == "groups":
        few = [groups[:4] for groups in program["files"]]
        return {**program, "files": few, "damage": ()} if few != program["files"] else program
    if name == "workers":
        return {**program, "legs": [(world, 0, steps) for world, _, steps in program["legs"]]}
    name, _, number = name.partition(".")
    if number:
        kept = dict(program[name])
        kept.pop(NAMES[int(number)], None)
        return {**program, name: kept}
    return {**program, name: WITHOUT[name]}
