"""The rank of this process along the data-parallel dimensions of a DeviceMesh."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fastload.dataset.ranks import Rank, resolve_rank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.distributed.device_mesh import DeviceMesh

__all__ = ["rank_of", "rank_of_mesh"]

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


def rank_of(
    mesh: DeviceMesh | tuple[DeviceMesh, str | Sequence[str]] | None,
    rank: int | None,
    world_size: int | None,
) -> Rank:
    """Return the rank of this process that the arguments of a dataset name; one is not None.

    Raises:
        TypeError, ValueError: as `rank_of_mesh` and `resolve_rank`; or both name a rank.
    """
    if mesh is None:
        return resolve_rank(rank, world_size)
    if rank is not None or world_size is not None:
        raise ValueError("Expected mesh, or rank and world_size, got both")
    return rank_of_mesh(mesh)


def rank_of_mesh(mesh: DeviceMesh | tuple[DeviceMesh, str | Sequence[str]]) -> Rank:
    """Return the rank of this process along the data-parallel dimensions of a mesh.

    Args:
        mesh: a DeviceMesh, or a pair of a DeviceMesh and the names of its data-parallel dimensions.

    Raises:
        TypeError: `mesh` is not a DeviceMesh.
        ValueError: it is not known which dimensions are data-parallel, or this process is not in
            the mesh.
    """
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
    rank = 0
    for dimension in dimensions:
        rank = rank * mesh.size(dimension) + coordinate[dimension]
    return Rank(rank, math.prod(map(mesh.size, dimensions)), "mesh")


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
