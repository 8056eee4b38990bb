"""Datasets that are packed, or have a budget of tokens: all that users do with them."""

import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

from fastload import Cache, DevicePrefetcher, FastParquetDataset, Pack, TokenBudget, mix
from fastload.errors import CacheError, NullValueError
from fastload.runtime.native import core
from fastload.testing import assert_ranks_agree, assert_resumes_exactly, assert_same_batches
from support.stored_dataset import served
from support.token_files import write_documents

LENGTH = 16
LENGTHS = np.random.default_rng(7).integers(0, 20, 300).tolist()
TOKENS = sum(LENGTHS)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("packed") / "documents.parquet"
    write_documents(path, LENGTHS, group_rows=37)
    return path


def packed(path, **options):
    options = {"pack": Pack("t", LENGTH, along=["l"]), "batch_size": 4, **options}
    return FastParquetDataset(path, memory_budget="64MB", **options)


def budgeted(path, **options):
    options = {"batch_size": TokenBudget("t", 100), "columns": ["t", "l"], **options}
    return FastParquetDataset(path, memory_budget="64MB", **options)


def test_short_documents_need_little_memory_for_long_rows(tmp_path):
    """A window's memory is that of the tokens, not a packed row for each document."""
    path = tmp_path / "documents.parquet"
    write_documents(path, [10] * 4000, group_rows=500)
    dataset = FastParquetDataset(
        path,
        pack=Pack("t", 8192, along=["l"]),
        batch_size=1,
        shuffle=True,
        memory_budget="48MB",
    )
    with dataset:
        assert [batch["t"].shape for batch in dataset] == [(1, 8192)] * 5


@pytest.mark.parametrize(
    "options",
    [
        {"pack": Pack("t", 256), "batch_size": 1},
        {"pack": Pack("t", 256, fit="split"), "batch_size": 1},
        {"batch_size": TokenBudget("t", 256, padded=True)},
    ],
)
def test_windows_in_order_count_in_the_budget(tmp_path, options):
    """Without shuffle too, the documents of a window are in memory together."""
    path = tmp_path / "documents.parquet"
    write_documents(path, [64] * 20_000, group_rows=1000)
    budget = 8 << 20

    def made(**window):
        return FastParquetDataset(path, memory_budget=budget, threads=1, **options, **window)

    with pytest.raises(ValueError, match="the largest shuffle_window that fits is") as refused:
        made()
    with made(shuffle_window=int(str(refused.value).split()[-1])) as dataset:
        assert sum(1 for _ in dataset) >= 20_000 * 64 // 256
        memory = dataset.stats().memory
    # Spare memory is that of datasets of other tests.
    assert memory.total - memory.spare < budget


@pytest.mark.parametrize("fit", ["best", "split"])
@pytest.mark.parametrize(("length", "documents"), [(8, 40_000), (400, 800)])
def test_small_packed_rows_keep_to_the_budget(tmp_path, fit, length, documents):
    """One buffer for each batch of one row would take 4 KiB: 80 MB."""
    path = tmp_path / "documents.parquet"
    write_documents(path, [length] * documents, group_rows=documents // 8)
    columns = {"pack": Pack("t", 16, fit=fit, along=["l"]), "shuffle": True, "provenance": True}
    budget, held, rows = 24 << 20, 0, []
    with FastParquetDataset(
        path, **columns, batch_size=1, threads=2, memory_budget=budget
    ) as dataset:
        for batch in dataset:
            held = max(held, dataset._engine.pipeline.memory[2])
            rows.append(batch.clone())
    assert held < budget
    with FastParquetDataset(path, **columns, batch_size=1000) as dataset:
        whole = list(dataset)
    for name in ("t", "l", "t__document", "t__position", "__file__", "__row__", "__offset__"):
        got = torch.cat([batch[name] for batch in rows])
        assert torch.equal(got, torch.cat([batch[name] for batch in whole]))
    for batch in rows[::100]:
        lengths = batch["t__cu_seqlens"].diff()
        assert lengths.sum() == 16
        assert batch["t__max_seqlen"] == lengths.max()


@pytest.fixture
def packing_threads(monkeypatch):
    """Lets any number of documents be packed ahead; the threads that packed, by name."""
    threads = []
    monkeypatch.setattr("fastload.plan.units.windows._MANY_ROWS", 1)
    monkeypatch.setattr("fastload.rows.values.tokens.core", WatchedCore(threads))
    return threads


class WatchedCore:
    """The core, with notes of the threads that pack or form batches."""

    def __init__(self, threads):
        self.threads = threads

    def __getattr__(self, name):
        function = getattr(core, name)
        if name not in ("pack_windows", "batch_windows"):
            return function

        def watched(*arguments):
            self.threads.append(threading.current_thread().name.partition("_")[0])
            return function(*arguments)

        return watched


@pytest.mark.parametrize("kind", ["plain", "slices", "mix", "budget", "padded"])
def test_documents_of_the_next_epoch_are_packed_meanwhile(path, packing_threads, kind):
    way = {"batch_size": 4, "pack": Pack("t", LENGTH)}
    if kind == "slices":
        way |= {"global_batch_size": 8, "canonical_ranks": 4, "rank": 0, "world_size": 1}
        del way["batch_size"]
    if kind in ("budget", "padded"):
        way = {"batch_size": TokenBudget("t", 100, padded=kind == "padded")}

    def opened(threads=2):
        dataset = FastParquetDataset(path, shuffle=True, shuffle_window=90, threads=threads, **way)
        return mix({"a": dataset}) if kind == "mix" else dataset

    expected = []
    for epoch in range(5):
        with opened(threads=0) as dataset:
            dataset.set_epoch(epoch)
            expected.append(copies(dataset))
    assert "fastload-plan" not in packing_threads  # without threads, nothing looks ahead
    packing_threads.clear()
    with opened() as dataset:
        for epoch in (0, 1, 2, 4):
            if epoch == 4:
                dataset.set_epoch(4)  # epoch 3 was expected
            assert_same_batches(copies(dataset), expected[epoch])
    assert packing_threads.count("fastload-plan") >= 3  # in the passes of epochs 0, 1 and 2
    for thread in threading.enumerate():
        if thread.name.startswith("fastload-plan"):
            thread.join(60)
            assert not thread.is_alive()  # close() ends the thread


def copies(batches):
    return [batch.clone() for batch in batches]


@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("make", [packed, budgeted])
def test_workers_deliver_the_batches_of_a_process(path, make, context):
    dataset = make(path, shuffle=True, shuffle_window=90)
    whole = copies(dataset)
    with DataWorkers(make(path, shuffle=True, shuffle_window=90), context) as loader:
        delivered = copies(loader)
    share = -(-len(whole) // 2)
    in_turn = [b for pair in zip(whole[:share], whole[share:], strict=False) for b in pair]
    in_turn += whole[share - 1 : share] if len(whole) % 2 else []
    assert len(delivered) == len(whole)
    assert_same_batches(delivered, in_turn)
    for batch in delivered:
        if make is packed:
            assert batch["t__max_seqlen"].shape == ()
            assert batch["t__cu_seqlens"][-1] == batch["t"].numel()


class DataWorkers:
    """A DataLoader of two workers."""

    def __init__(self, dataset, context):
        self.loader = DataLoader(
            dataset, batch_size=None, num_workers=2, multiprocessing_context=context, timeout=60
        )

    def __enter__(self):
        return self.loader

    def __exit__(self, *_):
        self.loader.dataset.close()


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("workers", [0, 1])
def test_batches_go_to_a_device(path, workers, device):
    whole = copies(packed(path))
    loader = DataLoader(packed(path), batch_size=None, num_workers=workers)
    prefetcher = DevicePrefetcher(loader, device)
    moved = list(prefetcher)
    assert len(moved) == len(whole)
    for batch, expected in zip(moved, whole, strict=True):
        assert {name: v.shape for name, v in batch.items()} == {
            name: v.shape for name, v in expected.items()
        }
        assert {value.device.type for value in batch.values()} == {device}
    state = prefetcher.state_dict()
    assert packed(path).load_state_dict(state) is None


def test_slices_of_a_batch_are_batches_of_fewer_rows(path):
    ones = copies(packed(path, batch_size=1))
    parts = [batch.slice(row, row + 1) for batch in packed(path) for row in range(batch.rows)]
    assert len(parts) == len(ones)
    for part, one in zip(parts, ones, strict=True):
        for name, value in one.items():
            assert torch.equal(part[name], value), name


def test_schema_and_print_tell_the_shapes(path):
    dataset = packed(path)
    text = repr(dataset)
    assert "of 4 packed rows of 16 tokens" in text
    shapes = [line.split(maxsplit=2) for line in dataset.schema.lines]
    assert shapes[-2:] == [
        ["t__cu_seqlens", "int32", "(documents + 1,)"],
        ["t__max_seqlen", "int32", "()"],
    ]
    assert "(documents + 1,)" in dataset._repr_html_()
    limits = TokenBudget("t", 100, padded=True, max_rows=1)
    text = repr(budgeted(path, batch_size=limits))
    assert "of at most 100 tokens, padding included, and 1 row of t" in text


def test_the_text_of_the_rows_by_index_tells_of_documents(path):
    dataset = packed(path, provenance=True)
    rows = dataset.by_index()
    text = repr(rows)
    assert "packed rows" not in text
    assert "batches  of documents, not packed" in text
    assert "Ragged, lists" in text
    shown = [line.split()[0] for line in text.splitlines() if line.startswith("    ")]
    assert shown == list(rows[[0, 1]])


@pytest.mark.parametrize("make", [packed, budgeted])
def test_head_gives_documents(path, make):
    dataset = make(path)
    batch = dataset.head(3)
    assert batch["t"].lengths.tolist() == LENGTHS[:3]
    assert not [name for name in batch if "seqlen" in name]
    assert len(copies(dataset)) == len(dataset)


@pytest.mark.parametrize("uneven", ["wrap", "drop", "pad", "keep"])
def test_ranks_agree_on_batches_of_tokens(path, uneven):
    def make(**rank):
        return budgeted(path, shuffle=True, shuffle_window=60, uneven=uneven, **rank)

    assert_ranks_agree(make, (3, 2, 5), uneven=uneven)


@pytest.mark.parametrize("make", [packed, budgeted])
@pytest.mark.parametrize("options", [{}, {"provenance": True, "uneven": "pad", "shuffle": True}])
def test_rows_by_number_are_documents(path, make, options):
    documents = pq.read_table(path)
    with make(path, **options) as dataset:
        batch = dataset.take([5, -1, 5])
        last = len(LENGTHS) - 1
        for name in ("t", "l"):
            assert batch[name].tolist() == documents[name].take([5, last, 5]).to_pylist()
        assert not [name for name in batch if "document" in name or "seqlen" in name]
        rows = dataset.by_index()
        assert len(rows) == len(LENGTHS)
        assert rows[7]["t"].tolist() == documents["t"][7].as_py()
        assert dataset.take([]).rows == 0
        assert len(copies(dataset)) == len(dataset)


@pytest.mark.parametrize("make", [packed, budgeted])
def test_a_trace_has_the_stages(path, make):
    with make(path) as dataset, dataset.trace() as trace:
        copies(dataset)
    assert {"stage", "fill", "wait"} <= {span.stage for span in trace.spans}


@pytest.mark.parametrize("fit", ["best", "split"])
def test_all_threads_decode_a_window_of_one_column(path, fit):
    dataset = packed(path, pack=Pack("t", LENGTH, fit=fit), threads=2)
    with dataset, dataset.trace() as trace:
        copies(dataset)
    assert sum((span.stage, span.index) == ("stage", 0) for span in trace.spans) >= 2


@pytest.mark.parametrize(("long", "kept"), [("split", None), ("truncate", LENGTH), ("drop", 0)])
def test_stats_count_long_documents(path, long, kept):
    longer = [length for length in LENGTHS if length > LENGTH]
    with packed(path, pack=Pack("t", LENGTH, long=long)) as dataset:
        batches = copies(dataset)
        documents = dataset.stats().documents
    counts = {"split": documents.split, "truncate": documents.truncated, "drop": documents.dropped}
    assert counts == {"split": 0, "truncate": 0, "drop": 0, long: len(longer)}
    lost = 0 if kept is None else sum(longer) - kept * len(longer)
    assert sum(int((b["t__document"] >= 0).sum()) for b in batches) == TOKENS - lost
    assert budgeted(path).stats().documents == type(documents)()


@pytest.mark.parametrize("fit", ["best", "split"])
def test_ranks_decode_their_own_documents_of_a_window(tmp_path, fit):
    lengths = np.random.default_rng(1).integers(0, 300, 200).tolist()
    documents = write_documents(tmp_path / "a.parquet", lengths, group_rows=37)
    pack = Pack("t", 512, fit=fit, along=["l"])
    options = {"pack": pack, "batch_size": 1, "shuffle": True, "world_size": 5, "uneven": "keep"}
    seen = []
    for rank in range(5):
        with packed(tmp_path / "a.parquet", **options, rank=rank) as dataset:
            for batch in dataset:
                inside = batch["t__document"] >= 0
                assert torch.equal(batch["l"], -batch["t"])
                seen += batch["t"][inside].tolist()
            # Of two columns. A document may be in packed rows of two ranks.
            assert dataset.stats().decode.rows < 2 * len(lengths) / 2
    assert sorted(seen) == [token for document in documents for token in document]


def test_stats_count_the_documents_of_the_epoch(path):
    options = {"limit": 120, "shuffle": True, "shuffle_window": 50, "columns": ["t"]}
    spec = Pack("t", LENGTH, long="drop")
    dataset = packed(path, pack=spec, **options)
    rows = FastParquetDataset(path, batch_size=64, **options)
    for _ in range(2):
        lengths = [n for batch in rows for n in batch["t"].lengths.tolist()]
        iterator = iter(dataset)
        next(iterator)
        assert dataset.stats().documents.dropped == sum(n > LENGTH for n in lengths)
        for _ in iterator:
            pass


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("make", [packed, budgeted])
def test_a_cache_changes_no_batch(path, make, shuffle, tmp_path):
    options = {"shuffle": shuffle, "shuffle_window": 90}
    dataset, plain = make(path, cache=Cache(tmp_path), **options), make(path, **options)
    for _ in range(2):
        assert_same_batches(copies(dataset), copies(plain))


@pytest.mark.parametrize("make", [packed, budgeted])
def test_warming_reads_all_documents_of_a_store(path, make, tmp_path):
    with served([path]) as server:
        options = {"storage_options": server.options, "rank": 0, "world_size": 2}
        url = "gs://bucket/train/*.parquet"
        with make(url, cache=Cache(tmp_path), **options) as dataset:
            dataset.warm_cache(False)
            server.reset()
            batches = copies(dataset)
            assert not [request for request in server.requests if request.range is not None]
        assert_same_batches(batches, copies(make(path, rank=0, world_size=2)))


@pytest.mark.parametrize("make", [packed, budgeted])
def test_users_checks_of_their_datasets_hold(path, make):
    options = {"shuffle": True, "shuffle_window": 60}
    assert_resumes_exactly(lambda: make(path, **options), after=[1, 7])
    with pytest.raises(AssertionError, match="at batch 0"):
        assert_same_batches(make(path), make(path, **options))


def test_ranks_agree_on_packed_rows(path):
    assert_ranks_agree(lambda **rank: packed(path, shuffle=True, shuffle_window=60, **rank))


def test_a_null_list_is_told_with_what_pack_takes(tmp_path):
    documents, other = str(tmp_path / "documents.parquet"), str(tmp_path / "other.parquet")
    pq.write_table(pa.table({"t": [[1, 2], None, [3]]}), documents)
    pq.write_table(pa.table({"other": [[1, 2]]}), other)
    advice = r'; with Pack, fill= or nulls="zero"\) - at .*'
    for files, place in (([documents], "row 1$"), ([documents, other], "no value for column `t`$")):
        with pytest.raises(NullValueError, match=f"{advice}{place}"):
            FastParquetDataset(files, pack=Pack("t", 4), batch_size=1)


def test_a_list_along_of_another_length_is_told_with_its_row(tmp_path):
    path = tmp_path / "documents.parquet"
    tokens, labels = [[1]] * 100, [[1]] * 100
    labels[77] = [1, 2]
    table = pa.table({"t": tokens, "l": labels, "number": range(100)})
    pq.write_table(table, path, row_group_size=40)
    for filters in (None, ("number", ">", 75)):
        dataset = packed(path, filters=filters)
        with pytest.raises(ValueError, match=r"list of 1 elements, .* got 2 - at .* `l`, row 77$"):
            list(dataset)


@pytest.mark.parametrize("make", [packed, budgeted])
def test_a_rank_and_a_worker_may_have_no_batch(tmp_path, make):
    path = tmp_path / "one.parquet"
    write_documents(path, [5])
    options = {"uneven": "keep", "world_size": 2}
    assert [len(copies(make(path, rank=rank, **options))) for rank in range(2)] == [1, 0]
    loader = DataLoader(make(path), batch_size=None, num_workers=2)
    assert [
        batch["t"].values.tolist() if make is budgeted else batch["t"][0, :5].tolist()
        for batch in loader
    ] == [[0, 1, 2, 3, 4]]
    write_documents(path, [0, 0])
    assert copies(packed(path)) == []


def test_same_batches_have_the_same_edges(path):
    one, other = (next(iter(packed(path))).clone() for _ in range(2))
    other["t__cu_seqlens"][1] += 1
    with pytest.raises(AssertionError, match="output `t__cu_seqlens`"):
        assert_same_batches([one], [other])


def test_batches_whose_tokens_int32_does_not_count_are_refused(path):
    """`__cu_seqlens` ends with the number of the batch's tokens."""
    options = {"pack": Pack("t", 2**20), "memory_budget": "1TB"}
    with pytest.raises(ValueError, match=r"less than 2\*\*31 tokens .* got 2048 rows of 1048576"):
        FastParquetDataset(path, batch_size=2048, **options)
    FastParquetDataset(path, batch_size=2047, **options)
    ranks = {"rank": 0, "world_size": 4}
    with pytest.raises(ValueError, match="got 2048 rows"):
        FastParquetDataset(path, global_batch_size=8192, **ranks, **options)


def test_warming_of_local_files_is_refused(path, tmp_path):
    with pytest.raises(CacheError, match="got local files alone"):
        packed(path, cache=Cache(tmp_path)).warm_cache(False)


@pytest.mark.parametrize(
    ("make", "options", "matters"),
    [
        (packed, {}, True),
        (packed, {"pack": Pack("t", LENGTH, fit="split")}, False),
        (budgeted, {}, True),
    ],
)
def test_a_resume_with_another_window(path, make, options, matters):
    """Without shuffle too, a window decides what is packed together, unless documents are cut."""
    with make(path, shuffle_window=40, **options) as dataset:
        rows = [dataset.rows_of(step)["row"].tolist() for step in range(9)]
        state = dataset.state_dict(after=next(iter(dataset)))
    with make(path, shuffle_window=90, **options) as other:
        assert (rows != [other.rows_of(step)["row"].tolist() for step in range(9)]) == matters
        if matters:
            with pytest.raises(ValueError, match="Expected shuffle_window=40"):
                other.load_state_dict(state)
        else:
            other.load_state_dict(state)


def test_a_long_name_of_the_column_keeps_a_state_small(tmp_path):
    lists = pa.array([[1, 2], [3]], pa.list_(pa.int64()))
    pq.write_table(pa.table({"c" * 5000: lists}), tmp_path / "a.parquet")
    columns = {"t": "c" * 5000}
    with packed(tmp_path, pack=Pack("t", LENGTH), columns=columns) as dataset:
        state = dataset.state_dict()
        assert len(str(state)) < 1000
        dataset.load_state_dict(state)
