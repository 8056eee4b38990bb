"""The number of this process among the ranks that share an epoch."""

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
    """One of the processes that share an epoch.

    Attributes:
        rank: number of the process, 0 <= rank < world.
        world: number of processes.
        origin: where the two numbers come from, for messages.
    """

    rank: int
    world: int
    origin: str

    def __post_init__(self) -> None:
        if self.world < 1 or not 0 <= self.rank < self.world:
            raise ValueError(
                f"Expected 0 <= rank < world_size, got rank {self.rank} and world_size "
                f"{self.world} (from {self.origin})"
            )

    @property
    def given(self) -> bool:
        """True if the user gave the numbers, as arguments or as a mesh."""
        return self.origin in ("arguments", "mesh")

    def check_unchanged(self) -> None:
        """Compare the numbers with torch.distributed, which may have been set up in the meantime.

        Numbers that the user gave are not compared.

        Raises:
            RuntimeError: the numbers differ.
        """
        now = _from_torch()
        if now is None or self.given:
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
    """Return the rank from the first of four origins that has one.

    The origins are the arguments, torch.distributed, the environment variables RANK and WORLD_SIZE,
    and the default, rank 0 of 1.

    Args:
        rank: number of this process, or None.
        world_size: number of processes, or None.
        environment: the environment variables.

    Raises:
        ValueError: one of the two numbers is missing, or a number is out of range.
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
            f"Expected RANK beside WORLD_SIZE={world} in the environment, got none: set both, "
            "pass rank= and world_size=, or start the program with torchrun"
        )
    try:
        return Rank(int(rank), int(world), "RANK and WORLD_SIZE")
    except ValueError as error:
        raise ValueError(
            f"Expected integers 0 <= RANK < WORLD_SIZE in the environment, got RANK={rank} and "
            f"WORLD_SIZE={world}"
        ) from error
