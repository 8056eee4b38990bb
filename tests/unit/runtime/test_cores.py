"""Which cores a process may use, and how ranks and workers share them."""

from types import SimpleNamespace

import pytest

from fastload.runtime import cores
from fastload.runtime.cores import RankCores, available_cores, rank_cores


@pytest.fixture
def machine(monkeypatch):
    """Sets the cores of this process, of its launcher, and of its cgroup."""

    def be(own, launcher=None, quota=None):
        monkeypatch.setattr(cores, "usable_cores", lambda: own)
        monkeypatch.setattr(cores, "launcher_cores", lambda: launcher or own)
        monkeypatch.setattr(cores, "_cgroup_quota", lambda: quota)

    for name in ("LOCAL_WORLD_SIZE", *LOCAL_SIZES):
        monkeypatch.delenv(name, raising=False)
    return be


def test_cores_of_the_cgroup(machine):
    for quota, found in ((None, 8), (2.0, 2), (1.5, 1), (1.0, 1), (64.0, 8)):
        machine(8, quota=quota)
        assert available_cores() == found


@pytest.mark.parametrize(
    ("own", "launcher", "quota", "ranks", "share"),
    [
        (208, 208, None, None, 208),
        (208, 208, None, "1", 208),
        (208, 208, None, "8", 26),
        (26, 208, None, "8", 26),  # bound to cores of its own
        (104, 208, None, "8", 26),  # bound to those of a NUMA node, with three others
        (26, 26, None, "8", 3),  # in a container that has no more
        (208, 208, 32.0, "8", 4),
        (2, 2, None, "8", 1),
    ],
)
def test_ranks_of_a_machine_share_its_cores(machine, own, launcher, quota, ranks, share):
    machine(own, launcher, quota)
    assert rank_cores({} if ranks is None else {"LOCAL_WORLD_SIZE": ranks}) == share


LOCAL_SIZES = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"]


@pytest.mark.parametrize("name", LOCAL_SIZES)
def test_ranks_that_mpi_started(machine, name):
    machine(208)
    assert rank_cores({name: "8"}) == 26
    assert rank_cores({name: "1", "LOCAL_WORLD_SIZE": "4"}) == 52  # torchrun, one on each node


@pytest.mark.parametrize("ranks", ["", "0", "-1", "two", "1.5"])
def test_no_number_of_ranks(machine, ranks):
    machine(8)
    for name in ("LOCAL_WORLD_SIZE", *LOCAL_SIZES):
        with pytest.raises(ValueError, match=name):
            rank_cores({name: ranks})


def test_workers_share_what_their_rank_has(machine, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    machine(26, launcher=208)
    of_rank = RankCores()
    # A worker's launcher is the rank, which has no more than its own cores.
    monkeypatch.setattr(cores, "get_worker_info", lambda: SimpleNamespace(num_workers=4))
    machine(26)
    assert [of_rank.of_process(workers) for workers in (1, 4, 99)] == [26, 6, 1]
    machine(2)
    assert of_rank.of_process(1) == 2


def test_a_rank_on_another_machine_has_the_cores_of_that(machine):
    machine(2)
    of_rank = RankCores()
    machine(64)
    assert of_rank.of_process(1) == 64
