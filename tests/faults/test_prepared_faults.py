"""Prepared rows that are damaged, cut or taken away, and sources that are."""

from __future__ import annotations

import itertools
import os
import signal
import warnings

import numpy as np
import pyarrow.parquet as pq
import pytest

from fastload import Cache, CorruptFileError, FastParquetDataset
from fastload.source.stores.io import IO
from fastload.tools.cli.cache_report import verify
from prepared_parts import (
    PARTS,
    ROWS,
    SLOWLY,
    assert_no_warning,
    checked,
    garbage,
    garbage_at_the_end,
    one_warning,
    overwrite_page,
    parts,
    plus,
    read,
    use_small_parts,
    write_rows,
)
from support.damage import flip


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("faults") / "a.parquet")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    use_small_parts(monkeypatch)
    yield
    assert_no_warning()


def replaced(make):
    def damage(path):
        path.unlink()
        make(path)

    return damage


def link_away(path):
    moved = path.with_name("moved")
    os.rename(path, moved)
    path.symlink_to(moved)


DAMAGES = {
    "garbage in a page": garbage,
    "garbage in the footer": garbage_at_the_end,
    "the footer's length": lambda path: flip(path, -8),
    "the last bit": lambda path: flip(path, -1),
    "the end is missing": lambda path: os.truncate(path, path.stat().st_size - 1),
    "half is missing": lambda path: os.truncate(path, path.stat().st_size // 2),
    "all is missing": lambda path: os.truncate(path, 0),
    "more at the end": lambda path: path.write_bytes(path.read_bytes() + b"more"),
    "removed": lambda path: path.unlink(),
    "a pipe": replaced(os.mkfifo),
    "a dangling link": replaced(lambda path: path.symlink_to("nowhere")),
    "a link": link_away,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_parts_are_made_anew(path, tmp_path, damage):
    expected = list(range(ROWS))
    assert read(path, tmp_path) == (expected, PARTS)
    for options in ({}, {"shuffle": True, "shuffle_window": 1500}):
        for part in parts(tmp_path):
            DAMAGES[damage](part)
        assert read(path, tmp_path, **options) == (expected, PARTS)
        assert not verify(Cache(tmp_path), progress=False)["damaged"]
        assert read(path, tmp_path, shuffle=True) == (expected, 0)


@pytest.mark.parametrize("damage", ["half is missing", "removed", "rows of another part"])
def test_only_the_damaged_part_is_made_anew(path, tmp_path, damage):
    read(path, tmp_path)
    one, other, *_ = parts(tmp_path)
    if damage == "rows of another part":
        table = pq.read_table(other)
        pq.write_table(table.slice(0, len(table) - 1), one)
    else:
        DAMAGES[damage](one)
    assert read(path, tmp_path) == (list(range(ROWS)), 1)


@pytest.mark.parametrize("damage", sorted({*DAMAGES} - {"a pipe"}))
@pytest.mark.parametrize("options", [{}, {"shuffle": True, "shuffle_window": 500}], ids=str)
def test_parts_damaged_in_the_middle_of_a_pass_are_made_anew(path, tmp_path, damage, options):
    options = {**SLOWLY, **options}
    with FastParquetDataset(path, preprocess=plus, **options) as dataset:
        expected = checked(dataset)
    with FastParquetDataset(path, preprocess=plus, cache=tmp_path, **options) as dataset:
        batches = iter(dataset)
        rows = checked([next(batches)])
        for part in parts(tmp_path):
            DAMAGES[damage](part)
        assert rows + checked(batches) == expected
        dataset.set_epoch(0)
        assert checked(dataset) == expected
    assert read(path, tmp_path) == (list(range(ROWS)), 0)
    assert not verify(Cache(tmp_path), progress=False)["damaged"]


def test_a_pipe_in_the_middle_of_a_pass_is_not_waited_for(path, tmp_path):
    with FastParquetDataset(path, preprocess=plus, cache=tmp_path, **SLOWLY) as dataset:
        dataset.warm_cache(progress=False)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)  # ends the child if it waits
        ended = 1
        try:
            with FastParquetDataset(path, preprocess=plus, cache=tmp_path, **SLOWLY) as dataset:
                batches = iter(dataset)
                rows = checked([next(batches)])
                DAMAGES["a pipe"](parts(tmp_path)[2])
                ended = 0 if rows + checked(batches) == list(range(ROWS)) else 2
        finally:
            os._exit(ended)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_parts_that_go_one_by_one_are_made_anew(path, tmp_path):
    """None of them is damaged twice, so the cache is not given up."""
    with FastParquetDataset(path, preprocess=plus, cache=tmp_path, **SLOWLY) as dataset:
        batches = iter(dataset)
        rows = checked(itertools.islice(batches, 1))
        made = parts(tmp_path)
        for number in (1, 2, 3):
            made[number].unlink()
            rows += checked(itertools.islice(batches, ROWS // PARTS // SLOWLY["batch_size"]))
        assert rows + checked(batches) == list(range(ROWS))


def twice(block):
    return {"i": np.repeat(block["i"], 2)}


def test_garbage_in_the_rows_of_steps_that_change_their_number(path, tmp_path):
    """A pass raises, and the next dataset has the right rows."""
    options = {"columns": ["i"], "preprocess": twice, "cache": tmp_path}
    with FastParquetDataset(path, **options) as dataset:
        expected = [batch["i"].tolist() for batch in dataset]
    hurt = parts(tmp_path)[1]
    DAMAGES["garbage in a page"](hurt)
    with (
        FastParquetDataset(path, **options) as dataset,
        pytest.raises(CorruptFileError, match=hurt.name),
    ):
        list(dataset)
    with FastParquetDataset(path, **options) as dataset:
        assert [batch["i"].tolist() for batch in dataset] == expected


@pytest.mark.parametrize("damage", ["half is missing", "removed", "a pipe"])
def test_damaged_parts_of_steps_that_change_the_number_of_rows(path, tmp_path, damage):
    """The dataset is made of the parts, and makes the damaged ones anew."""
    for hurt in (False, True):
        for part in parts(tmp_path) if hurt else ():
            DAMAGES[damage](part)
        with FastParquetDataset(path, columns=["i"], preprocess=twice, cache=tmp_path) as dataset:
            rows = np.concatenate([batch["i"].numpy() for batch in dataset])
        assert (rows == np.repeat(np.arange(ROWS), 2)).all()
        assert not verify(Cache(tmp_path), progress=False)["damaged"]


@pytest.mark.parametrize("verified", ["by a pass", "by fastload-cache"])
def test_flipped_bits_of_values_are_found(path, tmp_path, verified):
    """By a pass that is told to compare checksums, and by `verify`."""
    # With provenance, a pass reads all columns.
    options = {"io": IO(verify_crc=verified == "by a pass"), "provenance": True}
    read(path, tmp_path, **options)
    part, *_ = parts(tmp_path)
    group = pq.ParquetFile(part).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    assert len(columns) > 3
    for column in columns:
        # The last byte of a chunk is one of a page's values.
        start = column.dictionary_page_offset or column.data_page_offset
        flip(part, start + column.total_compressed_size - 1)
        if verified == "by fastload-cache":
            damaged = verify(Cache(tmp_path), progress=False)["damaged"]
            assert [each["file"] for each in damaged] == [part.name]
        assert read(path, tmp_path, **options) == (list(range(ROWS)), 1)


@pytest.mark.parametrize("damage", ["garbage in a page", "removed"])
def test_a_part_that_is_damaged_twice_is_given_up(path, tmp_path, damage):
    """As on a disk that fails."""
    with (
        one_warning("part-00003.parquet"),
        FastParquetDataset(path, preprocess=plus, cache=tmp_path, **SLOWLY) as dataset,
    ):
        for _ in range(3):
            batches = iter(dataset)
            rows = checked([next(batches)])
            if len(parts(tmp_path)) == PARTS:
                DAMAGES[damage](parts(tmp_path)[3])
            assert rows + checked(batches) == list(range(ROWS))


@pytest.fixture(scope="module")
def hurt(path, tmp_path_factory):
    """A file whose row group 3 is corrupt."""
    hurt = tmp_path_factory.mktemp("hurt") / "hurt.parquet"
    hurt.write_bytes(path.read_bytes())
    overwrite_page(hurt, 3)
    return hurt


def test_a_corrupt_row_group_of_the_source(hurt, tmp_path):
    """The error is that of a pass, and comes before the first batch; the parts before it stay."""
    where = r"hurt\.parquet, row group 3"
    with (
        FastParquetDataset(hurt, preprocess=plus) as dataset,
        pytest.raises(CorruptFileError, match=where) as raised,
    ):
        list(dataset)
    for _ in range(2):
        with (
            FastParquetDataset(hurt, preprocess=plus, cache=tmp_path) as dataset,
            pytest.raises(CorruptFileError, match=where) as again,
        ):
            iter(dataset)
        assert str(again.value) == str(raised.value)
        assert len(parts(tmp_path)) == 1
        assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("options", [{"uneven": "pad"}, {"shuffle": True}], ids=str)
def test_a_corrupt_row_group_that_is_skipped(hurt, tmp_path, options):
    """The batches and the report are those without a cache, when the rows are kept already too."""
    options = {"preprocess": plus, "batch_size": 250, "on_error": "skip", **options}
    found = []
    for cache in (None, tmp_path, tmp_path):
        with FastParquetDataset(hurt, cache=cache, **options) as dataset:
            for _ in range(2):
                with warnings.catch_warnings(record=True) as record:
                    warnings.simplefilter("always")
                    got = [{name: batch[name].tolist() for name in batch} for batch in dataset]
                told = [str(each.message) for each in record]
                found.append((got, dataset.skipped, told))
    assert "Row group 3" in found[0][-1][0]
    assert found[:2] == found[2:4] == found[4:]


@pytest.mark.filterwarnings("ignore:Row group 3 of")
def test_a_damaged_part_of_a_source_that_has_a_skipped_row_group(hurt, tmp_path):
    options = {"preprocess": plus, "on_error": "skip", **SLOWLY}
    with FastParquetDataset(hurt, **options) as dataset:
        expected = checked(dataset)
    with FastParquetDataset(hurt, cache=tmp_path, **options) as dataset:
        batches = iter(dataset)
        rows = checked([next(batches)])
        for part in parts(tmp_path)[1:]:
            garbage_at_the_end(part)
        assert rows + checked(batches) == expected
        assert [row_group for _, row_group, _ in dataset.skipped] == [3]
