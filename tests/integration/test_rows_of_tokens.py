"""rows_of a step of a dataset that counts tokens: the documents that the ranks deliver."""

from itertools import groupby, islice

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import Codes, Column, FastParquetDataset, Hash, Pack, TokenBudget
from support.token_files import write_documents

LENGTHS = np.random.default_rng(3).integers(0, 40, (2, 300)).tolist()
FORMS = [
    {"pack": Pack("t", 16), "batch_size": 4},
    {"pack": Pack("t", 16, fit="split", long="truncate"), "batch_size": 4},
    {"pack": Pack("t", 16, long="drop", along=["l"]), "batch_size": 3, "uneven": "pad"},
    {"pack": Pack("t", 48, long="raise", fit="split"), "batch_size": 3, "offset": 20, "limit": 400},
    {"pack": Pack("ids", 16), "columns": {"ids": "t"}, "batch_size": 4},
    {"pack": Pack("t", 16), "global_batch_size": 12, "canonical_ranks": 6},
    {"pack": Pack("t", 16, fit="split"), "global_batch_size": 12, "canonical_ranks": 6},
    {
        "pack": Pack("t", 32),
        "batch_size": 2,
        "filters": [("id", ">=", 50)],
        "split": ("id", 0, 0.8),
    },
    {"batch_size": TokenBudget("t", 150)},
    {"batch_size": TokenBudget("t", 150, padded=True, max_rows=7)},
    {"batch_size": TokenBudget("n, of ids", 150), "columns": {"n, of ids": Column("t", fill=0)}},
    {"batch_size": TokenBudget("t", 30, long="alone"), "canonical_ranks": 6},
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("documents")
    for number, lengths in enumerate(LENGTHS):
        write_documents(directory / f"{number}.parquet", lengths, 37, start=10**6 * number)
    return directory


def ranks_of(directory, world, form, state=None):
    ranks = [
        FastParquetDataset(
            directory, rank=rank, world_size=world, threads=0, memory_budget="64MB", **form
        )
        for rank in range(world)
    ]
    for rank in ranks:
        rank.set_epoch(1)
        if state is not None:
            rank.load_state_dict(state)
    return ranks


def run(directory, worlds, form):
    """Deliver 3 steps on each number of ranks; return the batches of the steps, and the ranks."""
    state, steps = None, []
    for world in worlds:
        ranks = ranks_of(directory, world, form, state)
        of_ranks = [[batch.clone() for batch in islice(rank, 3)] for rank in ranks]
        steps += zip(*of_ranks, strict=True)
        state = ranks[0].state_dict()
    return steps, ranks


@pytest.mark.parametrize("worlds", [(1,), (2, 3)])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_steps(directory, form, shuffle, worlds):
    form = {**form, "shuffle": shuffle, "shuffle_window": 120, "seed": 9}
    steps, ranks = run(directory, worlds, form)
    first_tokens = [np.cumsum([0, *lengths]) for lengths in LENGTHS]
    for number, batches in enumerate(steps):
        for rank, batch in enumerate(batches):
            found = ranks[0].rows_of(number, rank)
            expected = list(documents_of(batch, form.get("pack"), first_tokens))
            rows = zip(found["file"].tolist(), found["row"].tolist(), strict=True)
            # A batch holds nothing of a document without tokens.
            assert [(file, row) for file, row in rows if LENGTHS[file][row]] == expected
    for rank in ranks:
        rank.close()


def documents_of(batch, pack, first_tokens):
    """Yield the file and the row of each document of a batch, or of each part of one."""
    if pack is None:
        firsts = [
            int(tokens[0]) for tokens in batch["t" if "t" in batch else "n, of ids"] if len(tokens)
        ]
    else:
        numbers = batch[f"{pack.output}__document"].tolist()
        firsts = [
            int(batch[pack.output][row][place])
            for row, of_row in enumerate(numbers)
            for number, places in groupby(range(len(of_row)), of_row.__getitem__)
            for place in [next(places)]
            if number >= 0
        ]
    for first in firsts:
        file, token = divmod(first, 10**6)
        yield file, int(np.searchsorted(first_tokens[file], token, side="right")) - 1


@pytest.fixture
def words(tmp_path):
    """Lists of words, some of which are null."""
    path = tmp_path / "words.parquet"
    lists = [None if n % 7 == 3 else ["word"] * (n % 5) for n in range(60)]
    pq.write_table(pa.table({"words": pa.array(lists, pa.list_(pa.string()))}), path)
    return path


@pytest.mark.parametrize(
    "form",
    [
        {"pack": Pack(Hash("words", 100), 6), "nulls": "zero"},
        {"pack": Pack("n", 6, fit="split"), "columns": {"n": Codes("words", ["word"])}},
    ],
)
def test_lists_of_strings_and_nulls(words, form):
    with FastParquetDataset(words, batch_size=4, threads=0, **form) as dataset:
        rows = dataset.rows_of(0)["row"].tolist()
    assert 0 < len(rows) <= 24
    assert all(row % 5 for row in rows if row % 7 != 3)
