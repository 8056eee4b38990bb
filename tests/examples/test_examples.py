"""The examples run at a small size, on the CPU and on a GPU, and say how fast they are."""

from __future__ import annotations

import copy
import importlib
import io
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from fastload import Column, FastParquetDataset, Pack
from fastload.tools.bench import sample
from support.forked import run_forked

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ROWS = 2_048  # of a row group of the click log, of which there are two
TIMEOUT_S = 120
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


def run(script, *arguments, processes=0, torchrun=False, device="cpu"):
    """What an example prints that ends well.

    Args:
        script: the example.
        arguments: its arguments.
        processes: how many processes make up a group; 0 = one, without a group.
        torchrun: True for torchrun, which imports torch in each process and once more; False for
            forks on the CPU, with what torchrun tells each.
        device: "cpu" or "cuda".
    """
    command = [str(EXAMPLES / script), *map(str, arguments)]
    if device == "cpu" and not torchrun:
        out = run_forks(command, processes)
    else:
        out = run_interpreters(command, processes, device)
    assert re.search(r"^\d+\.\d\d steps/s$", out, re.MULTILINE), out
    assert "% of the time was spent waiting for data" in out
    return out


def run_forks(command, processes):
    """What the first of the processes prints, after all have ended well."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    ranks = [{}]
    if processes:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        environment |= dict.fromkeys(["WORLD_SIZE", "LOCAL_WORLD_SIZE"], str(processes))
        ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]

    def ended(rank):
        # torch imports the module with the first optimizer, for 2 s.
        imports = ["torch._dynamo"]
        return run_forked(command, env=environment | rank, timeout=TIMEOUT_S, imports=imports)

    with ThreadPoolExecutor(len(ranks)) as threads:
        programs = list(threads.map(ended, ranks))
    assert [program.returncode for program in programs] == [0] * len(ranks), programs
    return programs[0].stdout


def run_interpreters(command, processes, device):
    """What new interpreters print: torchrun's, if there are processes, else one."""
    launcher = []
    if processes:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {}
    process = subprocess.Popen(
        [sys.executable, *launcher, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **hidden},
        start_new_session=True,
    )
    try:
        out, error = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    assert process.returncode == 0, error
    return out


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    path = tmp_path_factory.mktemp("clicks") / "sample.parquet"
    sample.make(path, row_groups=2, rows=ROWS)
    return path


@pytest.mark.cuda
def test_ctr_on_a_gpu(clicks, tmp_path):
    arguments = (clicks, "--checkpoint", tmp_path / "ctr.pt", "--batch-size", 128)
    out = run("train_ctr.py", *arguments, "--buckets", 1000, device="cuda")
    assert "step 32: mean loss" in out
    out = run("eval.py", *arguments, device="cuda")
    assert f"{2 * ROWS} rows: loss " in out


def test_ctr_goes_on_as_one_process_and_is_evaluated_by_two(clicks, tmp_path):
    checkpoint = tmp_path / "ctr.pt"
    common = (clicks, "--checkpoint", checkpoint, "--batch-size", 128, "--buckets", 1000)
    out = run("train_ctr.py", *common, "--accumulate", 2, "--steps", 4, processes=2, torchrun=True)
    assert "step 4: mean loss" in out
    saved = torch.load(checkpoint)
    assert (saved["step"], saved["epoch"]) == (4, 0)
    # Two processes have taken 8 batches each of 32; the 16 that are left are 16 steps of one.
    out = run("train_ctr.py", *common)
    assert "step 20: mean loss" in out
    assert torch.load(checkpoint)["epoch"] == 1
    # An odd number of rows: one process is a row short, and repeats a row that must not count.
    odd = tmp_path / "odd.parquet"
    pq.write_table(pq.read_table(clicks).slice(0, 2 * ROWS - 1), odd)
    arguments = ("--checkpoint", checkpoint, "--batch-size", 1000, "--output", tmp_path / "scores")
    out = run("eval.py", odd, *arguments, processes=2)
    assert f"{2 * ROWS - 1} rows: loss " in out
    assert len([*(tmp_path / "scores").iterdir()]) == 2
    scores = pq.read_table(tmp_path / "scores")
    assert scores["__row__"].to_pylist() == [*range(2 * ROWS - 1)]  # each row once
    assert set(scores["__file__"].to_pylist()) == {0}
    written = scores["score"].to_numpy()
    assert ((written > 0) & (written < 1)).all()


def write_tokens(path, lengths):
    """Write a file of lists of random tokens, of these lengths."""
    random = np.random.default_rng(0)
    lists = [random.integers(1, 100, length) for length in lengths]
    pq.write_table(pa.table({"tokens": pa.array(lists, pa.list_(pa.int32()))}), path)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("layout", "processes"), [("pad", 0), ("pad", 2), ("nested", 0), ("packed", 0), ("packed", 2)]
)
def test_tokens(tmp_path, layout, processes, device):
    if device == "cuda" and torch.cuda.device_count() < processes:
        pytest.skip(f"needs {processes} CUDA devices")
    random = np.random.default_rng(1)
    write_tokens(tmp_path / "t.parquet", [0, 1, 40, *random.integers(1, 40, 125)])
    arguments = ("--layout", layout, "--length", 32, "--vocabulary", 104, "--batch-size", 16)
    arguments += ("--steps", 10)
    out = run(
        "train_tokens.py", tmp_path / "t.parquet", *arguments, processes=processes, device=device
    )
    loss = float(re.search(r"step 10: loss (.*)", out)[1])
    assert 0 < loss < 10


def test_packed_loss_does_not_depend_on_the_number_of_processes(tmp_path):
    path = tmp_path / "t.parquet"
    write_tokens(path, np.random.default_rng(1).integers(1, 40, 400))
    arguments = (path, "--layout", "packed", "--length", 32, "--vocabulary", 104)
    arguments += ("--global-batch-size", 16, "--canonical-ranks", 4, "--steps", 30)
    outs = [run("train_tokens.py", *arguments, processes=processes) for processes in (0, 2)]
    alone, two = (float(re.search(r"step 30: loss (.*)", out)[1]) for out in outs)
    assert alone == pytest.approx(two, abs=5e-4)


@pytest.fixture
def train_tokens(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("train_tokens")


@pytest.fixture
def packed_batch(tmp_path):
    path = tmp_path / "t.parquet"
    write_tokens(path, [0, 1, 70, 32, *np.random.default_rng(1).integers(1, 40, 30)])
    pack = Pack(Column("tokens", "int64"), 32)
    (batch,) = FastParquetDataset(path, pack=pack, batch_size=1000, shuffle=True)
    return batch


def loss_by_document(train_tokens, model, batch, asked):
    """Return the loss of packed rows, with each document passed to the model alone."""
    total, count = torch.zeros(()), 0
    documents = batch["tokens__document"].flatten()
    for start, stop in itertools.pairwise(batch["tokens__cu_seqlens"].tolist()):
        if documents[start] < 0:
            continue
        tokens = batch["tokens"].flatten()[None, start:stop]
        masked = asked.flatten()[None, start:stop]
        positions = torch.arange(stop - start)[None]
        seen = torch.ones(1, stop - start, dtype=torch.bool)
        logits = model(tokens.masked_fill(masked, model.hidden), positions, seen)
        number = int(masked.sum())
        total = total + train_tokens.masked_mean(logits, tokens, masked) * number
        count += number
    assert count == int((asked & (batch["tokens__document"] >= 0)).sum())
    return total / count


def test_packed_loss_is_that_of_each_document(train_tokens, packed_batch):
    torch.manual_seed(0)
    model = train_tokens.Filler(104, 32).double()
    asked = torch.rand(packed_batch["tokens"].shape) < 0.3
    with torch.no_grad():
        loss = train_tokens.packed_loss(model, model.hidden, packed_batch, asked)
        expected = loss_by_document(train_tokens, model, packed_batch, asked)
    assert loss > 0
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.cuda
@pytest.mark.parametrize("kernel", ["varlen", "mask"])
def test_packed_loss_on_a_gpu_is_that_of_each_document(
    train_tokens, packed_batch, kernel, monkeypatch
):
    if kernel == "mask":
        monkeypatch.setattr(train_tokens, "varlen_attn", None)
    elif train_tokens.varlen_attn is None:
        pytest.skip("needs torch 2.10")
    torch.manual_seed(0)
    model = train_tokens.Filler(104, 32)
    there = copy.deepcopy(model).cuda()
    asked = torch.rand(packed_batch["tokens"].shape) < 0.3
    expected = loss_by_document(train_tokens, model.double(), packed_batch, asked)
    expected.backward()
    with torch.autocast("cuda", torch.bfloat16):
        moved = packed_batch.to("cuda")
        loss = train_tokens.packed_loss(there, there.hidden, moved, asked.cuda())
    loss.backward()
    # bfloat16 has 8 bits of precision.
    torch.testing.assert_close(loss.cpu(), expected, rtol=1e-2, atol=0, check_dtype=False)
    for weight, alone in zip(there.parameters(), model.parameters(), strict=True):
        error = torch.linalg.vector_norm(weight.grad.cpu().double() - alone.grad)
        assert error <= 0.05 * torch.linalg.vector_norm(alone.grad) + 1e-6


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.parametrize("layout", ["pad", "packed"])
def test_tokens_compiled_in_a_group_of_one(tmp_path, layout):
    write_tokens(tmp_path / "t.parquet", np.random.default_rng(1).integers(1, 40, 400))
    arguments = ("--layout", layout, "--length", 32, "--vocabulary", 104, "--batch-size", 16)
    arguments += ("--steps", 10, "--compile")
    out = run("train_tokens.py", tmp_path / "t.parquet", *arguments, processes=1, device="cuda")
    assert "step 10: loss " in out


@pytest.mark.parametrize(
    ("workers", "processes", "device"),
    [
        (0, 0, "cpu"),
        (2, 0, "cpu"),
        (0, 2, "cpu"),
        pytest.param(2, 0, "cuda", marks=pytest.mark.cuda),
    ],
)
def test_images(tmp_path, workers, processes, device):
    random = np.random.default_rng(0)
    jpegs = []
    for _ in range(64):
        written = io.BytesIO()
        pixels = random.integers(0, 255, (48, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(written, "JPEG")
        jpegs.append(written.getvalue())
    table = pa.table({"jpeg": jpegs, "label": np.arange(64) % 4})
    pq.write_table(table, tmp_path / "images.parquet", row_group_size=16)
    arguments = ("--size", 32, "--classes", 8, "--batch-size", 16, "--steps", 6)
    arguments += ("--workers", workers)
    out = run(
        "train_images.py",
        tmp_path / "images.parquet",
        *arguments,
        processes=processes,
        device=device,
    )
    assert "step 6: loss " in out
