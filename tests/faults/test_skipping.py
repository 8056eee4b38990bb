"""on_error="skip": a corrupt row group is left out, and nothing else changes."""

import itertools
import os
import warnings
from functools import partial

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import fastload
import fastload.engine.budget
from fastload import CorruptFileError, FastParquetDataset, NullValueError, SourceChangedError
from fastload.testing import assert_resumes_exactly, assert_same_batches
from support.damage import COLUMNS, damage, write_groups
from support.sample_files import ids_of

pytestmark = pytest.mark.filterwarnings("ignore:Row group .* is left out")

TIMEOUT_S = 60
FILES = [[10, 20, 30], [], [25, 5, 40], [15, 35]]
# By number in the order of all row groups: those that can't be read.
CORRUPT = {1: "text", 3: "id", 7: "items"}
EVEN = pc.bit_wise_and(pc.field("id"), 1) == 0


def write_files(directory, files=FILES, corrupt=CORRUPT):
    """Files of which some row groups are corrupt; the paths, and the ids of those groups."""
    paths, lost = [], set()
    first = number = 0
    for k, groups in enumerate(files):
        paths.append(write_groups(directory / f"part-{k}.parquet", groups, first))
        for group, rows in enumerate(groups):
            if number in corrupt:
                damage(paths[-1], group, corrupt[number])
                lost |= set(range(first, first + rows))
            first += rows
            number += 1
    return paths, lost, first


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("skipping"))


@pytest.fixture(params=[2000, 100_000])
def stripes(request, monkeypatch):
    """Without shuffle, windows of so many bytes: some, or one."""
    monkeypatch.setattr(fastload.engine.budget, "_FIXED_STRIPE_BYTES", request.param)


def dataset_of(paths, **options):
    options = {"batch_size": 8, "shuffle_window": 60, "uneven": "pad", **options}
    return FastParquetDataset(
        paths, on_error="skip", **{"threads": 1, "memory_budget": "8MB", **options}
    )


def real_ids(batches):
    return [row for batch in batches for row in batch["id"][batch["__valid__"]].tolist()]


def assert_whole_rows(batches):
    """Each row is one row of a file, whichever column tells it, from where it says."""
    for batch in batches:
        ids = batch["id"].tolist()
        assert list(batch["text"]) == [f"row {k}" for k in ids]
        assert batch["items"].tolist() == [[k, k] for k in ids]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("threads", [0, 4])
def test_rows_of_corrupt_row_groups_are_left_out(written, stripes, shuffle, threads):
    paths, lost, rows = written
    with dataset_of(paths, shuffle=shuffle, threads=threads, provenance=True) as dataset:
        for epoch in range(3):  # from the third on a pass is read ahead
            dataset.set_epoch(epoch)
            batches = [batch.clone() for batch in dataset]
            assert len(batches) == len(dataset) == -(-rows // 8)
            assert [batch.rows for batch in batches] == [8] * (rows // 8) + [rows % 8] * (
                rows % 8 > 0
            )
            assert_whole_rows(batches)
            assert not lost & set(ids_of(batches))
            assert sorted(real_ids(batches)) == sorted(set(range(rows)) - lost)
            with dataset_of(paths, shuffle=shuffle, threads=2, provenance=True) as other:
                other.set_epoch(epoch)
                assert_same_batches(batches, other)
            starts = [0, 60, 60, 130]
            for batch in batches:
                first = [starts[file] for file in batch["__file__"].tolist()]
                assert (batch["__row__"] + torch.tensor(first)).tolist() == batch["id"].tolist()
        left_out = [(paths[0], 1, "text"), (paths[2], 0, "id"), (paths[3], 1, "items")]
        assert {(path, group) for path, group, _ in dataset.skipped} == {
            (path, group) for path, group, _ in left_out
        }
        for path, group, cause in dataset.skipped:
            (column,) = (c for p, g, c in left_out if (p, g) == (path, group))
            assert cause.endswith(f" - at column `{column}`")
            assert path not in cause


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": True},
        {"shuffle": True, "shuffle_window": 25},
        {"rank": 1, "world_size": 3, "shuffle": True},
        {"rank": 2, "world_size": 3, "uneven": "wrap"},
        {"drop_last": True, "uneven": "drop"},
    ],
)
def test_resumed_after_every_batch_on_other_machines(written, monkeypatch, options):
    monkeypatch.setattr(fastload.engine.budget, "_FIXED_STRIPE_BYTES", 2000)
    machines = itertools.cycle(
        [{"threads": 0}, {"threads": 4, "memory_budget": "1GB"}, {"prefetch": 16}]
    )
    options = {"batch_size": 9, **options}
    assert_resumes_exactly(lambda: dataset_of(written[0], **{**next(machines), **options}))


def test_resumed_runs_of_workers(written, monkeypatch):
    monkeypatch.setattr(fastload.engine.budget, "_FIXED_STRIPE_BYTES", 2000)
    for shuffle in (False, True):
        make = partial(dataset_of, written[0], shuffle=shuffle)
        assert_resumes_exactly(make, after=[0, 3, 10], num_workers=2)


def test_stateful_data_loader(written):
    def loader():
        return StatefulDataLoader(
            dataset_of(written[0], shuffle=True), batch_size=None, num_workers=2, timeout=TIMEOUT_S
        )

    running = loader()
    states, batches = [], []
    for batch in running:
        batches.append(batch.clone())
        states.append(running.state_dict())
    for delivered in (1, 12):
        resumed = loader()
        resumed.load_state_dict(states[delivered - 1])
        assert_same_batches(resumed, batches[delivered:])


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_worker_processes(written, context):
    """They deliver the same rows, and what they left out is seen here."""
    paths, lost, rows = written
    with dataset_of(paths, shuffle=True) as dataset:
        alone = [batch.clone() for batch in dataset]
        found = set(dataset.skipped)
    with dataset_of(paths, shuffle=True) as dataset:
        loader = DataLoader(
            dataset,
            batch_size=None,
            num_workers=2,
            multiprocessing_context=context,
            timeout=TIMEOUT_S,
        )
        batches = [batch.clone() for batch in loader]
        assert set(dataset.skipped) == found
        assert len(dataset.skipped) == len(found) == 3
    assert len(batches) == -(-rows // 8)
    assert sorted(real_ids(batches)) == sorted(set(range(rows)) - lost)
    half = -(-len(batches) // 2)
    # In turn from each half.
    order = [batch for pair in zip(alone[:half], alone[half:], strict=False) for batch in pair]
    assert_same_batches(batches, order + alone[half - 1 : half] * (len(alone) % 2))


groups = st.lists(st.lists(st.integers(1, 30), max_size=4), min_size=1, max_size=3)


@settings(max_examples=60)
@given(st.data())
def test_ranks(tmp_path_factory, data):
    files = data.draw(groups)
    count = sum(map(len, files))
    numbers = st.integers(0, max(0, count - 1))
    corrupt = data.draw(st.dictionaries(numbers, st.sampled_from(COLUMNS), max_size=count // 2))
    paths, lost, rows = write_files(tmp_path_factory.mktemp("ranks"), files, corrupt)
    world = data.draw(st.integers(1, 3))
    uneven = data.draw(st.sampled_from(["wrap", "pad", "drop", "keep"]))
    options = {
        "batch_size": data.draw(st.integers(1, 20)),
        "shuffle": data.draw(st.booleans()),
        "shuffle_window": data.draw(st.integers(1, 60)),
        "seed": data.draw(st.integers(0, 9)),
        "uneven": uneven,
        "threads": data.draw(st.sampled_from([0, 2])),
    }
    limit = data.draw(st.sampled_from([None, rows // 2]))
    if limit is not None:
        options["limit"] = limit
    sound, _, _ = write_files(tmp_path_factory.mktemp("sound"), files, {})
    ids, real, sizes, planned, whole = [], [], set(), set(), []
    for rank in range(world):
        with dataset_of(sound, rank=rank, world_size=world, **options) as dataset:
            of_rank = [batch.clone() for batch in dataset]
            whole += ids_of(of_rank)
        with dataset_of(paths, rank=rank, world_size=world, **options) as dataset:
            try:
                batches = [batch.clone() for batch in dataset]
            except CorruptFileError as error:
                if "to replace unreadable rows" not in str(error):
                    raise
                return
            assert len(batches) == len(dataset)
            assert all(batch.rows == options["batch_size"] for batch in batches[:-1])
            assert_whole_rows(batches)
            ids += ids_of(batches)
            assert set(ids_of(batches)) <= set(ids_of(of_rank))
            for want, got in zip(ids_of(of_rank), ids_of(batches), strict=True):
                assert want in lost or want == got
            if uneven == "pad":
                real += real_ids(batches)
            sizes.add(len(batches))
            planned.add(sum(batch.rows for batch in batches))
    assert not lost & set(ids)
    readable = set(whole) - lost
    if uneven == "pad":
        assert sorted(real) == sorted(readable)
    assert set(ids) == readable
    assert len(set(range(rows)) - set(whole)) <= (
        rows % world if uneven == "drop" and limit is None else rows - (limit or rows) + world
    )
    if uneven != "keep":
        assert len(sizes) == len(planned) == 1


@pytest.mark.parametrize("options", [{"limit": 20}, {"world_size": 2, "rank": 1}])
def test_rows_of_the_rank_within_limit_stand_in(tmp_path, options):
    sound = write_groups(tmp_path / "sound.parquet", [10] * 4)
    bad = write_groups(tmp_path / "bad.parquet", [10] * 4)
    damage(bad, 1, "id")
    lost = set(range(10, 20))
    for seed in range(10):
        options = {"shuffle": True, "shuffle_window": 40, "seed": seed, **options}
        with dataset_of(sound, **options) as dataset:
            want = ids_of(dataset)
        for threads in (0, 2):
            with dataset_of(bad, threads=threads, **options) as dataset:
                batches = [batch.clone() for batch in dataset]
            assert_whole_rows(batches)
            got = ids_of(batches)
            assert [w for w in want if w in lost or w in got] == want
            assert [g if w in lost else w for w, g in zip(want, got, strict=True)] == got
            assert set(got) == set(want) - lost
            assert sorted(real_ids(batches)) == sorted(set(want) - lost)
        assert_resumes_exactly(partial(dataset_of, bad, **options), after=[0, 1])


def test_a_rank_without_readable_rows(tmp_path):
    """Row groups of other ranks do not stand in."""
    sound = write_groups(tmp_path / "sound.parquet", [20, 1, 20])
    bad = write_groups(tmp_path / "bad.parquet", [20, 1, 20])
    damage(bad, 0, "id")
    damage(bad, 2, "id")
    options = {"shuffle": True, "shuffle_window": 41, "world_size": 41, "uneven": "keep"}
    with_row = []
    for rank in range(41):
        with dataset_of(sound, rank=rank, **options) as dataset:
            readable = ids_of(dataset) == [20]
        with dataset_of(bad, rank=rank, **options) as dataset:
            if readable:
                with_row.append(ids_of(dataset))
                continue
            with pytest.raises(CorruptFileError, match=r"Expected readable rows of this rank"):
                ids_of(dataset)
    assert with_row == [[20]]


def test_everything_corrupt(tmp_path):
    paths, _, _ = write_files(tmp_path, [[10, 20], [30]], dict.fromkeys(range(3), "text"))
    for options in ({}, {"shuffle": True}, {"shuffle": True, "shuffle_window": 5}, {"threads": 0}):
        with dataset_of(paths, **options) as dataset:
            running = iter(dataset)
            for _ in range(2):
                with pytest.raises(CorruptFileError, match=r"Expected readable rows .*`text`"):
                    next(running)


def test_a_rank_takes_rows_of_its_other_windows(tmp_path, monkeypatch):
    monkeypatch.setattr(fastload.engine.budget, "_FIXED_STRIPE_BYTES", 1)
    paths, _, rows = write_files(tmp_path, [[8] * 12], dict.fromkeys(range(2, 12), "id"))
    for options in ({"workers": 2}, {"workers": 0}, {"workers": 0, "shuffle": True}):
        workers = options.pop("workers")
        with dataset_of(paths, shuffle_window=8, **options) as dataset:
            loader = DataLoader(dataset, batch_size=None, num_workers=workers)
            batches = [batch.clone() for batch in loader]
            assert len(dataset.skipped) == 10
        assert len(ids_of(batches)) == rows
        assert sorted(real_ids(batches)) == list(range(16))


def test_damage_in_the_middle_of_a_row_group(tmp_path, monkeypatch):
    """Of a row group that spans windows, those with the damage lose its rows."""
    monkeypatch.setattr(fastload.engine.budget, "_FIXED_STRIPE_BYTES", 1)
    path = write_groups(tmp_path / "a.parquet", [64, 64], data_page_size=64, write_batch_size=8)
    chunk = pq.ParquetFile(path, page_checksum_verification=False).metadata.row_group(0).column(0)
    pages = chunk.total_compressed_size // 8
    damage(path, 0, "id", at=5 * pages)
    with dataset_of(path) as dataset:
        batches = [batch.clone() for batch in dataset]
        assert [group for _, group, _ in dataset.skipped] == [0]
    real = real_ids(batches)
    assert real[:32] == list(range(32))
    assert real[-64:] == list(range(64, 128))
    assert len(real) < 128
    assert_resumes_exactly(partial(dataset_of, path))


@pytest.mark.parametrize("threads", [0, 2])
def test_other_errors_are_raised(tmp_path, threads):
    paths, _, _ = write_files(tmp_path)
    with dataset_of(paths, threads=threads) as dataset:
        os.truncate(paths[2], 40)
        with pytest.raises(SourceChangedError, match=r"part-2\.parquet"):
            list(dataset)
        assert paths[2] not in {path for path, _, _ in dataset.skipped}
    os.remove(paths[3])
    with pytest.raises(OSError, match=r"part-3\.parquet"):
        dataset_of(paths[3:])
    table = pq.read_table(paths[0], columns=["id"]).slice(0, 5)
    nulls = table.append_column("n", pc.if_else(pc.equal(table["id"], 3), None, table["id"]))
    pq.write_table(nulls, tmp_path / "nulls.parquet", write_statistics=False)
    with (
        pytest.raises(NullValueError),
        dataset_of(tmp_path / "nulls.parquet", columns=["n"]) as dataset,
    ):
        list(dataset)


def test_the_footer_is_not_skipped(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1" + b"\xff" * 40 + b"PAR1")
    with pytest.raises(CorruptFileError, match=r"a\.parquet"):
        dataset_of(path)


def test_filters(written):
    """A row group whose filter columns are corrupt has no row that stays."""
    paths, lost, rows = written
    for _ in range(2):  # what was found with damage is not kept
        with dataset_of(paths, filters=EVEN) as dataset:
            assert [(path, group) for path, group, _ in dataset.skipped] == [(paths[2], 0)]
            assert len(dataset) == -(-((rows - 25) // 2) // 8)
            loader = DataLoader(
                dataset, batch_size=None, num_workers=1, multiprocessing_context="spawn"
            )
            batches = [batch.clone() for batch in loader]
            assert len(batches) == len(dataset)
            assert len(dataset.skipped) == 3
        assert real_ids(batches) == [k for k in range(0, rows, 2) if k not in lost]
    with pytest.raises(CorruptFileError):
        FastParquetDataset(paths, filters=EVEN)


def test_one_warning(written):
    with dataset_of(written[0]) as dataset:
        with pytest.warns(UserWarning, match=r"Row group 1 of .*part-0.* is left out: .*`text`"):
            list(dataset)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            list(dataset)
        assert len(dataset.skipped) == 3


def rows_and_ids(paths, options):
    with dataset_of(paths, **options) as dataset:
        return dataset.num_rows, ids_of(list(dataset))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"uneven": "pad"}, "`__valid__` is False, replace its rows"),
        ({"uneven": "keep"}, r'come more than once \(uneven="pad" marks'),
        ({"uneven": "wrap"}, r'come more than once \(uneven="pad" marks'),
        ({"uneven": "keep", "filters": EVEN}, "`num_rows` does not count its rows"),
    ],
)
def test_the_warning_says_what_becomes_of_the_rows(written, options, says):
    paths, lost, rows = written
    with pytest.warns(UserWarning, match=says):
        num_rows, ids = rows_and_ids(paths, options)
    assert not lost & set(ids)
    assert len(ids) == num_rows == ((rows - 25) // 2 if "filters" in options else rows)
    assert len(ids) > len(set(ids))  # rows replace those that are found while reading


def test_a_warning_that_is_an_error_loses_nothing(written):
    with dataset_of(written[0]) as dataset:
        want = [batch.clone() for batch in dataset]
    got = []
    with dataset_of(written[0]) as dataset, warnings.catch_warnings():
        warnings.simplefilter("error")
        running = iter(dataset)
        while len(got) < len(want):
            try:
                got.append(next(running).clone())
            except UserWarning:
                assert not got
        assert_same_batches(got, want)


def test_on_error_is_checked(written):
    with pytest.raises(ValueError, match=r"Expected on_error to be 'raise' or 'skip', got 'no'"):
        FastParquetDataset(written[0], on_error="no")
    with FastParquetDataset(written[0]) as dataset:
        assert dataset.skipped == ()
        with pytest.raises(CorruptFileError):
            list(dataset)


def test_a_memory_budget_too_small(tmp_path):
    """Stripes decide what stands in, so they do not shrink with the budget."""
    path = write_groups(tmp_path / "a.parquet", [40_000])
    with pytest.raises(ValueError, match=r"Expected a memory_budget of at least \d+ bytes for"):
        dataset_of(path, memory_budget="1MB")
    with dataset_of(path, memory_budget="32MB") as dataset:
        assert np.array(ids_of(dataset)).tolist() == list(range(40_000))


@pytest.mark.parametrize("shuffle", [False, True])
def test_sources_of_a_mix(written, shuffle, tmp_path):
    paths, lost, total = written
    whole, _, others = write_files(tmp_path, corrupt={})

    def make(**options):
        options = {"shuffle": shuffle, **options}
        sources = {"bad": dataset_of(paths, **options), "good": dataset_of(whole, **options)}
        return fastload.mix(sources, seed=3, stop="all")

    with make() as mixed:
        for _ in range(3):  # the later ones are prepared while the one before ends
            batches = list(mixed)
            assert len(batches) == len(mixed) == -(-total // 8) + -(-others // 8)
            assert_whole_rows(batches)
            bad = [batch for batch in batches if batch.source == "bad"]
            good = [batch for batch in batches if batch.source == "good"]
            assert sorted(real_ids(bad)) == sorted(set(range(total)) - lost)
            assert sorted(real_ids(good)) == list(range(others))
    # What is readable comes once, wherever the run was resumed.
    for after in (1, 17, len(batches) - 1):
        with make() as first, make() as second:
            head = list(itertools.islice(first, after))
            second.load_state_dict(first.state_dict(after=head[-1]))
            rest = list(second)
            assert len(head) + len(rest) == len(batches)
            bad = [batch for batch in head + rest if batch.source == "bad"]
            assert sorted(real_ids(bad)) == sorted(set(range(total)) - lost)
