"""Ranks that are forked from one process, which has imported the framework for all of them."""

import json
import os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed
import torch.multiprocessing

TIMEOUT_S = 90


def run_ranks(function, world, directory):
    """Each rank writes what function(rank, directory) returns to `rank-<rank>.json`."""
    torch.multiprocessing.start_processes(
        _rank, (function, world, Path(directory)), nprocs=world, start_method="fork"
    )


def _rank(rank, function, world, directory):
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    os.environ.update(zip(names, map(str, (rank, rank, world, world)), strict=True))
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29500", TORCHELASTIC_RUN_ID="none")
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{directory}/store",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=TIMEOUT_S),
    )
    (directory / f"rank-{rank}.json").write_text(json.dumps(function(rank, directory)))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
