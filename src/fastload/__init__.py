"""Loads Parquet datasets into PyTorch, decoded and collated by a C++ core."""

import typing as _typing

from fastload.runtime import native as _native  # first: refuses a core built for another pyarrow

# isort: split
from fastload.batch.batch import Batch
from fastload.batch.ragged import Ragged
from fastload.dataset.dataset import FastParquetDataset
from fastload.dataset.loaders.data_wait import DataWait
from fastload.dataset.loaders.prefetcher import DevicePrefetcher
from fastload.dataset.mixes.mix import MixedDataset, mix
from fastload.dataset.prepare import prepare
from fastload.dataset.skipping import skip
from fastload.dataset.vocabulary import vocabulary
from fastload.errors import (
    CacheError,
    ColumnNotFoundError,
    CorruptFileError,
    FastloadError,
    NullValueError,
    SchemaError,
    SourceChangedError,
    SourceNotFoundError,
    StorageError,
    UnsupportedTypeError,
)
from fastload.runtime.disk.cache import Cache
from fastload.runtime.hints import missing_name as _missing_name
from fastload.runtime.version import __version__ as __version__
from fastload.schema.columns import Codes, Column, Fixed, Hash, Pad, Stack
from fastload.schema.image import Image
from fastload.schema.packs import Pack, TokenBudget
from fastload.source.stores.io import IO
from fastload.source.tables.delta import Delta
from fastload.source.tables.iceberg import Iceberg
from fastload.steps.kernel import kernel
from fastload.steps.per_row import per_block, per_row

# fmt: off
__all__ = [
    "IO", "Batch", "Cache", "CacheError", "Codes", "Column", "ColumnNotFoundError",
    "CorruptFileError", "DataWait", "Delta", "DevicePrefetcher", "FastParquetDataset",
    "FastloadError", "Fixed", "Hash", "Iceberg", "Image", "MixedDataset", "NullValueError", "Pack",
    "Pad", "Ragged", "SchemaError", "SourceChangedError", "SourceNotFoundError", "Stack",
    "StorageError", "TokenBudget",
    "UnsupportedTypeError", "kernel", "mix", "per_block", "per_row", "prepare",
    "skip", "vocabulary",
]
# fmt: on

del _native


_NAMES = {
    **dict.fromkeys(
        ("Dataset", "ParquetDataset", "IterableDataset", "load_dataset", "read_parquet", "open"),
        "write fastload.FastParquetDataset(source)",
    ),
    **dict.fromkeys(
        ("DataLoader", "Loader", "StreamingDataLoader"),
        "write torch.utils.data.DataLoader(dataset, batch_size=None), or iterate over the dataset",
    ),
    **dict.fromkeys(
        ("Mix", "Mixture", "interleave", "interleave_datasets", "concat", "CombinedDataset"),
        "write fastload.mix({name: dataset}, weights=)",
    ),
    "ConcatDataset": "pass a list of paths as the source of one FastParquetDataset",
    **dict.fromkeys(
        ("images", "testing", "integrations"),
        "import the module first, as in `import fastload.testing`",
    ),
}

if not _typing.TYPE_CHECKING:  # type checkers refuse unknown names themselves

    def __getattr__(name: str) -> _typing.Any:
        return _missing_name(__name__, name, __all__, _NAMES)


def __dir__() -> list[str]:
    """Return the public names, for the completion of interactive shells."""
    return __all__
