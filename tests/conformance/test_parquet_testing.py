"""The format's own conformance files: what pyarrow reads of them, value for value, or an error."""

import resource
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import Column, CorruptFileError, FastParquetDataset, UnsupportedTypeError
from support.data_files import DIRECTORY
from support.expected_numbers import leaves_of
from support.same_rows import assert_same_rows
from support.stored_tables import fill_of, takable
from support.taken_rows import assert_taken

# Files that pyarrow reads no more than we do: the error, its sentence, and why.
REFUSED = {
    "incorrect_map_schema.parquet": (
        CorruptFileError,
        "Map keys must be annotated as required",
        "its schema is not one of the format; pyarrow refuses it too",
    ),
    "large_string_map.brotli.parquet": (
        ValueError,
        "memory_budget of at least",
        "4 KB that claim one row of 2 GiB; pyarrow refuses it too, at any size of memory",
    ),
}
# Its other columns are encrypted, and asking pyarrow for the metadata of all of them ends the
# process.
CLEAR_COLUMNS = ["boolean_field", "int32_field", "int96_field", "ba_field", "flba_field"]
PARTLY_CLEAR = "parquet-testing/data/encrypt_columns_plaintext_footer.parquet.encrypted"
# Damaged in a way that harms no value: pyarrow reads it.
LEGAL = "parquet-testing/bad_data/ARROW-GH-43605.parquet"
# No file of these holds a megabyte: what a reader asks for beyond that, damage made it ask for.
ENOUGH_BYTES = 512 << 20


def files(pattern):
    """The paths of files below the data directory."""
    found = (DIRECTORY / "parquet-testing").glob(pattern)
    return sorted(str(path.relative_to(DIRECTORY)) for path in found)


FILES = files("data/*.parquet")
ENCRYPTED = [name for name in files("data/**/*.encrypted") if name != PARTLY_CLEAR]
DAMAGED = [name for name in files("bad_data/*.parquet") if name != LEGAL]
READ = [name for name in FILES if Path(name).name not in REFUSED]


def each(paths):
    return pytest.mark.parametrize(
        "path", [pytest.param(p, id=Path(p).name) for p in paths], indirect=True
    )


@pytest.mark.usefixtures("data_dir")
def test_there_are_files():
    assert len(FILES) >= 45
    assert len(ENCRYPTED) >= 10
    assert len(DAMAGED) >= 5


@each([*READ, LEGAL])
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


@each([*READ, LEGAL])
def test_rows_by_number_are_those_of_pyarrow(path):
    assert_taken(path, takable(pq.read_table(path)))


@each([name for name in FILES if name not in READ])
def test_what_pyarrow_refuses_is_refused(path, refusal):
    with refusal(*REFUSED[Path(path).name]), at_most(ENOUGH_BYTES):
        FastParquetDataset(path, batch_size=1)


@each(ENCRYPTED)
def test_encrypted_files_are_refused(path, refusal):
    with refusal(UnsupportedTypeError, "encrypted", "encrypted, and there are no keys"):
        FastParquetDataset(path)


@each([PARTLY_CLEAR])
def test_clear_columns_beside_encrypted_ones(path):
    # Nanoseconds do not reach the dates of this column.
    far = ["int96_field"]
    with (
        FastParquetDataset(path, columns=far) as dataset,
        pytest.raises(ValueError, match=r"fits int64 as nanoseconds .*got -4713-11-26T00:00:04"),
    ):
        next(iter(dataset))
    names = [name for name in CLEAR_COLUMNS if name not in far]
    columns = {name: Column(name, valid=True) for name in names}
    with FastParquetDataset(path, columns=columns) as dataset:
        try:
            stored = pq.read_table(path, columns=names)
        except OSError as error:
            pytest.skip(f"pyarrow {pa.__version__} reads no column of such a file: {error}")
        assert_same_rows(dataset, stored, columns)


@each([PARTLY_CLEAR])
def test_encrypted_columns_beside_clear_ones_are_refused(path):
    for name in ("float_field", "double_field"):
        with pytest.raises(UnsupportedTypeError, match=f"an encrypted one.*`{name}`"):
            FastParquetDataset(path, columns=["boolean_field", name])


@pytest.mark.timeout(60)
@each(DAMAGED)
def test_damage_is_named(path, refusal):
    with refusal(CorruptFileError, Path(path).name, "damaged"), at_most(ENOUGH_BYTES):
        read_valid(path)


def read_valid(path):
    columns = {field.name: Column(field.name, valid=True) for field in _arrow_schema(path)}
    return list(FastParquetDataset(path, columns=columns, batch_size=10, threads=1))


def _arrow_schema(path):
    """The file's fields; of a file whose schema pyarrow can't read, what we say of it."""
    try:
        return pq.read_schema(path)
    except OSError:
        FastParquetDataset(path)
        raise


@contextmanager
def at_most(more_bytes):
    """Lets this process ask the system for so many bytes more, whether it uses them or not."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
