"""The sample that a session reads where it is given no files."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastload.tools.bench import sample


def test_the_sample_is_deterministic(tmp_path):
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    for path in (first, second):
        sample.make(path, row_groups=2, rows=1000)
    assert first.read_bytes() == second.read_bytes()
    assert sample.row_group(0, 1000) != sample.row_group(1, 1000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "b.parquet"]


def test_the_sample_is_shaped_like_a_click_log():
    rows = 50_000
    group = sample.row_group(0, rows)
    assert len(group.column_names) == 40
    assert 0.2 < np.mean(group["label"].to_numpy()) < 0.3
    distinct = [len(np.unique(group[f"category_{j:02}"])) for j in (1, 13, 26)]
    assert distinct[0] == 3
    assert distinct == sorted(distinct)
    assert distinct[2] > 10_000
    for j in range(1, 14):
        numbers = group[f"numeric_{j:02}"].to_numpy()
        assert np.isfinite(numbers).all()
        assert numbers.min() >= 0


def test_the_sample_is_reused_only_if_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(sample, "ROW_GROUPS", 1)
    monkeypatch.setattr(sample, "ROW_GROUP_ROWS", 1000)
    monkeypatch.setattr(sample.make, "__defaults__", (1, 1000))
    monkeypatch.setattr(sample.is_intact, "__defaults__", (1, 1000))
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path))
    path = sample.sample()
    assert path.parent == tmp_path / "bench"
    written = path.stat().st_mtime_ns
    assert sample.sample() == path
    assert path.stat().st_mtime_ns == written
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    assert sample.sample().read_bytes() == whole
    pq.write_table(pa.table({"x": [1]}), path)
    assert sample.sample().read_bytes() == whole
