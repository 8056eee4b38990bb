"""Where rank and world size come from."""

import warnings

import pytest

from fastload.dataset import ranks
from fastload.dataset.ranks import Rank, resolve_rank


@pytest.fixture
def distributed(monkeypatch):
    """Sets up what torch.distributed says."""

    def set_up(rank, world):
        monkeypatch.setattr(ranks.torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(ranks.torch.distributed, "get_rank", lambda: rank)
        monkeypatch.setattr(ranks.torch.distributed, "get_world_size", lambda: world)

    return set_up


def test_arguments_come_first(distributed):
    distributed(1, 2)
    rank = resolve_rank(3, 4, {"RANK": "0", "WORLD_SIZE": "9"})
    assert (rank.rank, rank.world) == (3, 4)
    rank.check_unchanged()


def test_torch_comes_before_the_environment(distributed):
    distributed(1, 2)
    rank = resolve_rank(None, None, {"RANK": "0", "WORLD_SIZE": "9"})
    assert (rank.rank, rank.world) == (1, 2)


def test_environment():
    rank = resolve_rank(None, None, {"RANK": "8", "WORLD_SIZE": "9"})
    assert (rank.rank, rank.world) == (8, 9)


OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}
MPI = {
    "Open MPI": OPEN_MPI,
    "MVAPICH2": {"MV2_COMM_WORLD_RANK": "3", "MV2_COMM_WORLD_SIZE": "4"},
    "MPICH and Intel MPI": {"PMI_RANK": "3", "PMI_SIZE": "4"},
    "mpiexec of MPICH, which starts one task a node by srun": {
        "PMI_RANK": "3",
        "PMI_SIZE": "4",
        "MPI_LOCALNRANKS": "2",
        "SLURM_PROCID": "1",
        "SLURM_STEP_NUM_TASKS": "2",
    },
}


@pytest.mark.parametrize("launcher", MPI)
def test_ranks_of_mpi(launcher):
    rank = resolve_rank(None, None, MPI[launcher])
    assert (rank.rank, rank.world) == (3, 4)


def test_mpi_comes_last(distributed):
    rank = resolve_rank(None, None, {"RANK": "8", "WORLD_SIZE": "9", **OPEN_MPI})
    assert (rank.rank, rank.world) == (8, 9)
    distributed(1, 2)
    assert resolve_rank(None, None, OPEN_MPI).world == 2
    assert resolve_rank(0, 1, OPEN_MPI).world == 1


def test_mpi_of_no_use():
    for number in ("4", "-1", "x"):
        with pytest.raises(ValueError, match=f"got OMPI_COMM_WORLD_RANK={number} and OMPI_COMM"):
            resolve_rank(None, None, {**OPEN_MPI, "OMPI_COMM_WORLD_RANK": number})


@pytest.mark.parametrize("pmi", [{}, {"PMI_RANK": "3", "PMI_SIZE": "8"}])
def test_tasks_of_a_slurm_step(distributed, pmi):
    ranks.warn_of_slurm.cache_clear()
    step = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8", **pmi}
    with pytest.warns(UserWarning, match=r"^This process is task 3 of 8 of a Slurm step.*rank=int"):
        rank = resolve_rank(None, None, step)
    assert (rank.rank, rank.world) == (0, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve_rank(None, None, step)  # once
        ranks.warn_of_slurm.cache_clear()
        resolve_rank(0, 1, step)
        resolve_rank(None, None, {**step, "RANK": "3", "WORLD_SIZE": "8"})
        resolve_rank(None, None, {**step, "SLURM_STEP_NUM_TASKS": "1"})
        # The script that sbatch runs is one process.
        resolve_rank(None, None, {"SLURM_PROCID": "0", "SLURM_NTASKS": "8"})
        distributed(0, 1)
        resolve_rank(None, None, step)


@pytest.mark.parametrize("environment", [{}, {"RANK": "3"}, {"OMPI_COMM_WORLD_RANK": "3"}])
def test_alone(environment):
    rank = resolve_rank(None, None, environment)
    assert (rank.rank, rank.world) == (0, 1)


@pytest.mark.parametrize("environment", [{"WORLD_SIZE": "2"}, {"WORLD_SIZE": "1"}])
def test_world_without_rank(environment):
    with pytest.raises(ValueError, match=r"Expected RANK beside WORLD_SIZE=.*torchrun$"):
        resolve_rank(None, None, environment)


@pytest.mark.parametrize(("rank", "world"), [("2", "2"), ("-1", "2"), ("x", "2"), ("0", "")])
def test_environment_of_no_use(rank, world):
    with pytest.raises(ValueError, match=f"got RANK={rank} and WORLD_SIZE={world}"):
        resolve_rank(None, None, {"RANK": rank, "WORLD_SIZE": world})


@pytest.mark.parametrize(("rank", "world"), [(0, None), (None, 2), (2, 2), (-1, 1), (0, 0)])
def test_arguments_of_no_use(rank, world):
    with pytest.raises(ValueError, match="rank"):
        resolve_rank(rank, world, {})


def test_later_mismatch(distributed):
    rank = resolve_rank(None, None, {})
    rank.check_unchanged()
    distributed(0, 1)
    rank.check_unchanged()
    distributed(1, 2)
    with pytest.raises(RuntimeError, match=r"Expected rank 0 of 1.*got rank 1 of 2 from torch"):
        rank.check_unchanged()
    Rank(0, 1, "arguments").check_unchanged()
