"""Tests of arguments of the core: their order, and values that the core can't convert."""

from __future__ import annotations

import re
from dataclasses import fields

import numpy as np
import pytest

from fastload.runtime.native import core
from fastload.schema.column_plan import ColumnPlan


def test_the_plan_of_a_column_has_the_order_of_the_arguments_of_the_core() -> None:
    signature = core.ColumnSpec.__init__.__doc__
    assert signature is not None
    assert re.findall(r"(\w+): ", signature)[1:] == [member.name for member in fields(ColumnPlan)]


def test_a_pass_with_a_number_of_more_than_64_bits_is_refused() -> None:
    pipeline = core.Pipeline(
        files=[],
        columns=[],
        outputs=[],
        threads=0,
        io_threads=0,
        batch_memory_bytes=0,
        staging_memory_bytes=0,
        fetch_memory_bytes=0,
    )
    none = np.zeros((0, 2), np.int64)
    plan = core.ReadPlan(
        batch_rows=1,
        rows=0,
        padding=0,
        shuffled=False,
        pieces=np.zeros((0, 4), np.int64),
        takes=none,
        windows=np.zeros((1, 2), np.int64),
        keys=np.zeros(0, np.uint64),
    )
    sizes = {"fetch_bytes": 1, "segment_bytes": 1, "request_bytes": 1}
    with pytest.raises(TypeError, match="incompatible function arguments"):
        pipeline.start(plan, open_windows=1, hole_bytes=2**63, **sizes)
    scan = pipeline.start(plan, open_windows=1, hole_bytes=0, **sizes)
    del pipeline  # the scan keeps it
    assert scan.next() is None


def test_an_unknown_name_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"Expected a name that the core knows, got columns$"):
        core.OutputSpec("columns", [])
