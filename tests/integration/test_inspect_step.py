"""fastload-inspect --state --step: the rows of a step of a run."""

import json
from itertools import islice

import pytest

import fastload
from fastload import FastParquetDataset
from fastload.tools.cli.inspect import main
from support.sample_files import write_sample

ARGUMENTS = {
    "batch_size": 30,
    "columns": ["id"],
    "shuffle_window": 128,
    "seed": 5,
    "provenance": True,
    "threads": 0,
}


@pytest.fixture
def paths(tmp_path):
    return [write_sample(tmp_path / f"{name}.parquet", 500, 70) for name in "ab"]


def run(paths, tmp_path, steps, **arguments):
    """Deliver steps of epoch 2 on two ranks; return a file with the state, and each step's rows."""
    rows = [[] for _ in range(steps)]
    for rank in range(2):
        with FastParquetDataset(
            paths, rank=rank, world_size=2, **ARGUMENTS, **arguments
        ) as dataset:
            dataset.set_epoch(2)
            for step, batch in enumerate(islice(dataset, steps)):
                rows[step] += zip(
                    batch["__file__"].tolist(), batch["__row__"].tolist(), strict=True
                )
            state = dataset.state_dict()
    file = tmp_path / "state.json"
    file.write_text(json.dumps(state))
    return file, rows


@pytest.mark.parametrize(
    "arguments",
    [
        {"shuffle": True},
        {"offset": 33, "limit": 600},
        {"shuffle": True, "filters": [("id", ">=", 100)], "split": ("id", 0.1, 0.9)},
    ],
)
def test_rows_of_steps(capsys, tmp_path, paths, arguments):
    file, rows = run(paths, tmp_path, 7, **arguments)
    filters = ["--filters", json.dumps(arguments["filters"])] if "filters" in arguments else []
    given = [str(tmp_path / "*.parquet"), "--state", str(file), *filters]
    for step, expected in enumerate(rows):
        assert main([*given, "--step", str(step), "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        got = report["rows"]
        assert list(zip(got["file"], got["row"], strict=True)) == expected
        assert (report["epoch"], report["world_size"]) == (2, 2)
        assert report["rank_rows"] == [30, 30]
        assert all(
            row // 70 == group for row, group in zip(got["row"], got["row_group"], strict=True)
        )
        assert set(report["files"].values()) == {paths[file] for file, _ in expected}
    if filters:
        assert main([*given[:3], "--step", "0"]) == 2
        assert "Expected --filters, as the run had: id >= 100\n" in capsys.readouterr().err


def test_text(capsys, tmp_path, paths):
    file, _ = run(paths, tmp_path, 1)
    given = [str(tmp_path / "*.parquet"), "--state", str(file)]
    assert main([*given, "--step", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "step 2 of epoch 2 on 2 ranks: 60 rows of 4 row groups in 2 files",
        f"{paths[0]}, row group 0: 10 rows: 60-69",
        f"{paths[0]}, row group 1: 20 rows: 70-89",
        f"{paths[1]}, row group 0: 10 rows: 60-69",
        f"{paths[1]}, row group 1: 20 rows: 70-89",
    ]


def test_what_is_refused(capsys, tmp_path, paths):
    file, _ = run(paths, tmp_path, 3)
    state = json.loads(file.read_text())
    source = [str(tmp_path / "*.parquet"), "--state", str(file)]
    for changed in (
        {"progress": [[1 << 70, 1, 1]]},
        {"progress": [[1, 1 << 63, 1]]},
        {"order": {**state["order"], "batch_size": 1 << 70}},
    ):
        file.write_text(json.dumps({**state, **changed}))
        assert main([*source, "--step", "0"]) == 2
        assert "expected a count of 64 bits" in capsys.readouterr().err
    file.write_text(json.dumps(state))
    assert main([*source, "--step", "99"]) == 2
    assert "Expected a step of the epoch's 17 steps" in capsys.readouterr().err
    with fastload.mix({"a": FastParquetDataset(paths[0], **ARGUMENTS)}) as mixed:
        file.write_text(json.dumps(mixed.state_dict()))
    assert main([*source, "--step", "0"]) == 2
    assert "got one of a mix" in capsys.readouterr().err
    file.write_text("{}")
    assert main([*source, "--step", "0"]) == 2
    assert "Expected a state made by state_dict()" in capsys.readouterr().err
    file.write_text("[")
    assert main([*source, "--step", "0"]) == 2
    with pytest.raises(SystemExit):
        main([*source])
    assert "Expected --state and --step together" in capsys.readouterr().err
