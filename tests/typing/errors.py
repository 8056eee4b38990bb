"""How users catch errors; never run."""

from typing_extensions import assert_type

from fastload import (
    IO,
    CacheError,
    ColumnNotFoundError,
    CorruptFileError,
    FastloadError,
    FastParquetDataset,
    NullValueError,
    SchemaError,
    SourceChangedError,
    SourceNotFoundError,
    StorageError,
    UnsupportedTypeError,
)

io = IO(
    concurrency=32,
    request_bytes="4MB",
    hole_bytes=65536,
    retries=3,
    timeout_s=10,
    verify_crc=True,
    transport="native",
)
try:
    dataset = FastParquetDataset("s3://bucket/*.parquet", io=io)
except SourceNotFoundError as error:
    of_files: FileNotFoundError = error
except (ColumnNotFoundError, SchemaError, UnsupportedTypeError) as error:
    assert_type(error, ColumnNotFoundError | SchemaError | UnsupportedTypeError)
except (CorruptFileError, NullValueError) as error:
    of_values: ValueError = error
except (CacheError, SourceChangedError) as error:
    of_fastload: FastloadError = error
    assert_type(of_fastload.message, str)
except StorageError as error:
    of_system: OSError = error
except FastloadError as error:
    assert_type(error, FastloadError)
