"""The contenders: each reads the same rows into the same tensors in its own way.

A contender is made once for a Work, as a training program makes its dataset once, and asked for
the batches of one epoch after another.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import torch


@dataclass(frozen=True, slots=True)
class Work:
    """What to read, and how.

    window_rows: rows that are mixed at once by contenders that choose their own window.
    threads: None = as many as the machine has.
    workers: DataLoader worker processes, for contenders that go through a DataLoader.
    """

    files: tuple[str, ...]
    columns: tuple[str, ...]
    batch_size: int
    shuffle: bool
    seed: int = 0
    threads: int | None = None
    workers: int = 0
    window_rows: int = 1 << 19


class Contender(Protocol):
    """Reads a Work; its class has the name `Contender` in the contender's own module."""

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
    """

    name: str
    module: str
    package: str
    family: str
    loader: bool

    def version(self) -> str | None:
        """Of the package; None if it is not installed."""
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return None

    def load(self) -> type[Contender]:
        """Its class; imports all that it needs."""
        contender: type[Contender] = importlib.import_module(f"{__name__}.{self.module}").Contender
        return contender


# What the others are checked against; not timed.
REFERENCE = Peer("reference", "reference", "pyarrow", "reference", loader=False)

PEERS = (
    Peer("fastload", "fastload_dataset", "fastload", "fastload", loader=True),
    Peer("pyarrow + DataLoader", "pyarrow_loader", "pyarrow", "pyarrow", loader=True),
    Peer("pyarrow, whole windows", "pyarrow_windows", "pyarrow", "pyarrow", loader=False),
    Peer("polars + DataLoader", "polars_loader", "polars", "polars", loader=True),
    Peer("polars, whole windows", "polars_windows", "polars", "polars", loader=False),
)
FAMILIES = ("pyarrow", "polars")
