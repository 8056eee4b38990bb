"""shuffle_quality against plain numpy on what is delivered, and label counts against chance."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import FastParquetDataset, mix
from fastload.testing import shuffle_quality
from fastload.testing.quality import order_quality
from support.sample_files import ids_of

ROWS = 20_000
GROUP_ROWS = 500
BATCH_ROWS = 100
LABEL_ROWS = (6_000, 5_000, 4_000, 3_000, 2_000)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Rows sorted by label, in 40 row groups."""
    labels = np.repeat(np.arange(len(LABEL_ROWS)), LABEL_ROWS)
    table = pa.table({"id": np.arange(ROWS), "label": labels})
    path = tmp_path_factory.mktemp("quality") / "sorted.parquet"
    pq.write_table(table, path, row_group_size=GROUP_ROWS)
    return str(path)


def shuffled(path, window, **options):
    options = {"batch_size": BATCH_ROWS, "shuffle": True, "threads": 0, **options}
    return FastParquetDataset(path, shuffle_window=window, **options)


def deviation_of_label_counts(dataset):
    """How many standard deviations Pearson's chi-square of batches x labels lies off its mean.

    Were each batch's label counts a (multivariate) hypergeometric draw, the mean would be
    N / (N - 1) times the degrees of freedom (Haldane 1940), and the variance about twice them.
    """
    counts = np.stack([np.bincount(b["label"], minlength=len(LABEL_ROWS)) for b in dataset])
    expected = counts.sum(1, keepdims=True) * counts.sum(0) / ROWS
    chi_square = ((counts - expected) ** 2 / expected).sum()
    freedom = (len(counts) - 1) * (counts.shape[1] - 1)
    return (chi_square - freedom * ROWS / (ROWS - 1)) / np.sqrt(2 * freedom)


def test_label_counts_are_a_hypergeometric_draw_if_the_window_holds_the_dataset(path):
    with shuffled(path, ROWS) as dataset:
        deviations = [deviation_of_label_counts(dataset) for _ in range(20)]
    assert max(map(abs, deviations)) < 3.5
    # Neither a little too large nor too small in the mean of the epochs.
    assert abs(np.mean(deviations)) < 3.5 / np.sqrt(len(deviations))


@pytest.mark.parametrize("window", [GROUP_ROWS, 4 * GROUP_ROWS, ROWS // 2])
def test_label_counts_tell_a_window_that_does_not_hold_the_dataset(path, window):
    with shuffled(path, window) as dataset:
        assert deviation_of_label_counts(dataset) > 7


def quality_by_definition(ids, batch_rows):
    """Score and effective rows, in memory."""
    whole = np.array(ids)
    batches = [whole[k : k + batch_rows] for k in range(0, len(whole), batch_rows)]
    within = sum(((batch - batch.mean()) ** 2).sum() for batch in batches)
    between = sum(len(batch) * (batch.mean() - whole.mean()) ** 2 for batch in batches)
    variance = whole.var(ddof=1)
    design_effect = between / (len(batches) - 1) / variance
    return (
        min(1, within / (len(whole) - len(batches)) / variance),
        batch_rows / max(1, design_effect),
    )


@pytest.mark.parametrize("window", [300, 5_000, ROWS])
def test_the_numbers_are_those_of_what_is_delivered(path, window):
    with shuffled(path, window, batch_size=96) as dataset:
        for epoch in range(3, 11):
            dataset.set_epoch(epoch)
            got = shuffle_quality(dataset, epoch=epoch)
            ids = ids_of(dataset)
            assert got == order_quality([np.array(ids[:7]), np.array(ids[7:])], ROWS, 96)
            score, effective_rows = quality_by_definition(ids, 96)
            assert got.score == pytest.approx(score)
            assert got.effective_rows == pytest.approx(effective_rows)


def test_stored_order_is_0_and_a_uniform_permutation_1(path):
    with shuffled(path, None, shuffle=False) as dataset:
        stored = shuffle_quality(dataset)
    uniform = order_quality([np.random.default_rng(1).permutation(ROWS)], ROWS, BATCH_ROWS)
    assert stored.score == pytest.approx(0, abs=2e-4)
    assert stored.effective_rows == pytest.approx(1, rel=0.01)
    assert uniform.score == pytest.approx(1, rel=0.03)
    assert uniform.effective_rows == pytest.approx(BATCH_ROWS, rel=0.2)


def test_a_larger_window_is_better(path):
    qualities = []
    for window in (GROUP_ROWS, 4 * GROUP_ROWS, ROWS // 2, ROWS):
        with shuffled(path, window) as dataset:
            qualities.append(shuffle_quality(dataset))
    assert qualities == sorted(qualities)
    assert 0 <= float(qualities[0]) < 0.1
    assert float(qualities[-1]) > 0.99
    # Four row groups are the few independent draws of a batch.
    assert float(qualities[1]) == pytest.approx(3 / 4, abs=0.1)
    assert qualities[1].effective_rows == pytest.approx(4, rel=0.5)


def test_filters_limit_and_ranks(path):
    filters = [("id", ">=", 1_000), ("id", "<", 9_000)]
    ranks = {"rank": 1, "world_size": 4, "limit": 500, "drop_last": True}
    with (
        shuffled(path, 2_000, filters=filters) as whole,
        shuffled(path, 2_000, filters=filters, **ranks) as part,
    ):
        want = shuffle_quality(whole)
        assert want.rows == 8_000
        assert want == order_quality([np.array(ids_of(whole)) - 1_000], 8_000, BATCH_ROWS)
        assert shuffle_quality(part, batch_rows=BATCH_ROWS) == want


def test_what_is_refused(path):
    with shuffled(path, None) as dataset:
        with pytest.raises(ValueError, match="at least 2 rows in a dataset and a batch"):
            shuffle_quality(dataset, batch_rows=1)
        with pytest.raises(TypeError, match="Expected a FastParquetDataset, got MixedDataset"):
            shuffle_quality(mix({"only": dataset}))
    for positions, rows in ((np.arange(5), 4), (np.arange(3), 4)):
        with pytest.raises(ValueError, match="Expected 4 rows, got"):
            order_quality([positions], rows, 2)
    assert order_quality([np.arange(4)], 4, 8).score == 1  # one batch is the whole
