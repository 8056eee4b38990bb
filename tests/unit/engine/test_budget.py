"""How memory_budget is read and divided."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastload import FastParquetDataset
from fastload.engine.budget import WorkUnits, divide_budget, resolve_window
from fastload.runtime.units import parse_bytes


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        (1, 1),
        ("4GB", 4 * 10**9),
        ("4 gib", 4 * 2**30),
        ("1.5MB", 1_500_000),
        ("2k", 2000),
        ("7", 7),
        (" 3 TiB ", 3 * 2**40),
    ],
)
def test_sizes(size, wanted):
    assert parse_bytes(size) == wanted


@pytest.mark.parametrize("size", ["", "GB", "4 XB", "-1GB", "1e9", "4GBB", 0, -5, "0MB", "0.1"])
def test_no_sizes(size):
    with pytest.raises(ValueError, match="memory_budget"):
        parse_bytes(size)


@pytest.mark.parametrize("size", [None, 1.5, True, b"4GB", [4]])
def test_sizes_of_another_type(size):
    with pytest.raises(TypeError, match="memory_budget"):
        parse_bytes(size)


def test_default_window():
    assert resolve_window(7, 10**9) == 7
    assert resolve_window(None, 8) == 2**19
    assert resolve_window(None, 2**20) == 512
    assert resolve_window(None, 2**40) == 1


datasets = st.fixed_dictionaries(
    {
        "batch_size": st.integers(1, 100_000),
        "row_bytes": st.integers(1, 10_000),
        "staged_row_bytes": st.integers(0, 1000),
        "total_rows": st.integers(0, 10**9),
        "shuffle_window": st.none() | st.integers(1, 10**7),
        "columns": st.integers(0, 500),
        "work": st.builds(
            WorkUnits, st.integers(1, 500), st.booleans(), st.sampled_from([0, 8, 24, 64])
        ),
        "threads": st.integers(0, 256),
        "prefetch": st.integers(0, 50),
        "buffers": st.sampled_from([1, 1, 8]),
    }
)


@given(st.integers(1, 2**40), datasets)
def test_parts_keep_to_the_whole(memory_budget, dataset):
    try:
        parts = divide_budget(memory_budget, **dataset)
    except ValueError as error:
        assert_advice_holds(memory_budget, dataset, str(error))
        return
    assert parts.stripe_rows % dataset["batch_size"] == 0
    assert parts.stripe_rows >= dataset["batch_size"]
    assert parts.open_windows >= 1
    assert min(1, dataset["threads"]) <= parts.threads <= dataset["threads"]
    assert parts.window_bytes + scratch_of(parts, dataset) <= memory_budget
    batches = 4 * max(4096, dataset["batch_size"] * dataset["row_bytes"])
    # The least that a pass can do with may go past a budget that is just enough for windows.
    least = parts.window_bytes + max(64 << 10, memory_budget // 16) + batches
    assert parts.window_bytes + parts.fetch_bytes + parts.lend_bytes <= max(memory_budget, least)
    assert parts.lend_bytes >= batches
    assert 0 < parts.segment_bytes <= parts.fetch_bytes


def scratch_of(parts, dataset):
    """Bytes that all threads have for the rows of a window."""
    if dataset["shuffle_window"] is None:
        return 0
    windows = max(1, dataset["total_rows"] // dataset["shuffle_window"])
    rows = -(-dataset["total_rows"] // windows)
    return max(1, parts.threads) * rows * dataset["work"].scratch_row_bytes


def assert_advice_holds(memory_budget, dataset, sentence):
    needed = int(sentence.split("at least ")[1].split()[0])
    assert needed > memory_budget
    divide_budget(needed, **dataset)
    if "largest" not in sentence:
        assert "not even a batch" in sentence
        return
    name, fits = sentence.split("the largest ")[1].split(" that fits is ")
    if int(fits):
        dataset = {**dataset, name: int(fits)}
        divide_budget(memory_budget, **dataset)


@given(st.integers(1, 2**30), datasets, st.integers(1, 50))
def test_window_that_fits_is_the_largest(memory_budget, dataset, rows):
    """Found by trying all of them, on a small dataset."""
    dataset = {**dataset, "total_rows": rows, "batch_size": 1}

    def fits(window):
        try:
            divide_budget(memory_budget, **{**dataset, "shuffle_window": window})
        except ValueError as error:
            return str(error)
        return None

    refusals = {window: fits(window) for window in range(1, rows + 1)}
    for refusal in filter(None, refusals.values()):
        if "largest" in refusal:
            window = int(refusal.rsplit(" ", 1)[1])
            assert refusals[window] is None


@pytest.mark.parametrize(
    ("memory_budget", "row_group_rows", "stripe_rows"),
    [
        # Of 4 KB: an eighth of the budget has room for 7,812 rows, a sixth for 10,416.
        ("256MB", 0, 7_000),
        ("256MB", 16_000, 8_000),
        ("256MB", 3_000, 9_000),
        ("256MB", 4_000, 8_000),
        ("256MB", 32_500, 7_000),  # whose ends no batch shares
        ("256MB", 11_000, 7_000),  # 1,000 rows would be few
        ("4GB", 64_000, 32_000),
    ],
)
def test_stripes_end_where_row_groups_do(memory_budget, row_group_rows, stripe_rows):
    divided = divide_budget(
        parse_bytes(memory_budget),
        batch_size=1000,
        row_bytes=4096,
        staged_row_bytes=0,
        total_rows=10**6,
        shuffle_window=None,
        columns=10,
        work=WorkUnits(10, shared=False, scratch_row_bytes=24),
        threads=2,
        prefetch=4,
        row_group_rows=row_group_rows,
    )
    assert divided.stripe_rows == stripe_rows


@given(st.integers(2**20, 2**34), datasets)
def test_what_is_read_once_needs_no_more_than_it_has(memory_budget, dataset):
    dataset = {**dataset, "shuffle_window": None, "total_rows": dataset["total_rows"] % 10**5}
    try:
        usual = divide_budget(memory_budget, **dataset)
    except ValueError:
        return
    parts = divide_budget(memory_budget, **dataset, once=True)
    batches = max(1, -(-dataset["total_rows"] // dataset["batch_size"]))
    assert parts.stripe_rows == usual.stripe_rows
    assert parts.open_windows <= min(usual.open_windows, batches)
    assert parts.window_bytes <= usual.window_bytes
    assert parts.fetch_bytes >= usual.fetch_bytes
    batch_bytes = dataset["batch_size"] * dataset["row_bytes"]
    assert parts.lend_bytes >= min(4, batches) * batch_bytes


def test_one_batch_read_once_leaves_the_rest_for_reading():
    parts = divide_budget(
        4_000,
        batch_size=10,
        row_bytes=100,
        staged_row_bytes=0,
        total_rows=10,
        shuffle_window=None,
        columns=3,
        work=WorkUnits(3, shared=False, scratch_row_bytes=24),
        threads=2,
        prefetch=1,
        once=True,
    )
    assert (parts.open_windows, parts.window_bytes) == (1, 1_000)


@given(st.integers(2**25, 2**40), st.integers(2**25, 2**40), datasets, datasets)
def test_fixed_stripes_depend_on_the_data_alone(budget_bytes, other_bytes, dataset, other):
    """Not on the budget, threads and prefetch; nor are they longer than all rows."""
    data = {**dataset, "shuffle_window": None, "batch_size": dataset["batch_size"] % 100 + 1}
    machine = {name: other[name] for name in ("columns", "work", "threads", "prefetch")}
    stripes = set()
    for size, options in ((budget_bytes, data), (other_bytes, {**data, **machine})):
        try:
            stripes.add(divide_budget(size, **options, fixed_stripes=True).stripe_rows)
        except ValueError:
            continue
    assert len(stripes) <= 1
    assert all(rows < max(1, data["total_rows"]) + data["batch_size"] for rows in stripes)


# Two windows of the click log, of which each of the many threads wants 12.6 MB.
SHUFFLED = {
    "batch_size": 4096,
    "row_bytes": 264,
    "staged_row_bytes": 0,
    "total_rows": 10**8,
    "shuffle_window": 2**19,
    "columns": 40,
    "work": WorkUnits(40, shared=False, scratch_row_bytes=24),
    "prefetch": 4,
}


@given(st.integers(1, 2**34), datasets, st.integers(0, 1024))
def test_a_machine_of_many_cores_refuses_what_a_small_one_does(memory_budget, dataset, threads):
    dataset = {**dataset, "shuffle_window": dataset["shuffle_window"] or 1000}

    def refusal(threads):
        try:
            divide_budget(memory_budget, **{**dataset, "threads": threads})
        except ValueError as error:
            return str(error)
        return None

    assert refusal(threads) == refusal(1)


@pytest.mark.parametrize(
    ("memory_budget", "cores", "threads", "windows"),
    [
        ("4GB", 2, 2, 2),
        ("4GB", 48, 48, 3),
        ("4GB", 208, 132, 3),
        ("500MB", 26, 7, 2),
        ("350MB", 208, 1, 2),
        ("300MB", 208, 1, 2),
    ],
)
def test_threads_have_memory_for_their_scratch(memory_budget, cores, threads, windows):
    parts = divide_budget(parse_bytes(memory_budget), **SHUFFLED, threads=cores)
    assert (parts.threads, parts.open_windows) == (threads, windows)


@pytest.mark.parametrize(
    ("memory_budget", "cores", "threads", "windows"),
    [
        ("4GB", 2, 2, 2),
        ("400MB", 2, 2, 2),
        ("320MB", 2, 2, 2),
        ("250MB", 2, 2, 1),
        ("4GB", 16, 16, 2),
        ("500MB", 16, 15, 2),
        ("420MB", 16, 9, 2),
        ("400MB", 16, 8, 2),
        ("390MB", 16, 9, 1),
    ],
)
def test_an_epoch_of_one_window_has_room_for_the_next_one(memory_budget, cores, threads, windows):
    dataset = {**SHUFFLED, "total_rows": 2**19, "threads": cores}
    parts = divide_budget(parse_bytes(memory_budget), **dataset)
    assert (parts.open_windows, parts.threads) == (windows, threads)
    assert parts.window_bytes == windows * 2**19 * 264 + 4096 * 264


@pytest.mark.parametrize("units", [1, 3, 40])
@pytest.mark.parametrize("threads", [1, 2, 16, 96])
@pytest.mark.parametrize("shuffle_window", [None, 2**17])
def test_windows_have_work_for_all_threads(units, threads, shuffle_window):
    work = WorkUnits(units, shared=False, scratch_row_bytes=24)
    dataset = {**SHUFFLED, "row_bytes": 8, "shuffle_window": shuffle_window, "work": work}
    parts = divide_budget(parse_bytes("4GB"), **dataset, threads=threads)
    assert parts.threads == threads
    # One of them may wait for the consumer.
    assert (parts.open_windows - 1) * units >= threads
    tight = divide_budget(parse_bytes("64MB"), **dataset, threads=threads)
    assert 2 <= tight.open_windows <= parts.open_windows


@pytest.mark.parametrize(("window", "windows"), [(2**12, 4), (2**16, 4), (80_000, 3), (2**17, 2)])
def test_small_windows_are_four_where_these_take_little(window, windows):
    dataset = {**SHUFFLED, "shuffle_window": window, "row_bytes": 200, "staged_row_bytes": 0}
    parts = divide_budget(parse_bytes("4GB"), **dataset, threads=2)
    assert parts.open_windows == windows
    if windows > 2:
        assert parts.window_bytes <= parse_bytes("4GB") // 64


@pytest.mark.parametrize(("lanes", "windows"), [(1, 4), (8, 32), (32, 128), (48, 96), (64, 128)])
def test_slices_have_more_windows_where_the_rank_delivers_few_of_them(lanes, windows):
    parts = divide_budget(parse_bytes("4GB"), **SHUFFLED, threads=2, slices=64)
    assert parts.open_windows_of(lanes) == windows
    # A window of a slice has a 64th of the rows.
    assert windows <= parts.open_windows * 64


def test_slices_in_order_have_as_many_windows_as_one():
    dataset = {**SHUFFLED, "shuffle_window": None}
    parts = divide_budget(parse_bytes("64MB"), **dataset, threads=2, slices=64)
    assert parts.open_windows_of(8) == parts.open_windows * 8


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "options", [{"prefetch": 2**63 - 1}, {"threads": 10**9}, {"threads": 2**31}]
)
@pytest.mark.parametrize("shuffle", [False, True])
def test_huge_numbers_stall_no_construction(tmp_path, options, shuffle):
    pq.write_table(pa.table({"x": range(1000)}), tmp_path / "a.parquet", row_group_size=100)
    FastParquetDataset(tmp_path, batch_size=10, shuffle=shuffle, **options).close()


def kept_by(memory_budget, **options):
    options = {
        "batch_size": 1024,
        "row_bytes": 200,
        "staged_row_bytes": 0,
        "total_rows": 10**7,
        "shuffle_window": 2**19,
        "columns": 40,
        "work": WorkUnits(40, False, 24),
        "threads": 2,
        "prefetch": 4,
        **options,
    }
    return divide_budget(memory_budget, **options)


@pytest.mark.parametrize("window", [None, 2**19])
def test_kept_pages_take_what_the_rest_leaves(window):
    memory = 4 * 10**9
    budget = kept_by(memory, shuffle_window=window)
    others = budget.window_bytes + 2 * budget.fetch_bytes + budget.least_lent_bytes
    assert memory // 2 < budget.kept_bytes <= memory - others
    assert budget.least_lent_bytes < budget.lend_bytes
    assert kept_by(memory, shuffle_window=window, once=True).kept_bytes == 0


def test_reads_leave_most_of_the_rest_to_kept_pages():
    # As one of eight workers has of 4 GB.
    budget = kept_by(512 * 10**6)
    assert budget.fetch_bytes >= 64 << 20
    assert budget.kept_bytes > budget.fetch_bytes


def test_a_small_budget_keeps_no_pages():
    assert kept_by(300 * 10**6).kept_bytes == 0
