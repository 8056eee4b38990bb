"""fastload-inspect --state --step: the rows of a step of a run that counts tokens."""

import json
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import Codes, Column, FastParquetDataset, Hash, Pack, TokenBudget
from fastload.tools.cli.inspect import main
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


def report_of(capsys, source, state, step, *more, file):
    file.write_text(json.dumps(state))
    arguments = [str(source), "--state", str(file), "--step", str(step), "--json"]
    status = main([*arguments, *more])
    said = capsys.readouterr()
    assert status == 0, said.err
    return json.loads(said.out)


@pytest.mark.parametrize("worlds", [(1,), (2, 3)])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_steps(capsys, tmp_path, directory, form, shuffle, worlds):
    form = {**form, "shuffle": shuffle, "shuffle_window": 120, "seed": 9}
    steps, ranks = run(directory, worlds, form)
    state = ranks[0].state_dict()
    assert len(json.dumps(state)) <= 512
    more = ["--filters", json.dumps(form["filters"])] if "filters" in form else []
    for number in range(len(steps) + 2):
        report = report_of(capsys, directory, state, number, *more, file=tmp_path / "state")
        for name, values in ranks[0].rows_of(number).items():
            assert report["rows"][name] == values.tolist()
        assert report["rank_rows"] == [
            len(ranks[0].rows_of(number, rank)["row"]) for rank in range(report["world_size"])
        ]
        if number < len(steps):
            check_tokens(report, steps[number], form.get("pack"))
    for rank in ranks:
        rank.close()


def check_tokens(report, batches, pack):
    """Compare a report with the tokens that the ranks have delivered."""
    rows = {name: np.array(values) for name, values in report["rows"].items()}
    ends = np.cumsum([0, *report["rank_rows"]])
    assert len(batches) == report["world_size"]
    for batch, start, stop in zip(batches, ends[:-1], ends[1:], strict=True):
        own = {name: values[start:stop] for name, values in rows.items()}
        documents = [
            10**6 * file + sum(LENGTHS[file][:row]) + np.arange(LENGTHS[file][row])
            for file, row in zip(own["file"].tolist(), own["row"].tolist(), strict=True)
        ]
        if pack is None:
            output = "t" if "t" in batch else "n, of ids"
            assert [tokens.tolist() for tokens in batch[output]] == list(map(list, documents))
            continue
        assert own["document_tokens"].tolist() == list(map(len, documents))
        segments = [
            document[first : first + tokens].tolist()
            for document, first, tokens in zip(
                documents, own["first_token"], own["tokens"], strict=True
            )
        ]
        packed = [[] for _ in batch[pack.output]]
        for row, tokens in zip(own["packed_row"].tolist(), segments, strict=True):
            packed[row] += tokens
        real = batch[f"{pack.output}__document"] >= 0
        for row, tokens in enumerate(packed):
            assert batch[pack.output][row][real[row]].tolist() == tokens


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
def test_lists_of_strings_and_nulls(capsys, tmp_path, words, form):
    with FastParquetDataset(words, batch_size=4, shuffle=True, threads=0, **form) as dataset:
        state, rows = dataset.state_dict(), dataset.rows_of(2)
    report = report_of(capsys, words, state, 2, file=tmp_path / "state")
    assert report["rows"]["row"] == rows["row"].tolist()
    assert sum(report["rows"]["tokens"]) <= 24


@pytest.mark.parametrize(
    ("fit", "documents", "lines"),
    [
        (
            "best",
            3,
            [
                "rank 0, packed row 0:",
                "  {path}, row group 0, row 0: token 8 of 9",
                "  {path}, row group 0, row 3: 3 tokens",
                "rank 0, packed row 1:",
                "  {path}, row group 0, row 1: 2 tokens",
            ],
        ),
        (
            "split",
            4,
            [
                "rank 0, packed row 0:",
                "  {path}, row group 0, row 0: token 8 of 9",
                "  {path}, row group 0, row 1: 2 tokens",
                "  {path}, row group 0, row 3: token 0 of 3",
                "rank 0, packed row 1:",
                "  {path}, row group 0, row 3: tokens 1-2 of 3",
                "  {path}, row group 0, row 4: tokens 0-1 of 4",
            ],
        ),
    ],
)
def test_text(capsys, tmp_path, fit, documents, lines):
    path, head = tmp_path / "a.parquet", "step 1 of epoch 0 on 1 rank: 2 packed rows"
    write_documents(path, [9, 2, 0, 3, 4])
    with FastParquetDataset(path, pack=Pack("t", 4, fit=fit), batch_size=2) as dataset:
        (tmp_path / "state").write_text(json.dumps(dataset.state_dict()))
    assert main([str(path), "--state", str(tmp_path / "state"), "--step", "1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{head} of {documents} documents of 1 row group in 1 file",
        *(line.format(path=path) for line in lines),
    ]


@pytest.mark.parametrize("pack", ["t", "t, 3, fit=new, long=split", "t, 3, a=b, c=d", 5])
def test_states_that_no_version_saved(capsys, tmp_path, directory, pack):
    with FastParquetDataset(directory, pack=Pack("t", 16), batch_size=4) as dataset:
        state = dataset.state_dict()
    state["order"]["pack"] = pack
    (tmp_path / "state").write_text(json.dumps(state))
    assert main([str(directory), "--state", str(tmp_path / "state"), "--step", "3"]) == 2
    assert "Expected" in capsys.readouterr().err


def test_a_name_that_the_state_cut_short(capsys, tmp_path):
    path, file, name = tmp_path / "a.parquet", tmp_path / "state", "x" * 220
    pq.write_table(pa.table({name: [[1, 2], [3]]}), path)
    options = {"columns": {"t": name}, "pack": Pack("t", 2), "batch_size": 1}
    with FastParquetDataset(path, **options) as dataset:
        file.write_text(json.dumps(dataset.state_dict()))
    assert main([str(path), "--state", str(file), "--step", "0"]) == 2
    assert "a short name" in capsys.readouterr().err
