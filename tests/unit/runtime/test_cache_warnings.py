"""The warning that a cache can't keep anything reaches the user, also as an error."""

import threading
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import Cache, FastParquetDataset
from fastload.runtime.disk.cache import tell_once


def doubled(block):
    block["v"] = block["v"] * 2
    return block


def test_a_cache_that_can_not_be_used_raises_if_warnings_are_errors(tmp_path):
    path = tmp_path / "0.parquet"
    pq.write_table(pa.table({"v": range(100)}), path, row_group_size=10)
    (tmp_path / "file").touch()
    options = {"cache": tmp_path / "file", "preprocess": doubled, "batch_size": 10}
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match=r"Not a directory .* is read .* time") as said:
                FastParquetDataset(path, **options)
        assert "store" not in str(said.value)
    with pytest.warns(UserWarning, match="Can't keep more in the cache"):
        dataset = FastParquetDataset(path, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sum(len(batch["v"]) for batch in dataset) == 100


def test_a_thread_prints_the_warning_that_is_an_error(tmp_path, capsys):
    done = []

    def work():
        tell_once(Cache(tmp_path), "Can't keep it")
        done.append(True)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    assert done == [True, True]
    assert capsys.readouterr().err == "UserWarning: Can't keep it\n"
