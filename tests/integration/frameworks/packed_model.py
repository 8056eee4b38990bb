"""Packed rows in canonical slices, and a small language model that notes its tokens."""

import torch
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from fastload import FastParquetDataset, Pack

LENGTH = 16
SLICES = 4
STEP_ROWS = 2 * SLICES
_VOCABULARY = 64
_WIDTH = 8


def packed_dataset(path, **options):
    """Return the dataset; the same steps on 1, 2 and 4 ranks."""
    options = {"shuffle": True, "shuffle_window": 80, **options}
    return FastParquetDataset(
        path,
        columns={"input_ids": "t", "labels": "l"},
        pack=Pack("input_ids", LENGTH, along=["labels"], pad={"labels": -100}),
        global_batch_size=STEP_ROWS,
        canonical_ranks=SLICES,
        uneven="pad",
        threads=1,
        **options,
    )


class PackedModel(torch.nn.Module):
    """Predicts the next token from the tokens before it in the same document.

    Attributes:
        seen: the tokens of each batch of training, without padding and repeated rows.
    """

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(_VOCABULARY, _WIDTH)
        self.places = torch.nn.Embedding(LENGTH, _WIDTH)
        self.outward = torch.nn.Linear(_WIDTH, _VOCABULARY)
        self.seen = []

    def forward(self, input_ids, labels, **outputs):
        """Return the loss, and the tokens in place of logits."""
        document = outputs["input_ids__document"]
        real = document >= 0
        if "__valid__" in outputs:  # the Trainer's evaluation takes it away
            real &= outputs["__valid__"][:, None]
        self._expect_edges(outputs, document)
        if self.training:
            self.seen.append(input_ids[real].tolist())
        x = self.embedding(input_ids % _VOCABULARY) + self.places(outputs["input_ids__position"])
        same = (document[:, :, None] == document[:, None, :]).tril()
        x = x + scaled_dot_product_attention(x, x, x, attn_mask=same)
        inside = (document[:, 1:] == document[:, :-1]) & real[:, 1:]
        targets = (-labels[:, 1:] % _VOCABULARY).masked_fill(~inside, -100)
        logits = self.outward(x[:, :-1]).flatten(0, 1)
        loss = cross_entropy(logits, targets.flatten(), ignore_index=-100)
        return {"loss": loss, "logits": input_ids.float()}

    def _expect_edges(self, outputs, document):
        edges = outputs["input_ids__cu_seqlens"].diff()
        assert edges.sum() == document.numel()
        assert edges.max() == outputs["input_ids__max_seqlen"]
        assert (edges > 0).all()

    def sum(self):
        """Return a number that tells models of other training apart."""
        return sum(weight.double().abs().sum().item() for weight in self.parameters())
