"""Contenders: each reads the same rows into the same tensors in its own way.

A contender is made once for a Work, as a training program makes its dataset once. Then the
contender is asked for the batches of one epoch after another. Loaders that start servers, convert
the files or can't be installed beside fastload are scripts in `benchmarks/peers/`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fastload.tools.bench.machine import version_of

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
    cache_dir: str = ""


class Contender(Protocol):
    """A reader of a Work.

    A contender that measures its stages has a method `bottleneck`, which returns the slowest one.
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
        stores: True if the contender also reads files of object stores.
    """

    name: str
    contender: str
    package: str
    family: str
    loader: bool = False
    stores: bool = False

    def version(self) -> str | None:
        """Return the version of the package, or None if the package is not installed."""
        return version_of(self.package)

    def load(self) -> type[Contender]:
        """Return the contender's class; import the module of the class and the package."""
        module, _, name = self.contender.partition(".")
        contender: type[Contender] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
        return contender


# The contender whose rows all other contenders must give; not timed.
REFERENCE = Peer("reference", "pyarrow_readers.Reference", "pyarrow", "reference", stores=True)

PEERS = (
    Peer("fastload", "fastload_dataset.Contender", "fastload", "fastload", True, True),
    Peer("pyarrow + DataLoader", "pyarrow_readers.Loader", "pyarrow", "pyarrow", True, True),
    Peer("hand-written pyarrow", "pyarrow_readers.WindowReader", "pyarrow", "pyarrow"),
    Peer("hand-written polars", "polars_readers.WindowReader", "polars", "polars"),
    Peer("tensors in RAM, by column", "memory_tables.ByColumn", "torch", "memory"),
    Peer("tensors in RAM, row-major", "memory_tables.RowMajor", "torch", "memory"),
    Peer("HF datasets, arrow", "huggingface.ArrowStream", "datasets", "huggingface"),
    Peer("HF datasets, torch", "huggingface.TorchStream", "datasets", "huggingface"),
)
# What fastload is measured beside by default: the best hand-written programs, and the DataLoader
# that people write.
DEFAULT = ("hand-written pyarrow", "hand-written polars", "pyarrow + DataLoader")
FAMILIES = tuple(dict.fromkeys(peer.family for peer in PEERS if peer.family != "fastload"))
