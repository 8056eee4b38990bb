"""Short forms of the program of that name."""

import pytest

import memory_faults


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["threads", "fork"])
def test_no_more_memory(tmp_path, mode):
    path = tmp_path / "sample.parquet"
    memory_faults.write_file(path)
    ended, _, message = memory_faults.run(path, mode, room_mb=0)
    assert memory_faults.is_as_expected(0, ended), (ended, message)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["threads", "fork"])
def test_a_full_control_group(tmp_path, mode):
    path = tmp_path / "sample.parquet"
    memory_faults.write_file(path)
    with memory_faults.control_group(8) as group:
        if group is None:
            pytest.skip("no control group can be made here")
        ended, _, message = memory_faults.run(path, mode, 8, group)
    assert memory_faults.is_as_expected_in_group(mode, 8, ended), (ended, message)
    assert ended != memory_faults.HEALED
