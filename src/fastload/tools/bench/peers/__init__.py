"""Contenders: each reads the same rows into the same tensors in its own way.

A contender is made once for a Work, as a training program makes its dataset once. Then the
contender is asked for the batches of one epoch after another.

Note: docs/notes/tools-bench-peers.md.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fastload.tools.bench import environments

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import torch


@dataclass(frozen=True, slots=True)
class Work:
    """The rows to read, and the options of reading.

    Attributes:
        files: paths, or URLs of a store.
        columns: names of the columns, in the order of the outputs.
        batch_size: rows of a batch.
        shuffle: True to shuffle the rows.
        seed: seed of the shuffle.
        threads: number of threads; None = as many as the machine has cores.
        workers: DataLoader worker processes, for contenders that go through a DataLoader.
        window_rows: rows that are shuffled at once by contenders that choose their own window.
        scratch: directory for contenders that convert the files; the converted files that one
            process leaves in the directory serve the next process.
        prefetch: option of fastload alone; None = fastload's default.
        request_bytes: option of fastload alone; None = fastload's default.
        cache_dir: cache directory of fastload alone; "" = no cache.
    """

    files: tuple[str, ...]
    columns: tuple[str, ...]
    batch_size: int
    shuffle: bool
    seed: int = 0
    threads: int | None = None
    workers: int = 0
    window_rows: int = 1 << 19
    scratch: str = ""
    prefetch: int | None = None
    request_bytes: int | None = None
    cache_dir: str = ""


class Contender(Protocol):
    """A reader of a Work.

    A contender that converts the files has an attribute `conversion_s`: the seconds that the
    conversion took. A contender that measures its stages has a method `bottleneck`, which returns
    the slowest stage.
    """

    def __init__(self, work: Work) -> None: ...

    def epoch(self, number: int) -> Iterable[Mapping[str, torch.Tensor]]:
        """Yield the batches of one epoch: name -> Tensor (B,), in the order of Work.columns."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A contender's entry in the table.

    Attributes:
        name: name of the contender in the table.
        contender: the contender's class as "module.Class", in this package.
        package: the distribution that the contender needs.
        family: name of the contender's group in --peers.
        loader: True if the contender goes through a DataLoader, so that --workers has an effect.
        apart: True if the package can't be installed beside fastload; `make peers` installs the
            package into an environment of its own.
        extra: the extra of the package that the contender needs; "" = none.
        beside: a distribution that the extra installs.
        stores: True if the contender also reads files of object stores.
    """

    name: str
    contender: str
    package: str
    family: str
    loader: bool
    apart: bool = False
    extra: str = ""
    beside: str = ""
    stores: bool = False

    def version(self) -> str | None:
        """Return the version of the package, or None if the package is not installed."""
        if self.beside and environments.version(self.beside) is None:
            return None
        return environments.version(self.package)

    @property
    def by_hand(self) -> bool:
        """True if the contender is a hand-written program with a fast library."""
        return self.family in LIBRARIES and not self.loader

    @property
    def requirement(self) -> str:
        """The requirement for pip: the package and its extra."""
        return f"{self.package}[{self.extra}]" if self.extra else self.package

    def load(self) -> type[Contender]:
        """Return the contender's class; import the module of the class and the package."""
        module, _, name = self.contender.partition(".")
        contender: type[Contender] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
        return contender


# The contender whose rows all other contenders must give; not timed.
REFERENCE = Peer(
    "reference", "pyarrow_readers.Reference", "pyarrow", "reference", loader=False, stores=True
)

PEERS = (
    Peer(
        "fastload", "fastload_dataset.Contender", "fastload", "fastload", loader=True, stores=True
    ),
    Peer(
        "pyarrow + DataLoader",
        "pyarrow_readers.Loader",
        "pyarrow",
        "pyarrow",
        loader=True,
        stores=True,
    ),
    Peer(
        "hand-written pyarrow", "pyarrow_readers.WindowReader", "pyarrow", "pyarrow", loader=False
    ),
    Peer("polars + DataLoader", "polars_readers.Loader", "polars", "polars", loader=True),
    Peer("hand-written polars", "polars_readers.WindowReader", "polars", "polars", loader=False),
    Peer("tensors in RAM, by column", "memory_tables.ByColumn", "torch", "memory", loader=False),
    Peer("tensors in RAM, row-major", "memory_tables.RowMajor", "torch", "memory", loader=False),
    Peer("hand-written DuckDB", "duckdb_windows.Contender", "duckdb", "duckdb", loader=False),
    Peer("HF datasets, arrow", "huggingface.ArrowStream", "datasets", "huggingface", loader=False),
    Peer("HF datasets, torch", "huggingface.TorchStream", "datasets", "huggingface", loader=False),
    Peer("HF, converted", "huggingface.ConvertedFiles", "datasets", "huggingface", loader=False),
    Peer("LitData", "litdata_parquet.Contender", "litdata", "litdata", loader=True),
    Peer(
        "Ray Data", "ray_data.Contender", "ray", "ray", loader=False, extra="data", beside="pandas"
    ),
    Peer("Daft", "daft_batches.Contender", "daft", "daft", loader=False, apart=True),
    Peer(
        "Petastorm",
        "petastorm_batches.Contender",
        "petastorm",
        "petastorm",
        loader=False,
        apart=True,
    ),
    Peer(
        "MosaicML Streaming",
        "mosaicml_streaming.Contender",
        "mosaicml-streaming",
        "mosaicml",
        loader=True,
        apart=True,
    ),
)
# The families of libraries with which programs are written by hand: whole windows, or a Dataset
# for a DataLoader (`loader=True`). The other families are loaders, but for "memory".
LIBRARIES = ("pyarrow", "polars", "duckdb")
# What fastload is measured beside by default: the best hand-written programs, and the DataLoader
# that people write.
DEFAULT = ("hand-written pyarrow", "hand-written polars", "pyarrow + DataLoader")
FAMILIES = tuple(dict.fromkeys(peer.family for peer in PEERS if peer.family != "fastload"))
