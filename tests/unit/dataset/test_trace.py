import json
import re
import threading

import pytest

from fastload import FastParquetDataset, mix
from fastload.dataset.trace import Trace
from fastload.runtime.platform import LINUX
from support.sample_files import write_sample


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("trace") / "sample.parquet", 1000)


@pytest.mark.parametrize("threads", [0, 2])
def test_a_trace_has_the_stages_of_a_pass(path, threads):
    options = {"batch_size": 100, "shuffle": True, "shuffle_window": 250, "threads": threads}
    with FastParquetDataset(path, **options) as dataset:
        with dataset.trace() as trace:
            batches = sum(1 for _ in dataset)
        after = list(trace.spans)
        for _ in dataset:
            pass
        assert trace.spans == after
    stages = {span.stage for span in trace.spans}
    assert {"prepare", "fill", "merge", "wait"} <= stages
    assert trace.dropped == 0
    assert {span.index for span in trace.spans if span.stage == "wait"} >= set(range(batches))
    columns = {span.column for span in trace.spans if span.stage == "fill"}
    assert columns == {"id", "label", "price", "name"}
    assert all(span.column == "" for span in trace.spans if span.stage == "wait")
    consumer = {span.thread for span in trace.spans if span.stage == "wait"}
    assert consumer == {threading.get_native_id()}
    assert set(trace.threads) == {span.thread for span in trace.spans}
    if threads:
        assert "fastload-cpu" in trace.threads.values() or not LINUX


def test_a_trace_opens_in_perfetto(path, tmp_path):
    with (
        FastParquetDataset(path, batch_size=100, threads=1) as dataset,
        dataset.trace(capacity=10) as trace,
    ):
        for _ in dataset:
            pass
    assert len(trace.spans) == 10
    assert trace.dropped > 0
    trace.write(tmp_path / "trace.json")
    loaded = json.loads((tmp_path / "trace.json").read_text())
    assert loaded["otherData"] == {"dropped_spans": trace.dropped}
    events = loaded["traceEvents"]
    names = [event for event in events if event["ph"] == "M"]
    if LINUX:  # elsewhere threads of the core have numbers alone
        assert {event["args"]["name"] for event in names} <= {"consumer", "fastload-cpu"}
    complete = [event for event in events if event["ph"] == "X"]
    assert len(complete) == 10
    assert min(event["ts"] for event in complete) == 0
    for event in complete:
        assert event["dur"] >= 0
        assert {"name", "cat", "pid", "tid", "args"} <= set(event)


def test_nothing_is_recorded_without_a_pass(path):
    with FastParquetDataset(path) as dataset, dataset.trace() as trace:
        pass
    assert trace == Trace()
    with pytest.raises(ValueError, match="at least 1"), dataset.trace(0):
        pass


def test_prometheus_reads_the_counters(path):
    with FastParquetDataset(path, batch_size=100) as dataset:
        for _ in dataset:
            pass
        stats = dataset.stats()
    text = stats.to_prometheus({"run": 'a "b"\\\n'})
    lines = text.splitlines()
    assert text.endswith("\n")
    sample = re.compile(r'fastload_[a-z_]+\{([a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+\} [0-9.e+-]+')
    kinds = {}
    for line in lines:
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            assert sample.fullmatch(line), line
            name = line.partition("{")[0]
            assert kinds[name] == ("counter" if name.endswith("_total") else "gauge")
    assert 'fastload_rows_total{run="a \\"b\\"\\\\\\n"} 1000' in lines
    assert f'fastload_batches_total{{run="a \\"b\\"\\\\\\n"}} {stats.batches}' in lines
    assert "fastload_rows_total 1000\n" in stats.to_prometheus()
    with pytest.raises(ValueError, match="name of a label"):
        stats.to_prometheus({"stage": "x"})
    with pytest.raises(ValueError, match="label of your own, got 'becomes'"):
        stats.to_prometheus({"becomes": "x"})
    with pytest.raises(ValueError, match="label of your own, got '__run'"):
        stats.to_prometheus({"__run": "x"})
    wanted = r"Expected labels of str such as {'rank': '0'}, got {'rank': 0}"
    with pytest.raises(TypeError, match=wanted):
        stats.to_prometheus({"rank": 0})


def test_a_source_of_a_mix_is_traced_by_its_dataset(path):
    web, books = (FastParquetDataset(path, batch_size=100) for _ in range(2))
    with mix({"web": web, "books": books}, stop="all") as mixed, web.trace() as trace:
        batches = sum(batch.source == "web" for batch in mixed)
        text = mixed.stats()["web"].to_prometheus({"source": "web"})
    assert batches == 10
    assert {span.stage for span in trace.spans} >= {"fill", "wait"}
    assert 'fastload_batches_total{source="web"} 10' in text.splitlines()


@pytest.mark.parametrize("begun", [False, True])
def test_what_is_no_capacity_is_refused_before_the_pass(path, begun):
    with FastParquetDataset(path, batch_size=100) as dataset:
        if begun:
            next(iter(dataset))
        for capacity in (1.5, "300", True):
            with pytest.raises(TypeError, match="Expected capacity as int, got"):
                dataset.trace(capacity).__enter__()
        with pytest.raises((MemoryError, ValueError)), dataset.trace(1 << 62):
            next(iter(dataset))
        with dataset.trace() as trace:
            assert len(list(dataset)) == 10
    assert trace.spans


def test_a_trace_inside_a_trace_is_refused(path):
    with FastParquetDataset(path, batch_size=100) as dataset, dataset.trace() as trace:
        with pytest.raises(RuntimeError, match="Expected a dataset that no trace records"):
            dataset.trace().__enter__()
        assert len(list(dataset)) == 10
    assert trace.spans
