"""Train a transformer to fill in masked tokens, on lists of varying lengths.

    python examples/train_tokens.py tokens/*.parquet --layout nested
    torchrun --nproc-per-node=8 examples/train_tokens.py tokens/*.parquet --layout pad --compile

    python examples/train_tokens.py tokens/*.parquet --layout packed --length 2048 --batch-size 8
    torchrun --nproc-per-node=4 examples/train_tokens.py tokens/*.parquet --layout packed \
        --global-batch-size 64 --canonical-ranks 8

The files need a column `tokens` of lists of integers. `--layout pad` cuts or pads each list to one
length; `--layout nested` keeps the lists as they are, so that attention computes no padding;
`--layout packed` packs lists into rows of one length, and attention stays within each list. With
`--global-batch-size`, the steps and the losses do not depend on the number of processes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.utils.data import DataLoader
from training import (
    Precision,
    joined_group,
    left_group,
    mean_of_ranks,
    multiple_of_8,
    wrapped,
)

from fastload import Column, DataWait, DevicePrefetcher, FastParquetDataset, Pack, Pad, Ragged

try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:  # torch before 2.10
    varlen_attn = None

HIDDEN_SHARE = 0.15


@dataclass(frozen=True)
class Edges:
    """The documents of packed rows, for kernels of sequences of varying lengths.

    Attributes:
        begins: where documents begin in all tokens of the batch, then the number of the tokens.
        longest: at least the tokens of the longest document.
    """

    begins: torch.Tensor
    longest: int


# What a token attends to: a mask (B, L) or (B, L, L); the documents of packed rows; None if nested.
Seen = torch.Tensor | Edges | None
Model = Callable[[torch.Tensor, torch.Tensor, Seen], torch.Tensor]


class Attention(nn.Module):
    """A layer of attention within each sequence: over padded or packed rows, or a nested tensor."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.inward = nn.Linear(width, 3 * width)
        self.outward = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, mask: Seen) -> torch.Tensor:
        """Return the attention for x (B, L, width), with L ragged if nested.

        mask is (B, L), True for a token; or (B, L, L), True where a token sees another; or the
        documents of packed rows; None if nested.
        """
        parts = self.inward(x).chunk(3, dim=-1)
        # Nested attention asks for heads that lie without gaps.
        split = [part.contiguous().unflatten(-1, (self.heads, -1)) for part in parts]
        if isinstance(mask, Edges):
            flat = [part.flatten(0, 1) for part in split]
            sizes = (mask.begins, mask.begins, mask.longest, mask.longest)
            return self.outward(varlen_attn(*flat, *sizes).flatten(-2).view_as(x))
        q, k, v = (part.transpose(1, 2) for part in split)
        seen = mask
        if mask is not None:
            seen = mask[:, None] if mask.dim() == 3 else mask[:, None, None, :]
        attended = scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.outward(attended.transpose(1, 2).flatten(-2))


class Block(nn.Module):
    """A block of attention, followed by two layers for each token."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = Attention(width, heads)
        self.layers = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor, mask: Seen) -> torch.Tensor:
        """Return the result of the block for the arguments of `Attention`."""
        x = x + self.attention(self.norms[0](x), mask)
        return x + self.layers(self.norms[1](x))


class Filler(nn.Module):
    """A model that computes logits of each token from the whole sequence."""

    def __init__(self, vocabulary: int, longest: int, width: int = 64, blocks: int = 2) -> None:
        super().__init__()
        self.hidden = vocabulary  # the token that stands where one is to be filled in
        self.embedding = nn.Embedding(vocabulary + 1, width)
        self.position = nn.Embedding(longest, width)
        self.blocks = nn.ModuleList([Block(width, heads=4) for _ in range(blocks)])
        self.outward = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor, mask: Seen) -> torch.Tensor:
        """Return logits for tokens and positions, both (B, L) or both nested."""
        x = self.embedding(tokens) + self.position(positions)
        for block in self.blocks:
            x = block(x, mask)
        return self.outward(x)


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="+", help="files, directories, globs or URLs")
    parser.add_argument("--layout", choices=["pad", "nested", "packed"], default="nested")
    parser.add_argument("--length", type=multiple_of_8, default=512, help="tokens of a row")
    parser.add_argument("--vocabulary", type=multiple_of_8, default=50_000)
    parser.add_argument("--batch-size", type=multiple_of_8, default=64, help="of each process")
    parser.add_argument(
        "--global-batch-size", type=int, help="packed rows of all processes, not --batch-size"
    )
    parser.add_argument(
        "--canonical-ranks", type=int, default=8, help="a multiple of the number of processes"
    )
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    options = parser.parse_args()
    if options.global_batch_size is not None and options.layout != "packed":
        parser.error("--global-batch-size needs --layout packed")
    return options


def main() -> None:
    """Train the model."""
    options = arguments()
    device, rank = joined_group()
    dataset = opened(options)
    if not len(dataset):
        rows = options.global_batch_size or options.batch_size
        raise SystemExit(f"Expected a batch of {rows} rows, got fewer in all")
    loader = DataWait(DevicePrefetcher(DataLoader(dataset, batch_size=None), device))
    model = Filler(options.vocabulary, options.length).to(device)
    forward = wrapped(model, compiled=options.compile, dynamic=options.layout == "nested")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    precision = Precision(device)

    began, step, loss = time.perf_counter(), 0, None
    while step < options.steps:
        for batch in loader:
            with precision.autocast:
                loss = loss_of(forward, model.hidden, batch, options)
            precision.scaler.scale(loss).backward()
            precision.step(optimizer)
            step += 1
            if step == options.steps:
                break
    loss = mean_of_ranks(loss)
    if not rank:
        print(f"step {step}: loss {loss.item():.4f}")  # waits for the device
        print(f"{step / (time.perf_counter() - began):.2f} steps/s")
        print(loader.report())


def opened(options: argparse.Namespace) -> FastParquetDataset:
    """Return the dataset of a layout."""
    tokens = Column("tokens", "int64")
    shared = {"shuffle": True, "drop_last": True}
    if options.global_batch_size is None:
        shared["batch_size"] = options.batch_size
    else:
        shared["global_batch_size"] = options.global_batch_size
        shared["canonical_ranks"] = options.canonical_ranks
    if options.layout == "packed":
        return FastParquetDataset(options.source, pack=Pack(tokens, options.length), **shared)
    column = Pad(tokens, options.length, mask=True) if options.layout == "pad" else tokens
    return FastParquetDataset(options.source, columns={"tokens": column}, **shared)


def loss_of(
    model: Model, hidden: int, batch: Mapping[str, torch.Tensor], options: argparse.Namespace
) -> torch.Tensor:
    """Return the loss for a batch of a layout."""
    if options.layout == "packed":
        return packed_loss(model, hidden, batch, chosen_rows(batch["tokens"]))
    if options.layout == "pad":
        return padded_loss(model, hidden, batch["tokens"], batch["tokens__mask"])
    return nested_loss(model, hidden, batch["tokens"], options.length)


def chosen(tokens: torch.Tensor) -> torch.Tensor:
    """Return which tokens are to be filled in, at random."""
    return torch.rand(tokens.shape, device=tokens.device) < HIDDEN_SHARE


def chosen_rows(tokens: torch.Tensor) -> torch.Tensor:
    """Return which tokens (B, L) are to be filled in, whatever the number of processes is.

    All processes draw the same numbers, for the rows of all, and each takes those of its rows.
    """
    world, rank = 1, 0
    if torch.distributed.is_initialized():
        world, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    rows, length = tokens.shape
    draws = torch.rand(world * rows, length, device=tokens.device)
    return draws[rank * rows : (rank + 1) * rows] < HIDDEN_SHARE


def packed_loss(
    model: Model, hidden: int, batch: Mapping[str, torch.Tensor], asked: torch.Tensor
) -> torch.Tensor:
    """Return the loss for packed rows, of the tokens in `asked` (B, L) that are no padding."""
    tokens, document = batch["tokens"], batch["tokens__document"]
    asked = asked & (document >= 0)
    seen: Seen
    if varlen_attn is not None and tokens.is_cuda and torch.is_autocast_enabled("cuda"):
        # The kernel takes 16-bit numbers, and an upper bound of the lengths will do.
        seen = Edges(batch["tokens__cu_seqlens"], tokens.shape[1])
    else:
        seen = document[:, :, None] == document[:, None, :]
    logits = model(tokens.masked_fill(asked, hidden), batch["tokens__position"], seen)
    return masked_mean(logits, tokens, asked)


def padded_loss(
    model: Model, hidden: int, tokens: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Return the loss for tokens (B, L) and their mask (B, L), True for a token."""
    positions = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
    asked = chosen(tokens) & mask
    # A row without tokens attends to its padding, which is not asked for.
    seen = mask | ~mask.any(1, keepdim=True)
    logits = model(tokens.masked_fill(asked, hidden), positions, seen)
    return masked_mean(logits, tokens, asked)


def nested_loss(model: Model, hidden: int, tokens: Ragged, longest: int) -> torch.Tensor:
    """Return the loss for a Ragged; tokens behind `longest` share the last position."""
    # Attention on a GPU takes a slow path, without gradients in bfloat16, if a list is empty.
    values, offsets = tokens.values, torch.unique_consecutive(tokens.offsets)
    lengths = torch.diff(offsets)
    begins = torch.repeat_interleave(offsets[:-1], lengths)
    positions = (torch.arange(len(values), device=values.device) - begins).clamp(max=longest - 1)
    asked = chosen(values)
    visible = torch.nested.nested_tensor_from_jagged(values.masked_fill(asked, hidden), offsets)
    # Of the same offsets, which is how torch knows that the two are alike.
    places = torch.nested.nested_tensor_from_jagged(positions, visible.offsets())
    return masked_mean(model(visible, places, None).values(), values, asked)


def masked_mean(logits: torch.Tensor, tokens: torch.Tensor, asked: torch.Tensor) -> torch.Tensor:
    """Return the loss of the masked tokens, divided by their mean number in a process.

    The mean of the processes' losses, which DDP takes, is then that of the tokens of all processes.
    """
    losses = cross_entropy(logits.flatten(0, -2).float(), tokens.flatten(), reduction="none")
    return (losses * asked.flatten()).sum() / mean_of_ranks(asked.sum()).clamp(min=1)


if __name__ == "__main__":
    main()
    left_group()
