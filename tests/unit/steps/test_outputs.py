"""What is a step, what it may return, and how single values become an output."""

import functools
import pickle
import threading

import numpy as np
import pytest
import torch

import fastload
from fastload import Batch, Ragged, per_row
from fastload.steps.outputs import field_of, merge, tensor_of
from fastload.steps.per_row import RowJob, name_of
from fastload.steps.row_values import RefusedRowError, RowValues, column_of, rows_of
from fastload.steps.steps import Steps
from fastload.steps.thread_pool import StepPool


def drawn(batch, seeds):
    return batch


def keep(block):
    return block


class Scale:
    def __call__(self, block):
        return block


def steps_of(preprocess=None, augment=None):
    return Steps(preprocess, augment, provenance=False)


def test_one_step_or_several():
    assert not steps_of()
    assert not steps_of([], ())
    assert [step.run for step in steps_of(keep).preprocess] == [keep]
    steps = steps_of([keep, per_row(len, "s", "n"), Scale()], (drawn,))
    labels = [step.label for step in [*steps.preprocess, *steps.augment]]
    assert labels == [
        "preprocess step `keep`",
        "per_row step `len`",
        "preprocess step `Scale`",
        "augment step `drawn`",
    ]
    assert steps.count == 4
    assert name_of(functools.partial(keep, 1)) == "keep"
    assert name_of(lambda: 0).startswith(f"lambda at {__file__}:")


@pytest.mark.parametrize("arguments", [("keep",), ({"keep": keep},), ([keep, 3],), (None, [None])])
def test_what_is_no_step_is_refused(arguments):
    with pytest.raises(TypeError, match=r"Expected (preprocess|augment) as a callable or a list"):
        steps_of(*arguments)
    with pytest.raises(
        TypeError, match=r"augment, got per_row\(len.* as preprocess=.* one seed for each"
    ):
        steps_of(augment=per_row(len, "s", "n"))


@pytest.mark.parametrize(
    ("error", "match", "arguments"),
    [
        (TypeError, "fn of per_row to be callable, got 3", (3, "a", "b")),
        (TypeError, "inputs of per_row as a name or names, got 5", (len, 5, "b")),
        (TypeError, r"outputs of per_row as a name or names, got \[1\]", (len, "a", [1])),
        (ValueError, "inputs of per_row to name at least one", (len, [], "b")),
        (ValueError, "each output of per_row once", (len, "a", ["b", "b"])),
        (ValueError, "'dense', 'ragged' or None for output `b`", (len, "a", {"b": "list"})),
        (TypeError, "threads of per_row as int, got True", (len, "a", "b", True)),
        (ValueError, "threads of per_row to be at least 0, got -1", (len, "a", "b", -1)),
    ],
)
def test_wrong_arguments_of_per_row(error, match, arguments):
    with pytest.raises(error, match=match):
        per_row(*arguments)


def test_inputs_are_looked_for_as_far_as_outputs_are_known():
    chain = [per_row(len, "s", "n"), per_row(abs, "n", "m")]
    steps_of(chain).check_inputs(["s"])
    steps_of([keep, per_row(len, "from keep", "n")]).check_inputs(["s"])
    with pytest.raises(
        ValueError, match="inputs of per_row step `abs` among `m`, `n`, `s`, got `x`"
    ):
        steps_of([*chain, per_row(abs, "x", "y")]).check_inputs(["s"])


def test_steps_travel_without_their_threads():
    steps = steps_of([per_row(len, "s", "n", threads=2)])
    job = RowJob(
        steps.preprocess[0].run, [Ragged(torch.arange(3), torch.tensor([0, 2, 3]))], 2, str
    )
    steps.pool(steps.preprocess[0].run).begin(job)
    again = pickle.loads(pickle.dumps(steps))
    assert again.preprocess == steps.preprocess
    assert not again._pools
    job.wait()
    assert job.outputs()["n"].tolist() == [2, 1]
    steps.close()


def merged(returned, rows=3):
    block = Batch({"x": torch.arange(rows), "y": torch.ones(rows)})
    returned = returned(block) if callable(returned) else returned
    merge(block, block, returned, rows, "preprocess step `fn`")
    return block


def test_outputs_are_added_replaced_and_removed():
    def removed(block):
        del block["x"]
        return {"z": block["y"] + 1}

    assert list(merged(lambda block: block)) == ["x", "y"]
    assert list(merged({})) == ["x", "y"]
    assert list(merged({"z": torch.zeros(3, 2)})) == ["x", "y", "z"]
    assert merged({"x": torch.zeros(3)})["x"].dtype == torch.float32
    assert list(merged(removed)) == ["y", "z"]
    ragged = Ragged(torch.arange(4), torch.tensor([0, 1, 4, 4]))
    assert merged({"z": ragged})["z"] is ragged


def test_arrays_become_tensors_of_the_same_memory():
    array = np.arange(6, dtype=np.uint16).reshape(3, 2)
    tensor = merged({"z": array})["z"]
    assert tensor.dtype == torch.uint16
    assert tensor.data_ptr() == array.ctypes.data
    frozen = np.frombuffer(bytes(range(3)), np.uint8)
    others = [frozen, np.arange(3)[::-1], np.arange(3, dtype=">i4")]
    assert [tensor_of(other).tolist() for other in others] == [[0, 1, 2], [2, 1, 0], [0, 1, 2]]


@pytest.mark.parametrize(
    ("error", "match", "returned"),
    [
        (ValueError, "Expected 3 rows in output `x` of preprocess step `fn`, got 2",
         lambda block: {"x": block["x"][:2]}),
        (ValueError, "output `z` .* got a tensor without dimensions", {"z": torch.tensor(1)}),
        (TypeError, "`fn` to return the block or a mapping of outputs, got NoneType", None),
        (TypeError, "`fn` to return the block or a mapping of outputs, got Tensor", torch.ones(3)),
        (TypeError, r"Ragged or numpy array in output `z` .* got list \(write np.array.* per_row\(",
         {"z": [1, 2, 3]}),
        (TypeError, "output `z` of preprocess step `fn`, got an array of <U1",
         {"z": np.array(["a", "b", "c"])}),
        (TypeError, "`fn` to name outputs by str, got 0", {0: torch.ones(3)}),
        (ValueError, "`fn` to leave an output, got none", lambda block: block.clear() or block),
    ],
)  # fmt: skip
def test_what_is_no_output_is_refused(error, match, returned):
    with pytest.raises(error, match=match):
        merged(returned)


def test_fields():
    assert field_of(torch.zeros(3, 2, dtype=torch.int8)) == fastload.schema.fields.Field(
        torch.int8, (2,)
    )
    text = column_of(["a", "bc"], None)
    lists = Ragged(text, torch.tensor([0, 2, 2]))
    fields = [field_of(text), field_of(lists), field_of(Ragged(torch.ones(4, 2), lists.offsets))]
    assert [(f.ragged, f.kind, f.depth, f.shape) for f in fields] == [
        (True, "str", 0, ()),
        (True, "str", 1, ()),
        (True, None, 1, (2,)),
    ]


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([True, False], torch.bool, [True, False]),
        ([1, -2], torch.int64, [1, -2]),
        ([0.5, 1.5], torch.float32, [0.5, 1.5]),
        ([np.float64(0.5), np.float64(1.5)], torch.float64, [0.5, 1.5]),
        ([np.uint8(3), np.uint8(4)], torch.uint8, [3, 4]),
        ([torch.tensor(3), torch.tensor(4)], torch.int64, [3, 4]),
        ([[1, 2], (3, 4)], torch.int64, [[1, 2], [3, 4]]),
        ([np.zeros((1, 2), np.int16)] * 2, torch.int16, [[[0, 0]], [[0, 0]]]),
        ([[], []], torch.float32, [[], []]),
    ],
)
def test_values_of_one_shape_are_a_tensor(values, dtype, expected):
    column = column_of(values, None)
    assert isinstance(column, torch.Tensor)
    assert column.dtype == dtype
    assert column.tolist() == expected


@pytest.mark.parametrize(
    ("values", "layout", "expected"),
    [
        (["ä", "", "bc"], None, ["ä", "", "bc"]),
        ([b"a", b"", b"bc"], "ragged", [b"a", b"", b"bc"]),
        (["", ""], None, ["", ""]),
        ([[1], [], [2, 3]], None, [[1], [], [2, 3]]),
        ([np.arange(2), np.arange(2)], "ragged", [[0, 1], [0, 1]]),
        ([torch.ones(1, 2), torch.ones(0, 2)], None, [[[1, 1]], []]),
    ],
)
def test_other_values_are_ragged(values, layout, expected):
    column = column_of(values, layout)
    assert isinstance(column, Ragged)
    assert column.tolist() == expected
    again = column_of(rows_of(column), "ragged")
    assert again == column


@pytest.mark.parametrize(
    ("row", "match", "values", "layout"),
    [
        (1, "Expected int, got float", [1, 2.0], None),
        (2, "Expected int, got bool", [1, 2, True], None),
        (1, "Expected str, got NoneType", ["a", None], None),
        (0, "Expected a number, str, bytes, tensor, array or list, got NoneType", [None, 1], None),
        (1, "Expected an int of 64 bits, got 9223372036854775808", [0, 2**63], None),
        (1, "UTF-8 can hold", ["a", "\ud800"], None),
        (1, "Expected torch.int64, got torch.float32", [[1], [1.0]], None),
        (1, r"Expected the shape \(any, 2\), got \(1, 3\) \(.* return flat values, .*reshape",
         [np.ones((1, 2)), np.ones((1, 3))], None),
        (1, r"Expected the shape \(2,\), got \(3,\)", [np.ones(2), np.ones(3)], "dense"),
        (0, "Expected a value for a dense output, got str", ["a", "b"], "dense"),
        (0, "Expected a value for a ragged output, got int", [1, 2], "ragged"),
        (0, "Expected a value for a ragged output, got a tensor", [np.int8(1)], "ragged"),
        (0, r"Expected a value that can become a tensor, got list \(", [[1, [2]]], None),
        (0, r"Expected a value that can become a tensor, got ndarray \(", [np.array(["a"])], None),
        (0, "Expected a value that can become a tensor, got Ragged",
         [Ragged(torch.arange(1), torch.tensor([0, 1]))], None),
        (0, r'got tuple \(.*\(for several outputs, name them: outputs=\["a", "b"\]\)',
         [(np.ones(4), (2, 2))], None),
        (0, r"got tuple \(.* name them", [(np.ones(4), np.ones(2))], None),
        (1, r"got list \(.*write torch\.stack\(values\)", [[], [torch.ones(4)] * 2], None),
        (0, r"got list \(.*one str or bytes, and no list of them", [["a", "b"]], None),
    ],
)  # fmt: skip
def test_values_that_do_not_go_together(row, match, values, layout):
    with pytest.raises(RefusedRowError, match=match) as caught:
        column_of(values, layout)
    assert caught.value.row == row


def test_an_empty_list_is_a_row_without_boxes():
    boxes = [[[1, 2, 3, 4]], [], [[5, 6, 7, 8], [9, 10, 11, 12]]]
    column = column_of(boxes, None)
    assert isinstance(column, Ragged)
    assert column.values.shape == (3, 4)
    assert [row.tolist() for row in column] == boxes
    assert column_of(boxes[::-1], "ragged").lengths.tolist() == [2, 0, 1]
    assert column_of([[], []], "ragged").dtype == torch.float32  # as the docstring says


@pytest.mark.filterwarnings("error")
def test_lists_of_arrays_keep_their_dtype():
    for dtype in (np.float16, np.uint8, np.uint16, np.int64, np.bool_):
        column = column_of([[np.zeros(3, dtype), np.ones(3, dtype)]] * 2, None)
        assert column.equal(torch.from_numpy(np.array([[[0] * 3, [1] * 3]] * 2, dtype)))


@pytest.mark.parametrize("layout", [None, "dense", "ragged"])
def test_large_values_end_up_where_they_are_put(layout):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (5, 64, 32, 3), np.uint8)
    for given in (images, torch.from_numpy(images), images[:, ::-1], images.astype(np.uint16)):
        values = RowValues(5, layout)
        for row in (3, 0, 4, 1, 2):
            values.put(row, given[row])
        column = values.column()
        assert isinstance(column, Ragged) == (layout == "ragged")
        assert (
            column == column_of(list(given), layout)
            if layout == "ragged"
            else torch.equal(column, column_of(list(given), layout))
        )


def test_values_of_two_lengths_are_ragged_however_large():
    lists = [np.full(5000 + (k == 2), k) for k in range(4)]
    values = RowValues(4, None)
    for row, value in enumerate(lists):
        values.put(row, value)
    assert values.column() == column_of(lists, None)
    values = RowValues(2, None)
    values.put(0, lists[0])
    values.put(1, lists[1].astype(np.int32))
    with pytest.raises(RefusedRowError, match=r"Expected torch.int64, got torch.int32"):
        values.column()


def test_rows_of_a_column():
    assert rows_of(torch.tensor([True, False])) == [True, False]
    assert [row.tolist() for row in rows_of(torch.ones(2, 1))] == [[1], [1]]
    lists = Ragged(torch.arange(3), torch.tensor([0, 1, 3]))
    assert [row.tolist() for row in rows_of(lists[1:])] == [[1, 2]]


def job_of(fn, rows, outputs="y"):
    return RowJob(per_row(fn, "x", outputs), [torch.arange(rows)], rows, lambda row: f"row {row}")


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_jobs_of_a_pool(threads):
    pool = StepPool(threads)
    jobs = [job_of(lambda x: 2 * x, rows) for rows in (1, 7, 1000)]
    for job in jobs:
        pool.begin(job)
    for job, rows in zip(jobs, (1, 7, 1000), strict=True):
        job.wait()
        assert job.outputs()["y"].tolist() == list(range(0, 2 * rows, 2))
    pool.close()
    pool.close()


def test_a_job_ends_at_its_first_error():
    seen = []

    def fail(x):
        seen.append(x)
        raise SystemExit("no")

    pool = StepPool(2)
    job = job_of(fail, 1000)
    pool.begin(job)
    job.wait()
    with pytest.raises(RuntimeError, match="to take the row, got SystemExit: no") as caught:
        job.outputs()
    assert isinstance(caught.value.__cause__, SystemExit)
    pool.close()
    assert len(seen) <= 4


def test_values_that_are_no_output_name_row_and_output():
    pool = StepPool(0)
    for fn, outputs, match in (
        (lambda x: [x] * (2 - x % 2), {"y": "dense"}, r"got \(1,\) in output `y` of .* - at row 1"),
        (
            lambda x: (x,),
            ["y", "z"],
            r"a tuple of 2 values, \(y, z\), got 1 as the result of per_row .* - at row 0",
        ),
        (lambda x: x, ["y", "z"], r"Expected a tuple of 2 values, \(y, z\), got int"),
        (str, ["y", "z"], r"Expected a tuple of 2 values, \(y, z\), got str"),
        (lambda x: {"y": x}, ["y"], r"got dict \(the function returns the value itself, or for"),
    ):
        job = job_of(fn, 4, outputs)
        pool.begin(job)
        with pytest.raises(ValueError, match=match):
            job.outputs()


def test_closing_a_pool_ends_its_jobs():
    pool = StepPool(1)
    begun, cancelled = threading.Event(), threading.Event()
    job = job_of(lambda x: begun.set() or cancelled.wait(), 2000)
    behind = job_of(lambda x: x, 10)
    pool.begin(job)
    pool.begin(behind)
    begun.wait()
    # close() cancels the waiting rows, and then waits for the row in work.
    threading.Thread(target=lambda: (behind.wait(), cancelled.set())).start()
    pool.close()
    for one in (job, behind):
        one.wait()
        with pytest.raises(RuntimeError, match="one that was closed"):
            one.outputs()
