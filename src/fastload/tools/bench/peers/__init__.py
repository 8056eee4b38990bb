"""The contenders: each reads the same rows into the same tensors in its own way.

A contender is made once for a Work, as a training program makes its dataset once, and asked for
the batches of one epoch after another.

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
    """What to read, and how.

    window_rows: rows that are mixed at once by contenders that choose their own window.
    threads: None = as many as the machine has.
    workers: DataLoader worker processes, for contenders that go through a DataLoader.
    scratch: a directory for contenders that convert; what they leave there serves the next one.
    prefetch, request_bytes, cache_dir: of fastload alone; None or "" = its own defaults.
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
    """Reads a Work; its class has the name `Contender` in the contender's own module.

    One that converts the files has an attribute `conversion_s`: the seconds that it took.
    """

    def __init__(self, work: Work) -> None: ...

    def epoch(self, number: int) -> Iterable[Mapping[str, torch.Tensor]]:
        """The batches of one epoch: name -> Tensor (B,), in the order of Work.columns."""

    def bottleneck(self) -> str:
        """The slowest stage as the contender itself measured it; empty if it doesn't."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A contender's entry in the table.

    module: in this package.
    package: the installed distribution that it needs.
    family: what --peers calls it.
    loader: it goes through DataLoader, so --workers means something to it.
    apart: it can't be installed beside fastload; `make peers` gives it an environment of its own.
    extra: of the package, that it needs.
    beside: a distribution that this extra brings.
    stores: it reads files of object stores, too.
    """

    name: str
    module: str
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
    def requirement(self) -> str:
        """What to ask pip for."""
        return f"{self.package}[{self.extra}]" if self.extra else self.package

    def load(self) -> type[Contender]:
        """Its class; imports all that it needs."""
        contender: type[Contender] = importlib.import_module(f"{__name__}.{self.module}").Contender
        return contender


# What the others are checked against; not timed.
REFERENCE = Peer("reference", "reference", "pyarrow", "reference", loader=False, stores=True)

PEERS = (
    Peer("fastload", "fastload_dataset", "fastload", "fastload", loader=True, stores=True),
    Peer("pyarrow + DataLoader", "pyarrow_loader", "pyarrow", "pyarrow", loader=True, stores=True),
    Peer("pyarrow, whole windows", "pyarrow_windows", "pyarrow", "pyarrow", loader=False),
    Peer("polars + DataLoader", "polars_loader", "polars", "polars", loader=True),
    Peer("polars, whole windows", "polars_windows", "polars", "polars", loader=False),
    Peer("DuckDB, whole windows", "duckdb_windows", "duckdb", "duckdb", loader=False),
    Peer("HF datasets, arrow", "huggingface_arrow", "datasets", "huggingface", loader=False),
    Peer("HF datasets, torch", "huggingface_torch", "datasets", "huggingface", loader=False),
    Peer("HF, converted", "huggingface_converted", "datasets", "huggingface", loader=False),
    Peer("LitData", "litdata_parquet", "litdata", "litdata", loader=True),
    Peer("Ray Data", "ray_data", "ray", "ray", loader=False, extra="data", beside="pandas"),
    Peer("Daft", "daft_batches", "daft", "daft", loader=False, apart=True),
    Peer("Petastorm", "petastorm_batches", "petastorm", "petastorm", loader=False, apart=True),
    Peer(
        "MosaicML Streaming",
        "mosaicml_streaming",
        "mosaicml-streaming",
        "mosaicml",
        loader=True,
        apart=True,
    ),
)
# Programs written with these are the ones to be measured against; the others are loaders.
LIBRARIES = ("pyarrow", "polars", "duckdb")
FAMILIES = tuple(dict.fromkeys(peer.family for peer in PEERS if peer.family != "fastload"))
