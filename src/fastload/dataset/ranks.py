"""The number of this process among the ranks that share an epoch, also along a DeviceMesh."""

from __future__ import annotations

import functools
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch.distributed

from fastload.runtime.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch.distributed.device_mesh import DeviceMesh

__all__ = ["Rank", "rank_of", "resolve_rank"]

# Names of dimensions whose ranks read different rows: of torch's tutorials (dp, replicate, shard),
# torchtitan and Accelerate (dp_replicate, dp_shard, batch), the two parts of torchtitan's dp_shard
# with expert parallelism, Lightning (data_parallel), and what programs commonly write. A name such
# as dp_shard_cp is neither here nor below, because its ranks share rows in part.
# fmt: off
_DATA = frozenset(
    {
        "dp", "data", "data_parallel", "batch", "fsdp", "ddp", "hsdp", "replica", "replicate",
        "shard", "dp_replicate", "dp_shard", "dp_shard_mod_ep", "dp_shard_in_ep",
    }
)
# Names of dimensions whose ranks share the rows of one data-parallel rank.
_SHARED = frozenset(
    {
        "tp", "tensor", "tensor_parallel", "mp", "model", "model_parallel", "pp", "pipe",
        "pipeline", "pipeline_parallel", "cp", "context", "context_parallel", "sp", "seq",
        "sequence", "sequence_parallel",
    }
)
# fmt: on


# The variables in which the launchers of MPI say the rank and the world size: Open MPI, MVAPICH2,
# and the process manager of MPICH and Intel MPI.
_MPI = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


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
    """Return the rank from the first of five origins that has one.

    The origins are the arguments, torch.distributed, the environment variables RANK and WORLD_SIZE,
    those of MPI's launchers, and the default, rank 0 of 1. The default warns in a task of a Slurm
    step of several tasks: they may be ranks of one run, or a run each.

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


def rank_of(
    mesh: DeviceMesh | tuple[DeviceMesh, str | Sequence[str]] | None,
    rank: int | None,
    world_size: int | None,
) -> Rank:
    """Return the rank of this process that the arguments of a dataset name; one is not None.

    Args:
        mesh: a DeviceMesh, of whose data-parallel dimensions the rank is; or a pair of a DeviceMesh
            and the names of its data-parallel dimensions.
        rank: number of this process, or None.
        world_size: number of processes, or None.

    Raises:
        TypeError: `mesh` is not a DeviceMesh.
        ValueError: both `mesh` and the numbers name a rank, it is not known which dimensions are
            data-parallel, this process is not in the mesh, or as `resolve_rank`.
    """
    if mesh is None:
        return resolve_rank(rank, world_size)
    if rank is not None or world_size is not None:
        raise ValueError("Expected mesh, or rank and world_size, got both")
    mesh, given = mesh if isinstance(mesh, tuple) and len(mesh) == 2 else (mesh, None)
    # No import of torch.distributed.device_mesh: torch may be built without it.
    if not hasattr(mesh, "get_coordinate") or not hasattr(mesh, "mesh_dim_names"):
        raise TypeError(
            "Expected mesh as a DeviceMesh, or as a pair of a DeviceMesh and names of dimensions, "
            f"got {type(mesh).__name__}"
        )
    dimensions = _data_dimensions(mesh, given)
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        raise ValueError(
            "Expected a mesh that this process belongs to, got one without it: pass the mesh of "
            "this process, or rank= and world_size="
        )
    number = 0
    for dimension in dimensions:
        number = number * mesh.size(dimension) + coordinate[dimension]
    return Rank(number, math.prod(map(mesh.size, dimensions)), "mesh")


def _from_torch() -> Rank | None:
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    return Rank(rank, world, "torch.distributed")


def _from_environment(environment: Mapping[str, str]) -> Rank:
    world = environment.get("WORLD_SIZE")
    if world is not None:
        if "RANK" in environment:
            return _from_variables(environment, "RANK", "WORLD_SIZE")
        raise ValueError(
            f"Expected RANK beside WORLD_SIZE={world} in the environment, got none: set both, "
            "pass rank= and world_size=, or start the program with torchrun"
        )
    task, tasks = environment.get("SLURM_PROCID"), environment.get("SLURM_STEP_NUM_TASKS", "1")
    in_step = task is not None and tasks != "1"
    for rank_name, world_name in _MPI:
        if rank_name not in environment or world_name not in environment:
            continue
        # A cluster's srun may set PMI's variables for programs that know nothing of MPI.
        if in_step and rank_name == "PMI_RANK" and "MPI_LOCALNRANKS" not in environment:
            continue
        return _from_variables(environment, rank_name, world_name)
    if in_step:
        warn_of_slurm(f"{task} of {tasks}")
    return Rank(0, 1, "default")


def _from_variables(environment: Mapping[str, str], rank_name: str, world_name: str) -> Rank:
    rank, world = environment[rank_name], environment[world_name]
    try:
        return Rank(int(rank), int(world), f"{rank_name} and {world_name}")
    except ValueError as error:
        raise ValueError(
            f"Expected integers 0 <= {rank_name} < {world_name} in the environment, got "
            f"{rank_name}={rank} and {world_name}={world}"
        ) from error


@functools.cache
def warn_of_slurm(task: str) -> None:
    """Warn, once in a process, that every task of this process's Slurm step reads all rows."""
    warn(
        f"This process is task {task} of a Slurm step, and reads all rows, as rank 0 of 1: so does "
        "each task. To divide the rows, set up torch.distributed before the dataset is used, or "
        'pass rank=int(os.environ["SLURM_PROCID"]) and '
        'world_size=int(os.environ["SLURM_STEP_NUM_TASKS"]). If each task is a run of its own, '
        "pass rank=0, world_size=1"
    )


def _data_dimensions(mesh: DeviceMesh, given: str | Sequence[str] | None) -> list[int]:
    """Return the numbers of the data-parallel dimensions, in the order of the mesh."""
    names: tuple[Any, ...] = tuple(mesh.mesh_dim_names or ())
    if given is not None:
        wanted = [given] if isinstance(given, str) else list(given)
        unknown = [name for name in wanted if name not in names]
        if unknown or len(set(wanted)) < len(wanted):
            raise ValueError(f"Expected names out of {list(names)}, each once, got {wanted}")
        return [number for number, name in enumerate(names) if name in wanted]
    if not names and mesh.ndim == 1:
        return [0]
    unknown = [name for name in names if name not in _DATA | _SHARED]
    if unknown or not names:
        raise ValueError(
            "Expected a mesh whose dimensions have names that say whether they are data-parallel, "
            f"such as 'dp' and 'tp', got {unknown or 'one without names'}: name the data-parallel "
            "ones, as in mesh=(mesh, ['dp']) with mesh_dim_names=, or pass rank= and world_size="
        )
    return [number for number, name in enumerate(names) if name in _DATA]
