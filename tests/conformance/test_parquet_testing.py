"""The format's own conformance files: what pyarrow reads of them, value for value, or an error."""

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from conftest import DATA_VARIABLE, DEFAULT_DATA
from fastload import Column, CorruptFileError, FastParquetDataset, UnsupportedTypeError
from fastload.arrow_leaves import leaves_of
from fastload.testing import assert_same_rows
from stored_tables import fill_of, takable

ROOT = Path(os.environ.get(DATA_VARIABLE, DEFAULT_DATA), "parquet-testing")
# Files that do not become tensors: the error, and why.
REFUSED = {
    "incorrect_map_schema.parquet": (CorruptFileError, "Map keys must be annotated as required"),
    "large_string_map.brotli.parquet": (ValueError, "memory_budget of at least"),
}
READ_ELSEWHERE = {
    # Asking pyarrow for its metadata ends the process: tests/integration/test_many_files.py.
    "encrypt_columns_plaintext_footer.parquet.encrypted",
}
FILES = sorted(path.name for path in ROOT.glob("data/*.parquet") if path.name not in READ_ELSEWHERE)
ENCRYPTED = sorted(
    path.name for path in ROOT.glob("data/*.encrypted") if path.name not in READ_ELSEWHERE
)
# Damaged in a way that harms no value.
LEGAL = {"ARROW-GH-43605.parquet"}
DAMAGED = sorted(path.name for path in ROOT.glob("bad_data/*.parquet") if path.name not in LEGAL)


@pytest.fixture
def path(request, data_dir):
    part, name = request.param
    return str(data_dir / "parquet-testing" / part / name)


def params(part, names):
    return [pytest.param((part, name), id=name) for name in names]


@pytest.mark.usefixtures("data_dir")
def test_there_are_files():
    assert len(FILES) >= 45
    assert len(ENCRYPTED) >= 5
    assert len(DAMAGED) >= 5


@pytest.mark.parametrize(
    "path",
    params("data", [name for name in FILES if name not in REFUSED])
    + params("bad_data", sorted(LEGAL)),
    indirect=True,
)
def test_values_are_those_of_pyarrow(path):
    table = takable(pq.read_table(path))
    filled, valid = {}, {}
    for name, leaf in leaves_of(table).items():
        filled[name] = Column(name, fill=fill_of(leaf))
        valid[name] = Column(name, valid=True)
    with FastParquetDataset(path, columns=filled, batch_size=100) as dataset:
        assert_same_rows(dataset, table, filled)
    with FastParquetDataset(path, columns=valid, batch_size=7, shuffle=True) as dataset:
        assert_same_rows(dataset, table, valid, ordered=False)


@pytest.mark.parametrize("path", params("data", sorted(REFUSED)), indirect=True)
def test_others_are_refused(path):
    error, sentence = REFUSED[Path(path).name]
    with pytest.raises(error, match=sentence):
        FastParquetDataset(path, batch_size=1)


@pytest.mark.parametrize("path", params("data", ENCRYPTED), indirect=True)
def test_encrypted_files_are_refused(path):
    with pytest.raises(UnsupportedTypeError, match="encrypted"):
        FastParquetDataset(path)


@pytest.mark.parametrize("path", params("bad_data", DAMAGED), indirect=True)
def test_damage_is_named(path):
    with pytest.raises(CorruptFileError, match=Path(path).name):
        read_valid(path)


def read_valid(path):
    columns = {field.name: Column(field.name, valid=True) for field in _arrow_schema(path)}
    return list(FastParquetDataset(path, columns=columns, batch_size=10))


def _arrow_schema(path):
    """The file's fields; of a file whose schema pyarrow can't read, what we say of it."""
    try:
        return pq.read_schema(path)
    except OSError:
        FastParquetDataset(path)
        raise
