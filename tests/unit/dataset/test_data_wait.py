import gc
import pickle
import weakref

import pytest
import torch
from torch.utils.data import DataLoader

from fastload import DataWait, FastParquetDataset
from fastload.dataset.loaders import data_wait
from fastload.dataset.loaders.data_wait import WaitReport
from support.sample_files import write_sample


class Clock:
    """Stands in for the module `time`; time passes in `sleep` alone."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Slow:
    """Items that advance a clock before they are handed out."""

    batch_size = 7

    def __init__(self, waits, clock=None):
        self.waits = waits
        self.clock = clock or Clock()

    def __len__(self):
        return len(self.waits)

    def __iter__(self):
        for index, seconds in enumerate(self.waits):
            self.clock.sleep(seconds)
            yield index


def test_the_share_and_the_pauses_are_those_of_the_loop(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(data_wait, "time", clock)
    steps = []
    loader = DataWait(Slow([0.25, 0, 0.5, 0], clock), on_step=steps.append)
    assert len(loader) == 4
    for index in loader:
        assert index in range(4)
        clock.sleep(0.125)
    report = loader.report()
    assert (report.steps, report.epochs) == (4, 1)
    assert (report.waiting_s, report.working_s) == (0.75, 0.5)
    assert report.share == 0.6
    longest, second, *rest = report.pauses
    assert (longest.index, longest.where) == (2, "")
    assert (second.index, second.where) == (0, "epoch start")
    assert {pause.where for pause in rest} == {"", "epoch end"}
    assert [step.index for step in steps] == [0, 1, 2, 3]
    assert [step.work_s for step in steps] == [0.125] * 4
    text = str(report)
    assert "% of the time was spent waiting for data" in text
    assert "before batch 2 of pass 0" in text


def test_passes_add_up_and_reset_forgets():
    loader = DataWait(Slow([0, 0]))
    for _ in range(3):
        list(loader)
    assert (loader.report().steps, loader.report().epochs) == (6, 3)
    loader.reset()
    assert loader.report() == WaitReport(0, 0, 0.0, 0.0, ())
    assert str(loader.report()) == "no steps yet"


def test_only_the_longest_pauses_are_kept():
    loader = DataWait(range(1000))
    list(loader)
    assert len(loader.report().pauses) == 10
    seconds = [pause.seconds for pause in loader.report().pauses]
    assert seconds == sorted(seconds, reverse=True)


def test_a_loop_that_is_left_ends_its_step():
    steps = []
    loader = DataWait(Slow([0, 0, 0]), on_step=steps.append)
    for index in loader:
        if index == 1:
            break
    del index
    gc.collect()
    assert [(step.epoch, step.index) for step in steps] == [(0, 0), (0, 1)]


def test_everything_else_is_the_loaders():
    loader = DataWait(Slow([]))
    assert loader.batch_size == 7
    assert loader.loader.waits == []
    with pytest.raises(AttributeError):
        _ = loader.nothing
    copied = pickle.loads(pickle.dumps(DataWait([1, 2])))
    assert list(copied) == [1, 2]
    with pytest.raises(TypeError, match="iterable, got int"):
        DataWait(3)


def test_what_a_loader_raises_is_raised():
    def broken():
        yield 1
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(DataWait(broken()))


def test_it_keeps_no_batch():
    class Item:
        pass

    loader = iter(DataWait(Item() for _ in range(2)))
    item = next(loader)
    dead = weakref.ref(item)
    del item
    assert dead() is None
    next(loader)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("wait") / "sample.parquet", 1000)


def test_window_changes_are_known_of_our_own(path):
    steps = []
    with FastParquetDataset(path, batch_size=100, shuffle=True, shuffle_window=250) as dataset:
        loader = DataWait(DataLoader(dataset, batch_size=None), on_step=steps.append)
        for _ in loader:
            pass
        assert loader.dataset is dataset
    changes = [step.index for step in steps if step.where == "window change"]
    assert steps[0].where == "epoch start"
    assert changes == [2, 5, 7]  # rows 200 to 299 are the first to reach into the second window


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")
def test_waits_are_ranges_of_the_profiler(path):
    with FastParquetDataset(path, batch_size=500) as dataset, torch.profiler.profile() as profile:
        for _ in DataWait(dataset):
            pass
    (waits,) = [event for event in profile.key_averages() if event.key == "data wait"]
    assert waits.count == 4  # iter(), two batches, the end


def test_scalars_for_tensorboard(tmp_path, monkeypatch):
    from fastload.integrations.tensorboard import WaitWriter

    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    clock = Clock()
    monkeypatch.setattr(data_wait, "time", clock)
    with tensorboard.SummaryWriter(str(tmp_path)) as writer:
        loader = DataWait(Slow([0.0, 0.25, 0.0, 0.0, 0.0], clock), WaitWriter(writer, every=2))
        for _ in loader:
            pass
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert events.Tags()["scalars"] == ["data_wait/share", "data_wait/longest_s"]
    shares = events.Scalars("data_wait/share")
    assert [scalar.step for scalar in shares] == [2, 4]
    assert shares[0].value == 1
    assert events.Scalars("data_wait/longest_s")[0].value == 0.25
    with pytest.raises(ValueError, match="at least 1"):
        WaitWriter(writer, every=0)
