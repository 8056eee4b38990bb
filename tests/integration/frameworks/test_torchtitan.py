"""Loaders in the style of torchtitan: a DeviceMesh, checkpoints of DCP, other numbers of ranks."""

from __future__ import annotations

import json
import pickle
from datetime import timedelta

import pytest
import torch.distributed
import torch.distributed.checkpoint as dcp
import torch.multiprocessing
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.data import DataLoader

from fastload import DevicePrefetcher, FastParquetDataset
from launching import require
from support.sample_files import ids_of, write_sample

require("torchdata")
pytestmark = pytest.mark.filterwarnings("ignore")  # torch and torchdata warn of themselves

ROWS = 360
BATCH = 10
SAVED = 3  # steps before the checkpoint
PROCESSES = 3
TIMEOUT_S = 60

# Shape and names of the mesh of each run. The first run saves the checkpoint, the others resume.
RUNS = {
    "whole": ((2,), ("dp",)),
    "same ranks": ((2,), ("dp",)),
    "one rank of two processes": ((1, 2), ("dp", "tp")),
    "three ranks": ((3,), ("dp",)),
}
# Loaders that resume on any number of ranks; the loader "by rank" resumes on the same number.
ELASTIC = ["for all ranks", "prefetcher"]


def parallel_aware(dataset, dp_rank, dp_world_size, key):
    """Return a StatefulDataLoader whose state is one entry, of this rank or of all ranks.

    torchtitan's ParallelAwareDataloader keeps its state by rank, and refuses another number.
    """
    from torchdata.stateful_dataloader import StatefulDataLoader

    class ParallelAware(StatefulDataLoader, Stateful):
        def state_dict(self):
            return {key: pickle.dumps(super().state_dict()), "world_size": dp_world_size}

        def load_state_dict(self, state_dict):
            if key == f"dp_rank_{dp_rank}":
                assert state_dict["world_size"] == dp_world_size
            super().load_state_dict(pickle.loads(state_dict[key]))

    return ParallelAware(dataset, batch_size=None)


def loaders_of(path, mesh):
    """Return a loader of each kind, each with a dataset of its own."""

    def dataset():
        return FastParquetDataset(
            path, columns=["id"], batch_size=BATCH, shuffle=True, threads=1, mesh=mesh
        )

    dp = mesh["dp"]
    place = (dp.get_local_rank(), dp.size())
    return {
        "by rank": parallel_aware(dataset(), *place, f"dp_rank_{place[0]}"),
        "for all ranks": parallel_aware(dataset(), *place, "data"),
        "prefetcher": DevicePrefetcher(DataLoader(dataset(), batch_size=None), "cpu"),
    }


def rows_of_run(name, path, directory):
    """Return the rows of each step of the rest of the epoch and of the next, by kind of loader."""
    mesh = init_device_mesh("cpu", RUNS[name][0], mesh_dim_names=RUNS[name][1])
    rows = {}
    for kind, loader in loaders_of(path, mesh).items():
        assert isinstance(loader, Stateful)
        checkpoint = directory / kind
        steps = iter(loader)
        rows[kind] = []
        if name == "whole":
            rows[kind] += [ids_of([next(steps)]) for _ in range(SAVED)]
            dcp.save(
                {"dataloader": loader, "train_state": {"step": SAVED}}, checkpoint_id=checkpoint
            )
        elif kind in ELASTIC or mesh["dp"].size() == 2:
            state = {"dataloader": loader, "train_state": {"step": 0}}
            dcp.load(state, checkpoint_id=checkpoint)
            assert state["train_state"] == {"step": SAVED}
            steps = iter(loader)
        else:
            continue
        rows[kind] += [ids_of([batch]) for batch in steps]
        rows[kind] += [ids_of([batch]) for batch in loader]
    return rows


def run(process, path, directory):
    for name, (shape, _) in RUNS.items():
        world = torch.Size(shape).numel()
        if process >= world:
            continue
        torch.distributed.init_process_group(
            "gloo",
            init_method=f"file://{directory}/{name}",
            rank=process,
            world_size=world,
            timeout=timedelta(seconds=TIMEOUT_S),
        )
        rows = rows_of_run(name, path, directory)
        (directory / f"{name}-{process}.json").write_text(json.dumps(rows))
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The rows of each step, by run, process and kind of loader."""
    directory = tmp_path_factory.mktemp("titan")
    path = write_sample(directory / "sample.parquet", ROWS, 64)
    # Of the fork server, which has imported torch.
    torch.multiprocessing.start_processes(
        run, (path, directory), nprocs=PROCESSES, start_method="forkserver"
    )
    return {
        name: [
            json.loads((directory / f"{name}-{process}.json").read_text())
            for process in range(torch.Size(shape).numel())
        ]
        for name, (shape, _) in RUNS.items()
    }


def flat(steps):
    return sorted(row for step in steps for row in step)


@pytest.mark.parametrize("kind", ["by rank", *ELASTIC])
def test_the_same_ranks_resume_at_the_next_step(rows, kind):
    steps = ROWS // BATCH // 2
    for whole, resumed in zip(rows["whole"], rows["same ranks"], strict=True):
        assert len(whole[kind]) == 2 * steps
        assert resumed[kind] == whole[kind][SAVED:]
    for epoch in (slice(0, steps), slice(steps, None)):
        both = [step for process in rows["whole"] for step in process[kind][epoch]]
        assert flat(both) == list(range(ROWS))


@pytest.mark.parametrize("kind", ELASTIC)
@pytest.mark.parametrize("name", ["one rank of two processes", "three ranks"])
def test_other_ranks_share_the_rows_that_are_left(rows, kind, name):
    before = [step for process in rows["whole"] for step in process[kind][:SAVED]]
    processes = [process[kind] for process in rows[name]]
    if name == "one rank of two processes":
        assert processes[0] == processes[1]
        processes = processes[:1]
    left = (ROWS // BATCH - 2 * SAVED) // len(processes)
    epoch = ROWS // BATCH // len(processes)
    assert [len(steps) for steps in processes] == [left + epoch] * len(processes)
    assert flat(before + [step for steps in processes for step in steps[:left]]) == list(
        range(ROWS)
    )
    assert flat(step for steps in processes for step in steps[left:]) == list(range(ROWS))
