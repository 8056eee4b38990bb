"""Packed rows and batches by tokens, end to end: what the definition says, wherever it resumes."""

import tempfile
from itertools import islice, pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from packed_cases import EXAMPLES, Oracle, budgets, packs, runs
from torch.utils.data import DataLoader

from fastload import FastParquetDataset

pytestmark = pytest.mark.timeout(1200 + EXAMPLES)
brief = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def packed_batch(run, units):
    """A batch of packed rows, as lists; `units` are (packed row, whether it is real)."""
    spec, length = run.spec, run.spec.length
    outputs = {name: [] for name in spec.outputs}
    documents, positions, edges = [], [], [0]
    for pieces, _ in units:
        filled = sum(tokens for _, _, tokens in pieces)
        row = [t for d, first, tokens in pieces for t in d.tokens[first : first + tokens]]
        for name, sign in (("t", 1), ("l", -1)):
            if name in outputs:
                padding = [spec.pad_of(name)] * (length - filled)
                outputs[name].append([sign * t for t in row] + padding)
        sizes = [tokens for _, _, tokens in pieces]
        numbers = [n for n, size in enumerate(sizes) for _ in range(size)]
        documents.append(numbers + [-1] * (length - filled))
        inside = [k for size in sizes for k in range(size)]
        positions.append(inside + [0] * (length - filled))
        for size in [*sizes, length - filled]:
            if size:
                edges.append(edges[-1] + size)
    outputs["t__document"], outputs["t__position"] = documents, positions
    outputs["t__cu_seqlens"] = edges
    outputs["t__max_seqlen"] = max(b - a for a, b in pairwise(edges))
    if run.options["provenance"]:
        firsts = [pieces[0] for pieces, _ in units]
        outputs["__file__"] = [document.file for document, _, _ in firsts]
        outputs["__row__"] = [document.row for document, _, _ in firsts]
        outputs["__offset__"] = [first for _, first, _ in firsts]
    if run.options["uneven"] == "pad":
        outputs["__valid__"] = [real for _, real in units]
    return outputs


def budgeted_batch(run, units):
    """A batch by tokens, as lists; `units` is one (documents, whether they are real)."""
    ((documents, real),) = units
    outputs = {
        "t": [document.tokens for document in documents],
        "l": [[-t for t in document.tokens] for document in documents],
    }
    if run.options["provenance"]:
        outputs["__file__"] = [document.file for document in documents]
        outputs["__row__"] = [document.row for document in documents]
    if run.options["uneven"] == "pad":
        outputs["__valid__"] = [real] * len(documents)
    return outputs


def deliver(paths, run, oracle, leg, state):
    """Compare what each rank delivers of a leg; return the state after the leg."""
    world, workers, steps = leg
    progress = [] if state is None else [tuple(leg) for leg in state["progress"]]
    expected = oracle.expected(progress, world, workers)
    made = packed_batch if run.packed else budgeted_batch
    states = []
    for rank in range(world):
        with FastParquetDataset(
            paths, rank=rank, world_size=world, threads=0, memory_budget="64MB", **run.arguments
        ) as dataset:
            if state is not None:
                dataset.load_state_dict(state)
            dataset.set_epoch(run.epoch)
            done = sum(delivered for _, _, delivered in progress)
            assert len(dataset) - done == len(expected[rank])
            loader = dataset
            if workers:
                loader = DataLoader(dataset, batch_size=None, num_workers=workers, timeout=60)
            after, delivered = dataset.state_dict(), 0
            for batch, units in zip(islice(loader, steps), expected[rank], strict=False):
                got = {name: value.tolist() for name, value in batch.items()}
                assert got == made(run, units)
                after = dataset.state_dict(after=batch)
                delivered += 1
            wanted = len(expected[rank])
            assert delivered == (wanted if steps is None else min(steps, wanted))
        states.append((delivered, after))
    if run.options["uneven"] != "keep":
        assert len({len(batches) for batches in expected}) == 1
        assert all(state == states[0] for state in states)
    # One that goes on for longer than the others.
    return max(states, key=lambda one: one[0])[1]


def check(run):
    oracle = Oracle(run)
    with tempfile.TemporaryDirectory() as directory:
        paths = run.write(directory)
        state = None
        for leg in run.legs:
            state = deliver(paths, run, oracle, leg, state)


@brief
@given(runs(packs))
def test_packed_rows_are_those_of_the_definition(run):
    check(run)


@settings(brief, max_examples=max(1, EXAMPLES * 2 // 5))
@given(runs(budgets))
def test_batches_by_tokens_are_those_of_the_definition(run):
    check(run)


@settings(max_examples=200, deadline=None)
@given(runs(packs))
def test_the_definition_packs_every_token_once(run):
    tokens = [
        token
        for pieces in Oracle(run).units
        for document, first, count in pieces
        for token in document.tokens[first : first + count]
    ]
    least = run.options["filters"][0][2] if run.options["filters"] else 0
    stay = run.documents[least:]
    kept = []
    for document in stay:
        longer = len(document.tokens) > run.spec.length
        if longer and run.spec.long == "drop":
            continue
        cut = longer and run.spec.long == "truncate"
        kept += document.tokens[: run.spec.length if cut else None]
    assert len(tokens) == len(set(tokens))
    if run.options["limit"] is None:
        assert sorted(tokens) == kept
    else:
        assert set(tokens) <= set(kept)
    for pieces in Oracle(run).units:
        assert 0 < sum(count for _, _, count in pieces) <= run.spec.length
