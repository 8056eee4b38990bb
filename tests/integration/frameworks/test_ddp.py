"""DistributedDataParallel on gloo: three ranks of torchrun, then two that go on."""

import pytest

from launching import reports_of, rows_of, run_script
from support.sample_files import write_sample

ROWS = 1000  # 334, 333 and 333 rows: in batches of 37 one rank has a batch more


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    directory = tmp_path_factory.mktemp("ddp")
    path = write_sample(directory / "sample.parquet", ROWS)
    run_script("ddp_run.py", path, directory, torchrun=3)
    return reports_of(directory, 3)


def test_as_many_batches_on_every_rank(ranks):
    for uneven, batches in (("wrap", 10), ("drop", 9), ("pad", 10)):
        assert [len(report[uneven]) for report in ranks] == [batches] * 3
    assert set(rows_of(ranks, "wrap")) == set(range(ROWS))
    assert len(rows_of(ranks, "wrap")) == ROWS + 2
    dropped = rows_of(ranks, "drop")
    assert len(dropped) == len(set(dropped)) == ROWS - 1
    assert rows_of(ranks, "pad") == list(range(ROWS))


def test_uneven_batches_in_join(ranks):
    assert [len(report["keep"]) for report in ranks] == [10, 9, 9]
    assert rows_of(ranks, "keep") == list(range(ROWS))
    assert {report["sum"] for report in ranks} == {sum(range(ROWS))}


def test_two_ranks_go_on_with_the_rows_that_are_left(ranks):
    assert all(report["state"] == ranks[0]["state"] for report in ranks)
    stopped, resumed = rows_of(ranks, "stopped"), rows_of(ranks[:2], "resumed")
    assert len(stopped) == 3 * 4 * 37
    assert set(stopped) | set(resumed) == set(range(ROWS))
    # Nothing again but for what "wrap" repeats.
    assert len(stopped) + len(resumed) <= ROWS + 2
    assert rows_of(ranks[:2], "following") == list(range(ROWS))
