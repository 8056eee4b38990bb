"""What the training programs share: processes of torchrun, precision, compilation."""

from __future__ import annotations

import argparse
import gc
import os

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def multiple_of_8(text: str) -> int:
    """Convert text to a multiple of 8, because tensor cores need sizes in multiples of 8."""
    if not text.isdecimal() or int(text) < 8 or int(text) % 8:
        raise argparse.ArgumentTypeError(f"Expected a multiple of 8, got {text}")
    return int(text)


def joined_group() -> tuple[torch.device, int]:
    """Join torchrun's processes, if any; return the device and the rank of this process."""
    rank, local_rank = int(os.environ.get("RANK", "0")), int(os.environ.get("LOCAL_RANK", "0"))
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    if "RANK" in os.environ:
        torch.distributed.init_process_group("nccl" if cuda else "gloo")
    torch.set_float32_matmul_precision("high")  # TF32 where autocast leaves float32
    torch.backends.cudnn.benchmark = True  # batches of one shape: the fastest convolutions
    torch.manual_seed(0)
    return device, rank


def left_group() -> None:
    """Leave torchrun's processes, if any; nothing may hold the model any more.

    A DistributedDataParallel that is freed after the group may wait for ever: its destructor
    holds the GIL and joins a thread of gloo, which needs the GIL.
    """
    if torch.distributed.is_initialized():
        gc.collect()
        torch.distributed.destroy_process_group()


def mean_of_ranks(value: torch.Tensor) -> torch.Tensor:
    """Return the mean of the processes' values, without gradients; the value itself if alone."""
    value = value.detach().float()
    if torch.distributed.is_initialized():
        torch.distributed.all_reduce(value)
        value /= torch.distributed.get_world_size()
    return value


def wrapped(model: nn.Module, *, compiled: bool, dynamic: bool | None = None) -> nn.Module:
    """Return the module to call: the model, compiled if wished, and in DDP under torchrun.

    Args:
        model: the model, on its device.
        compiled: True for torch.compile.
        dynamic: as torch.compile takes it: True for shapes that differ from batch to batch.
    """
    forward = torch.compile(model, dynamic=dynamic) if compiled else model
    return DistributedDataParallel(forward) if torch.distributed.is_initialized() else forward


class Precision:
    """Mixed precision: bfloat16, or float16 with a scaler on devices that lack bfloat16."""

    def __init__(self, device: torch.device) -> None:
        half = device.type == "cuda" and not torch.cuda.is_bf16_supported()
        self.autocast = torch.autocast(device.type, torch.float16 if half else torch.bfloat16)
        self.scaler = torch.amp.GradScaler(device.type, enabled=half)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Step the optimizer, and free the gradients."""
        self.scaler.step(optimizer)
        self.scaler.update()
        optimizer.zero_grad(set_to_none=True)
