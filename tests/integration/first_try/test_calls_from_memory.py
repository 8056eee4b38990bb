"""Calls that users of torch, pyarrow, polars and Hugging Face try: they work, or say what to write.

Each call is text. It gives the expected value, or it raises an error whose message fastload writes
(`Says`), or an error of another library that docs/troubleshooting.md explains (`OnPage`).
"""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
from torch.nn import functional

import fastload

PAGE = Path(__file__).resolve().parents[3] / "docs" / "troubleshooting.md"
ROWS = 60
START = datetime.datetime(2024, 1, 1)  # noqa: DTZ001  the column has no time zone


class Says(NamedTuple):
    """The call raises an error whose message matches."""

    message: str
    error: type[Exception] = TypeError


class OnPage(NamedTuple):
    """The call raises another library's error, and a heading of the page quotes its message."""

    error: type[Exception]


NO_ATTRIBUTE, VALUE, KEY, NOT_FOUND = AttributeError, ValueError, KeyError, FileNotFoundError

DATASET = {
    "len(ds)": 8,
    "ds.num_rows": ROWS,
    "ds.head().rows": 5,
    "ds.head(3)['id'].tolist()": [0, 1, 2],
    "ds[0]": Says(r"item \[0\]: for rows by number call take\(\[0\]\) or by_index\(\), to look at"),
    "ds[3]": Says(r"take\(\[3\]\) or by_index\(\), .* head\(5\), .* split=, filters= or limit=$"),
    "ds[torch.arange(300)]": Says(
        r"no item \[tensor\(\[ 0, 1.{40,46}\.\.\.\]: .* call take\(numbers\)"
    ),
    "fastload.mix([ds.__copy__()])[0]": Says(
        r"take\(\[0\]\) or by_index\(\) of a source, to look at"
    ),
    "setattr(ds, 'batch_size', 3)": Says("pass batch_size= when you make", NO_ATTRIBUTE),
    "setattr(ds, 'weights', [1])": Says(r"call dataset\.set_weights\(weights\)", NO_ATTRIBUTE),
    "setattr(ds, 'epoch', 3)": Says(r"call dataset\.set_epoch\(n\)", NO_ATTRIBUTE),
    "setattr(ds, 'mine', 3)": Says("'mine' to set: keep it in a variable", NO_ATTRIBUTE),
    "setattr(ds, 'files', [])": Says("files", NO_ATTRIBUTE),
    "setattr(ds, '_mine', 3)": None,
    "setattr(fastload.mix([ds.__copy__()]), 'weights', [2])": Says(
        r"weights= to fastload\.mix, or make another mix", NO_ATTRIBUTE
    ),
    "fastload.Image2": Says(r"no attribute 'Image2': did you mean fastload\.Image\?", NO_ATTRIBUTE),
    "'FastParquetDataset' in dir(fastload), 'numpy' in dir(fastload)": (True, False),
    "fastload.Pad2": Says(r"did you mean fastload\.Pad", NO_ATTRIBUTE),
    "fastload.Dataset": Says(r"fastload\.FastParquetDataset\(source\)", NO_ATTRIBUTE),
    "fastload.Mix": Says(r"write fastload\.mix\(\{name: dataset\}", NO_ATTRIBUTE),
    "fastload.DataLoader": Says(r"DataLoader\(dataset, batch_size=None\)", NO_ATTRIBUTE),
    "hasattr(fastload, '__wrapped__'), hasattr(fastload, 'Dataset')": (False, False),
    "make(shuffle=10000)": Says("got 10000: write shuffle=True, shuffle_window=10000$"),
    "make(weights=lambda row: 1)": Says("got <function .*call the function on each row, and"),
    "ds[:10]": Says(r"read by iteration .* head\(5\)"),
    "next(iter(random_split(ds, [0.5, 0.5])[0]))": Says("pass split="),
    "random_split(ds, [40, 20])": OnPage(ValueError),
    "Subset(ds, [0, 1])[0]": Says("pass split="),
    "ds.take(5)": Says(r"write take\(\[5\]\) for that row, head\(5\) for the first rows"),
    "ds.take([7, 7])['id'].tolist()": [7, 7],
    "ds.by_index()[3]['id'].item()": 3,
    "ds.map(print)": Says("pass preprocess= or augment=", NO_ATTRIBUTE),
    "ds.filter(print)": Says("pass filters=", NO_ATTRIBUTE),
    "ds.shuffle(1000)": Says("pass shuffle=True", NO_ATTRIBUTE),
    "ds.batch(32)": Says("pass batch_size=", NO_ATTRIBUTE),
    "ds.columns": Says(r"write list\(dataset\.schema\)", NO_ATTRIBUTE),
    "ds.column_names": Says(r"write list\(dataset\.schema\)", NO_ATTRIBUTE),
    "ds.features": Says(r"write dataset\.schema", NO_ATTRIBUTE),
    "ds.shape": Says(r"dataset\.num_rows and len\(dataset\.schema\)", NO_ATTRIBUTE),
    "ds.epoch": Says(r'state_dict\(\)\["epoch"\]', NO_ATTRIBUTE),
    "ds.train_test_split(0.1)": Says(r"split=\(None, 0, 0\.9\)", NO_ATTRIBUTE),
    "ds.with_format('torch')": Says("pass columns= with dtypes", NO_ATTRIBUTE),
    "ds.to_pandas()": Says(r"call it on a Batch: dataset\.head\(n\)", NO_ATTRIBUTE),
    "ds.cuda()": Says(r"DevicePrefetcher\(dataset, device\)", NO_ATTRIBUTE),
    "hasattr(ds, '__len__'), hasattr(ds, 'column_names')": (True, False),
    "list(ds.schema)[:2]": ["id", "fare"],
    "ds.schema['f1'].dtype": torch.float32,
    "ds.schema['labels']": Says("similar outputs: 'label'", KEY),
    "ds.schema.names": Says(r"write list\(schema\)", NO_ATTRIBUTE),
    "make(path='x')": Says("pass source="),
    "make(num_workers=4)": Says("num_workers is a parameter of DataLoader"),
    "make(transform=print)": Says("pass preprocess="),
    "make(target_transform=print)": Says("pass preprocess="),
    "make(sampler=range(9))": Says(r"DataLoader\(dataset\.by_index\(\), sampler="),
    "make(batch_sampler=range(9))": Says(r"dataset\.by_index\(\), batch_sampler="),
    "make(collate_fn=print)": Says(r"list of rows, write DataLoader\(dataset\.by_index\(\)"),
    "make(bach_size=3)": Says("did you mean 'batch_size'"),
    "make(nulls=None)": Says("'raise', 'nan', 'zero' or 'mask'", VALUE),
    "iter(make(nulls='nan'))": Says('pass nulls="nan" .*"zero" or "mask"', fastload.NullValueError),
    "next(iter(make(nulls='nan', columns={'age': torch.float32})))['age'].isnan().sum()": 9,
    "iter(make(nulls='raise'))": Says('pass nulls="nan" .*"mask"', fastload.NullValueError),
    "iter(make(nulls='raise', columns={'age': torch.float32}))": Says(
        r"got 9 \(write Column\('age', fill=", fastload.NullValueError
    ),
    "make(nulls='raise').schema['age'].nulls": 9,
    "make(pack=1024)": Says(r"got 1024: write Pack\(column, length\)$"),
    "make(pack='tokens')": Says(r"got 'tokens': write Pack\('tokens', length\)$"),
    "make(pack=fastload.Pack('tokens', 8, along=['label']))": Says(
        "name a column whose rows are lists of tokens - at output `label`", fastload.SchemaError
    ),
    "make(pack=fastload.Pack('tokens', 8), preprocess=print)": Says(
        "pass cache=directory, where the rows after preprocess are kept", VALUE
    ),
    "make(io=64)": Says(r"Expected io as fastload\.IO, got 64"),
    "make(exclude='age')": Says("exclude as a list of column names"),
}

LOADERS = {
    "next(iter(DataLoader(ds)))": Says(r"write DataLoader\(ds, batch_size=None\)"),
    "next(iter(DataLoader(ds, batch_size=32)))": Says(r"write DataLoader\(ds, batch_size=None\)"),
    "next(iter(DataLoader(ds, batch_size=None))).rows": 8,
    "len(DataLoader(ds, batch_size=None))": 8,
    "DataLoader(ds, batch_size=None, shuffle=True)": OnPage(ValueError),
    "DataLoader(ds, None, sampler=DistributedSampler(ds, 2, 0))": OnPage(ValueError),
    "next(iter(DataLoader(make(columns=['f1']).by_index(), 32)))['f1'].shape": (32,),
    "DataLoader(make(columns=['tokens'], batch_size=None), 32)": Says(r"batch\.iter_rows\(\)"),
    "DataLoader(ds, None, drop_last=True)": OnPage(ValueError),
    "next(iter(DataLoader(ds, None, collate_fn=lambda rows: [r['f1'] for r in rows])))": OnPage(
        TypeError
    ),
    "next(iter(DevicePrefetcher(ds, 'cpu'))).rows": 8,
    "DevicePrefetcher(ds, 'gpu')": Says("Expected a device that torch has, got 'gpu'", VALUE),
    "fastload.mix([ds, ds])": Says("source `0` is used twice - at source `1`", VALUE),
    "fastload.mix([ds.__copy__(), make()], [3, 1]).sources": ("0", "1"),
    "fastload.mix(ds)": Says("a list of FastParquetDataset, or a mapping from name to"),
    "fastload.mix([ds.__copy__()], lambda step: [1])": Says("call the function, and pass the num"),
    "fastload.mix([ds.__copy__()]).set_weights([1])": Says("or make another mix", NO_ATTRIBUTE),
    "fastload.mix([ds.__copy__()], 3)": Says(r"got 3: write weights=\{'0': 1\}$"),
    "len(fastload.DataWait(ds))": 8,
}

BATCH = {
    "b['f1'].shape": (8,),
    "b.rows": 8,
    "b.f1": Says(r"write batch\['f1'\]", NO_ATTRIBUTE),
    "b[:10]": Says(r"batch\.slice\(start, stop\) takes rows"),
    "b[0]": Says(r"batch\.slice\(start, stop\) takes rows", KEY),
    "b['f1', 'f2']": Says(r"\{n: batch\[n\] for n in names\}", KEY),
    "b[['f1', 'f2']]": Says(r"\{n: batch\[n\] for n in names\}"),
    "b['image']": Says("use 'image.bytes', 'image.path'", KEY),
    "b['fair']": Says("similar outputs: 'fare'", KEY),
    "b.get('fair'), 0 in b": (None, False),
    "b.slice(2, 5)['id'].tolist()": [2, 3, 4],
    "b.head()": Says(r"batch\.slice\(start, stop\)", NO_ATTRIBUTE),
    "b.to('cpu').rows": 8,
    "b.to(torch.float16)": Says("cast one output, .* or decode to the dtype"),
    "b.to('cpu', torch.float16)": Says("a device and no dtype, got torch.float16"),
    "b.cuda()": Says(r"a Batch is a dict .*batch\.to\(device\)", NO_ATTRIBUTE),
    "pa.table(dict(b))": OnPage(pa.ArrowInvalid),
    "pa.table(b)": OnPage(pa.ArrowInvalid),
    "pa.table(b.to_arrow()).num_rows": 8,
    "pa.Table.from_batches([b.to_arrow()])['country'].to_pylist()[:2]": ["de", "fr"],
    "polars.DataFrame(b.to_arrow()).height": 8,
    "pandas.DataFrame(b)": Says(r"ragged\.tolist\(\)"),
    "b.to_pandas().shape[0]": 8,
    "torch.stack([b['f1'], b['f2']], 1).shape": (8, 2),
    "functional.cross_entropy(torch.zeros(8, 2), b['label'])": OnPage(RuntimeError),
    "functional.binary_cross_entropy_with_logits(b['f1'], b['label'])": OnPage(RuntimeError),
    "torch.nn.Linear(1, 1)(b['fare'][:, None])": OnPage(RuntimeError),
    "functional.cross_entropy(torch.zeros(8, 2), b['label'].long()).dim()": 0,
}

RAGGED = {
    "r.lengths.tolist()": [1, 2, 3, 4, 1, 2, 3, 4],
    "b['country'].lengths.tolist()[:2]": [2, 2],
    "r.shape": Says(r"ragged\.lengths", NO_ATTRIBUTE),
    "r.long()": Says("columns={name: torch.int64}", NO_ATTRIBUTE),
    "r.to(torch.int64)": Says("a device and no dtype, got torch.int64"),
    "fastload.Ragged(r.values.long(), r.offsets).dtype": torch.int64,
    "np.asarray(r)": Says(r"ragged\.to_padded\(\)"),
    "r.to_padded().numpy().shape": (8, 4),
    "r.tolist()[1]": [0, 1],
    "r.to_list()": Says(r"ragged\.tolist\(\)", NO_ATTRIBUTE),
    "r.mean()": Says(r"ragged\.values is the tensor", NO_ATTRIBUTE),
    "r * 2": Says(r"Ragged is no tensor.*ragged\.to_padded\(\).*Pad, Fixed"),
    "2 * r": Says("Ragged is no tensor"),
    "torch.ones(8) * r": Says("Ragged is no tensor"),
    "r > 0": Says("Ragged is no tensor"),
    "-r": Says("Ragged is no tensor"),
    "torch.nn.Embedding(9, 2)(r)": Says(r"a tensor in embedding\(\), got a Ragged"),
    "torch.stack([r, r])": Says(r"a tensor in stack\(\), got a Ragged"),
    "torch.nn.EmbeddingBag(9, 2)(r.values, r.offsets[:-1].int()).shape": (8, 2),
    "torch.nn.utils.rnn.pad_sequence(list(r), batch_first=True).shape": (8, 4),
    "r[0].tolist(), len(r[:2]), len(r[[0, 3]])": ([0], 2, 2),
    "r[0, 1]": Says(r"ragged\[row\]\[element\]"),
    "r == r": True,
    "r == 0": Says("A bool for each row is torch.tensor"),
    "r != 'a'": Says(r"row == value for row in ragged.*Codes in columns="),
}

COLUMNS = {
    "make(columns='f1')": Says(r"write columns=\['f1'\]"),
    "make(columns=['F1'])": Says("nearest .* `f1`", fastload.ColumnNotFoundError),
    "make(columns={'x': ['f1', 'f2']}).head()['x'].shape": (5, 2),
    "make(columns={'label': torch.int64}).head()['label'].dtype": torch.int64,
    "make(columns={'label': 'int64'})": Says(r"columns=\{'label': torch\.int64\}"),
    "make(columns={'y': Column('label', 'int64')}).head()['y'].dtype": torch.int64,
    "make(columns={'x': Stack('f*')})": Says(r'Stack\(\["f1", "f2"\]\)'),
    "Stack('f1', 'f2')": Says(r'Stack\(\["f1", "f2"\]\)'),
    "Stack('f1', 'f2', 'fare', 'age')": Says(r'into one list, Stack\(\["f1", "f2"\]\)'),
    "make(columns={'x': ['f1', 'fare', 'age']}).head()['x'].dtype": torch.float32,
    "torch.nn.Linear(3, 1)(make(columns={'x': ['f1', 'f2', 'fare']}).head()['x']).shape": (5, 1),
    "make(columns={'x': ['f1', 'country']})": Says(
        "got string: use Codes or Hash in an output .* `country`", fastload.SchemaError
    ),
    "make(columns={'x': ['f1', 'emb']})": Says("use Pad or Fixed", fastload.SchemaError),
    "make(columns={'x': Stack(['f1', 'age'], fill={'age': 5})}).head()['x'][0].tolist()": [0, 5],
    "list(make(nulls='mask', columns={'x': Stack(['f1', 'age'], fill={'f1': 5})}).schema)": [
        "x",
        "x__valid",
    ],
    "Stack(['age'], fill=[1])": Says(r"a mapping from column to number, got \[1\]: write fill="),
    "Stack([Column('age', fill=1), 'f1'])": Says("fill= as a mapping of names to numbers"),
    "Stack(['f1'], valid=True)": Says("Stack has no parameter 'valid': pass nulls=\"mask\""),
    "Codes('country', ['de', 'fr'], unknown=0)": Says(
        r"got 0, the code of 'de': put None first, \[None, 'de', \.\.\.\], with unknown=0, or",
        VALUE,
    ),
    "make(columns={'c': Codes('country', [None, 'fr'], unknown=0)}).head(3)['c'].tolist()": [
        0,
        1,
        0,
    ],
    "make(columns={'c': Codes('age', [None, 1, 0], unknown=0)}).head(4)['c'].tolist()": [
        0,
        1,
        0,
        0,
    ],
    "Codes('country')": Says(r"Codes needs vocabulary, .* write Codes\(name, vocabulary\)"),
    "Hash('country')": Says(r"Hash needs buckets, got none: write Hash\(name, buckets\)"),
    "Pad('tokens')": Says(r"Pad needs length, got none: write Pad\(name, length\)"),
    "list(make(columns=['image']).schema)": ["image.bytes", "image.path"],
    "Column('age', fillna=0)": Says("did you mean 'fill'"),
    "Column('age', 'float99')": Says("one of bool, uint8, .*float32", VALUE),
    "Pad('tokens', max_length=4)": Says("did you mean 'length'"),
    "Pad('tokens', 4, attention_mask=True)": Says("its parameters are name, length, .*mask"),
    "list(make(columns={'t': Pad('tokens', 2, mask=True)}).schema)": ["t", "t__length", "t__mask"],
    "make(columns={'e': Fixed('emb', 4)}).head()['e'].shape": (5, 4),
    "make(columns={'e': Fixed('emb', 5)}).head()": Says("lists of 5 elements, got 4 - at", VALUE),
    "Hash('country', num_buckets=100)": Says("did you mean 'buckets'"),
    "Codes('country', {'de': 0, 'fr': 1})": Says(r"write sorted\(vocabulary, key="),
}

FILTERS = {
    "make(filters=('id', '>=', 50)).num_rows": 10,
    "make(filters=[('id', '>=', 50)]).num_rows": 10,
    "make(filters=pc.field('id') >= 50).num_rows": 10,
    "make(filters='id >= 50')": Says(r'a condition such as \("price", ">", 0\)'),
    "make(filters=['id', '>', 0])": Says(r'a condition such as \("price", ">", 0\)', VALUE),
    "make(filters=lambda row: row['id'] > 0)": Says("write a condition on columns"),
    "make(filters={'id': 1})": Says(r'a condition such as \("price", ">", 0\)'),
    "make(filters=('idd', '>', 0))": Says("nearest is `id`", fastload.ColumnNotFoundError),
    "make(filters=('id', 'gt', 0))": Says("among ==, =, !=, <, >, <=, >=, in, not in", VALUE),
    "make(filters=('age', '!=', None))": Says(r"field\(name\)\.is_null\(\)", VALUE),
    "make(filters=('country', 'in', 'de'))": Says(r"write \['de'\]", VALUE),
    "make(filters=('ts', '>=', '2024-01-15')).num_rows": 4,
    "make(filters=('ts', '>=', '2024-01-15T06:00:00')).num_rows": 3,
    "make(filters=('ts', '>=', np.datetime64('2024-01-15'))).num_rows": 4,
    "make(filters=('utc', '<', '2024-01-02T01:00:00+01:00')).num_rows": 4,
    "make(filters=('utc', '<', '2024-01-02'))": Says('"2024-01-31T12:00:00Z", got', VALUE),
    "make(filters=('day', '>', '2024-02-20')).num_rows": 9,
    "make(filters=('day', 'in', ['2024-01-02', '2024-03-01'])).num_rows": 1,
    "make(filters=('day', '>', '20.2.2024'))": Says('such as "2024-01-31", got', VALUE),
    "make(split=0.9)": Says(r"\(None, 0, 0\.9\) for training and \(None, 0\.9, 1\)"),
    "make(split='train')": Says(r"\(None, 0, 0\.9\) for training"),
    "make(split=(None, 0, 0.5)).num_rows + make(split=(None, 0.5, 1)).num_rows": ROWS,
}

SOURCES = {
    "FastParquetDataset('~/part.parquet', columns=['id']).num_rows": ROWS,
    "FastParquetDataset(Path('~/part.parquet'), columns=['id']).num_rows": ROWS,
    "FastParquetDataset('trian/*.parquet')": Says("holds `train` - at", NOT_FOUND),
    "FastParquetDataset('train/part-7.parquet')": Says("train holds `part.parquet`", NOT_FOUND),
    "FastParquetDataset('part-2.parquet')": Says("holds `part.parquet` - at", NOT_FOUND),
    "FastParquetDataset('scripts/zz.parquet')": Says(
        r"holds (`\d\.parquet`,? ){3}and 2 more Parquet files - at", NOT_FOUND
    ),
    "FastParquetDataset('scripts/zz')": Says("holds `0.parquet`, `1.par.* 2 more", NOT_FOUND),
    "FastParquetDataset(Path('s3://bucket/x'))": Says("a URL has two slashes", NOT_FOUND),
    "FastParquetDataset('hf://datasets/user/name', **unreachable_hub)": Says(
        "- at hf://datasets/user/name", fastload.StorageError
    ),
    "FastParquetDataset([])": Says("at least one file", NOT_FOUND),
}

STEPS = {
    "make(augment=lambda b: b)": Says(r"augment as fn\(batch, seeds\), .* preprocess="),
    "make(augment=lambda b, seeds: b).head().rows": 5,
    "make(augment=fastload.per_row(np.log1p, 'f1', 'y'))": Says(r"per_row\(\.\.\., seeds=True\)$"),
    "make(preprocess=fastload.per_row(len, 'image', 'size'))": Says(
        "Expected inputs of per_row .* among .*`image.bytes`, `image.path`, .*got `image`", VALUE
    ),
    "make(preprocess=lambda b, seeds: b)": Says(r"preprocess as fn\(block\), got"),
    "make(preprocess=fastload.per_row(lambda: 1, 'f1', 'y'))": Says(r"per_row as fn\(f1\), got"),
    "make(preprocess=lambda b: {'y': np.log1p(b['f1'])}).head()['y'].dtype": torch.float32,
    "make(preprocess=lambda b: {'y': torch.log1p(b['f1'])}).head()": OnPage(TypeError),
    "make(preprocess=lambda b: {'y': b['f1'].float()}).head()": OnPage(AttributeError),
    "make(preprocess=lambda b: {'t': [[1], [2, 3]]}).head()": Says("may return str or a list"),
    "make(preprocess=lambda b: None).head()": Says("return the block or a mapping of outputs"),
    "make(preprocess=lambda b: {'y': b['f1'].mean()}).head()": Says("numpy array in output `y`"),
}

CALLS = DATASET | LOADERS | BATCH | RAGGED | COLUMNS | FILTERS | SOURCES | STEPS


def table():
    ids = range(ROWS)
    times = [START + datetime.timedelta(hours=6 * i) for i in ids]
    columns = {
        "id": np.arange(ROWS),
        "fare": np.linspace(0, 1, ROWS),
        "f1": np.linspace(0, 1, ROWS, dtype=np.float32),
        "f2": np.linspace(1, 2, ROWS, dtype=np.float32),
        "label": pa.array([i % 2 for i in ids], pa.int32()),
        "age": pa.array([None if i % 7 == 0 else i for i in ids], pa.int32()),
        "country": [("de", "fr", "us")[i % 3] for i in ids],
        "ts": pa.array(times, pa.timestamp("us")),
        "utc": pa.array(times, pa.timestamp("us", tz="UTC")),
        "day": [START.date() + datetime.timedelta(days=i) for i in ids],
        "tokens": pa.array([list(range(i % 4 + 1)) for i in ids], pa.list_(pa.int32())),
        "emb": pa.array([[0.0, 1.0, 2.0, 3.0]] * ROWS, pa.list_(pa.float32())),
        "image": [{"bytes": b"jpeg", "path": "a.jpg"}] * ROWS,
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What the calls may name, as a user's script has it."""
    directory = tmp_path_factory.mktemp("calls")
    (directory / "train").mkdir()
    pq.write_table(table(), directory / "train" / "part.parquet", row_group_size=25)
    pq.write_table(table(), directory / "part.parquet")
    (directory / "scripts").mkdir()
    for name in ("a.py", "e2.py", "zz.py", *(f"{n}.parquet" for n in range(5))):
        (directory / "scripts" / name).touch()

    def make(**arguments):
        return fastload.FastParquetDataset(directory / "train", **{"nulls": "zero", **arguments})

    ds = make(batch_size=8)
    batch = ds.head(8).copy()
    batch.pop("age__valid")
    libraries = {"fastload": fastload, "torch": torch, "functional": functional}
    arrow = {"np": np, "pa": pa, "pc": pc, "Path": Path}
    hub = {"storage_options": {"endpoint": "http://127.0.0.1:1"}, "io": fastload.IO(retries=0)}
    own = {"make": make, "ds": ds, "b": batch, "r": batch["tokens"], "ROWS": ROWS}
    own |= {"home": directory, "unreachable_hub": hub}
    return vars(torch.utils.data) | vars(fastload) | libraries | arrow | own


@pytest.fixture
def place(names, monkeypatch):
    """A working directory and a home directory with files."""
    monkeypatch.chdir(names["home"])
    monkeypatch.setenv("HOME", str(names["home"]))


def modules(call):
    """Return the libraries that a call needs, and that fastload does not."""
    needed = {"polars.": "polars", "pandas": "pandas", "hf://": "huggingface_hub"}
    return {name: pytest.importorskip(name) for text, name in needed.items() if text in call}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("call", CALLS)
def test_call(call, names):
    namespace, outcome = names | modules(call), CALLS[call]
    if isinstance(outcome, Says):
        with pytest.raises(outcome.error, match=outcome.message):
            eval(call, namespace)
    elif isinstance(outcome, OnPage):
        with pytest.raises(outcome.error) as caught:
            eval(call, namespace)
        assert headings_for(str(caught.value))
    else:
        assert eval(call, namespace) == outcome


def headings_for(message):
    """Return the headings of the page that quote a message, where `…` stands for anything."""
    quoted = re.findall(r"^### `(.*?)`(?=,|$)", PAGE.read_text(), re.MULTILINE)
    patterns = {each: ".*".join(map(re.escape, each.split("…"))) for each in quoted}
    return [each for each, pattern in patterns.items() if re.search(pattern, message, re.DOTALL)]


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_a_machine_without_a_gpu_is_named(names, monkeypatch, device):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ValueError, match=r"found none \(CUDA_VISIBLE_DEVICES=''\).*is_available"):
        fastload.DevicePrefetcher(names["ds"], device)
