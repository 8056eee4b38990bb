"""A TorchTrainer whose worker is killed in mid-epoch: `ray_train_run.py FILE DIRECTORY RAY`.

Each worker appends the rows that it trains on to `<DIRECTORY>/<attempt>-<rank>.jsonl`, a line for
each step. `RAY` is the directory of the cluster.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import ray
import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch.utils.data import DataLoader

from fastload import FastParquetDataset

SAVED = 2  # a checkpoint after every so many steps
KILLED = 5  # the step at which a worker ends, not yet in a checkpoint


def train(config):
    context = ray.train.get_context()
    rank = context.get_world_rank()
    dataset = FastParquetDataset(
        config["path"], columns=["id", "price"], batch_size=25, shuffle=True, threads=1
    )
    model = prepare_model(torch.nn.Linear(1, 1))
    checkpoint = ray.train.get_checkpoint()
    done = 0
    if checkpoint is not None:
        with checkpoint.as_directory() as directory:
            saved = torch.load(Path(directory, "state.pt"))
        model.load_state_dict(saved["model"])
        dataset.load_state_dict(saved["data"])
        done = saved["step"]
    attempt = "first" if checkpoint is None else "resumed"
    with open(f"{config['directory']}/{attempt}-{rank}.jsonl", "a") as log:
        for step, batch in enumerate(DataLoader(dataset, batch_size=None), done + 1):
            model(batch["price"][:, None]).sum().backward()
            line = {"step": step, "rows": batch["id"].tolist(), "world": context.get_world_size()}
            print(json.dumps(line), file=log, flush=True)
            if checkpoint is None and step == KILLED and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            if step % SAVED == 0:
                report(model, dataset.state_dict(after=batch), step, rank)


def report(model, data, step, rank):
    """Report a step; rank 0 saves the checkpoint of all ranks."""
    with tempfile.TemporaryDirectory() as directory:
        checkpoint = None
        if rank == 0:
            state = {"model": model.state_dict(), "data": data, "step": step}
            torch.save(state, Path(directory, "state.pt"))
            checkpoint = Checkpoint.from_directory(directory)
        ray.train.report({"step": step}, checkpoint=checkpoint)


def main(path, directory, cluster):
    ray.init(
        "local",
        num_cpus=3,
        object_store_memory=80_000_000,
        include_dashboard=False,
        _temp_dir=cluster,
    )
    trainer = TorchTrainer(
        train,
        train_loop_config={"path": path, "directory": directory},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            storage_path=f"{directory}/runs",
            name="run",
            failure_config=FailureConfig(max_failures=1),
        ),
    )
    result = trainer.fit()
    Path(directory, "result.json").write_text(json.dumps(result.metrics))
    ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
