"""Where rank and world size come from."""

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


@pytest.mark.parametrize("environment", [{}, {"RANK": "3"}])
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
