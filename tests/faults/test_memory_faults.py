"""A short form of the program of that name."""

import pytest

import memory_faults


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["threads", "fork"])
def test_no_more_memory(tmp_path, mode):
    path = tmp_path / "sample.parquet"
    memory_faults.write_file(path)
    ended, _, message = memory_faults.run(path, mode, room_mb=0)
    assert memory_faults.is_as_expected(0, ended), (ended, message)
