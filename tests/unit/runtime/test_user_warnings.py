"""Warnings name the caller's line outside the package; in the package's threads, its own line."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from fastload import FastParquetDataset
from fastload.rows.skip_report import SkipReport
from fastload.runtime import user_warnings
from fastload.runtime.user_warnings import warn
from support.sample_files import write_sample


def test_a_warning_names_the_file_of_the_caller():
    with pytest.warns(UserWarning, match="direct") as told:
        warn("direct")
    with pytest.warns(UserWarning, match="left out") as report_told:
        SkipReport().add(0, "a.parquet", 3, "Expected X, got Y", "Others replace its rows")
    with pytest.warns(DeprecationWarning, match="category") as other_told:
        warn("category", DeprecationWarning)
    for record in (told, report_told, other_told):
        assert [warning.filename for warning in record] == [__file__]


def test_a_warning_of_a_public_method_names_its_caller(tmp_path):
    path = write_sample(tmp_path / "a.parquet", 100)
    with FastParquetDataset(path, batch_size=10) as dataset:
        state = dataset.state_dict(after=next(iter(dataset)))
        dataset.load_state_dict(state)
        with pytest.warns(UserWarning, match="drops its progress") as told:
            dataset.set_epoch(5)
    assert [warning.filename for warning in told] == [__file__]


def test_a_warning_in_a_thread_names_the_package():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        # No frame of the user's code is on the stacks of these threads.
        thread = threading.Thread(target=warn, args=("of a thread",))
        thread.start()
        thread.join()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(warn, "of a pool").result()
    assert [str(warning.message) for warning in told] == ["of a thread", "of a pool"]
    assert {warning.filename for warning in told} == {user_warnings.__file__}


def test_a_warning_in_a_thread_of_the_user_names_the_user():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        thread = threading.Thread(target=lambda: warn("of a thread"))
        thread.start()
        thread.join()
    assert [warning.filename for warning in told] == [__file__]
