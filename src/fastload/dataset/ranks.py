"""Which rank of how many this process is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch.distributed

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Rank", "resolve_rank"]


@dataclass(frozen=True, slots=True)
class Rank:
    """One of `world` processes that share an epoch, and where the numbers come from."""

    rank: int
    world: int
    origin: str

    def __post_init__(self) -> None:
        if self.world < 1 or not 0 <= self.rank < self.world:
            raise ValueError(
                f"Expected 0 <= rank < world_size, got rank {self.rank} and world_size "
                f"{self.world} (from {self.origin})"
            )

    def check_unchanged(self) -> None:
        """Compares with torch.distributed, which may have been set up since.

        Raises:
            RuntimeError: the numbers differ, unless they were given as arguments.
        """
        now = _from_torch()
        if now is None or self.origin == "arguments":
            return
        if (now.rank, now.world) != (self.rank, self.world):
            raise RuntimeError(
                f"Expected rank {self.rank} of {self.world} (from {self.origin}, resolved when "
                f"the dataset was first used), got rank {now.rank} of {now.world} from "
                "torch.distributed: set up torch.distributed first, or pass rank= and world_size="
            )


def resolve_rank(
    rank: int | None, world_size: int | None, environment: Mapping[str, str] = os.environ
) -> Rank:
    """From the arguments, else torch.distributed, else RANK and WORLD_SIZE, else 0 of 1.

    Raises:
        ValueError: one number without the other, or numbers out of their range.
    """
    if rank is not None or world_size is not None:
        if rank is None or world_size is None:
            raise ValueError(
                f"Expected rank and world_size together, got rank={rank} and "
                f"world_size={world_size}"
            )
        return Rank(rank, world_size, "arguments")
    return _from_torch() or _from_environment(environment)


def _from_torch() -> Rank | None:
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    return Rank(rank, world, "torch.distributed")


def _from_environment(environment: Mapping[str, str]) -> Rank:
    world = environment.get("WORLD_SIZE")
    if world is None:
        return Rank(0, 1, "default")
    rank = environment.get("RANK")
    if rank is None:
        raise ValueError(
            f"Expected RANK beside WORLD_SIZE={world} in the environment, got none: set both, or "
            "pass rank= and world_size="
        )
    try:
        return Rank(int(rank), int(world), "RANK and WORLD_SIZE")
    except ValueError as error:
        raise ValueError(
            f"Expected integers 0 <= RANK < WORLD_SIZE in the environment, got RANK={rank} and "
            f"WORLD_SIZE={world}"
        ) from error
