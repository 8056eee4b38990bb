import json
import os
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import polars  # noqa: F401  contenders tested here need it
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload.errors import ColumnNotFoundError
from fastload.tools.bench import child, machine
from fastload.tools.bench.check import Fingerprint, fault, fingerprint
from fastload.tools.bench.child import Job, JobError, launch
from fastload.tools.bench.peers import PEERS, REFERENCE, Peer, Work
from fastload.tools.bench.report.record import to_json
from fastload.tools.bench.report.text import heading, notes, report
from fastload.tools.bench.session import Plan, measure
from fastload.tools.bench.survey import survey
from fastload.tools.terminal import rendered

OTHERS = [peer for peer in PEERS if peer.family != "fastload"]
LOADERS = [peer for peer in OTHERS if peer.loader]
NAMES = ("label", "flag", "price", "id", "gap", "doubt")


def skip_if_absent(peer):
    if peer.version() is None:
        pytest.skip(f"{peer.package} is not installed")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two files of 3 and 2 row groups whose sizes divide nothing; with floats that are null."""
    directory = tmp_path_factory.mktemp("bench")
    paths = []
    for j, rows in enumerate((2500, 1700)):
        random = np.random.default_rng(j)
        price = pa.array(random.random(rows, np.float32), mask=random.random(rows) < 0.1)
        columns = {
            "label": pa.array(random.integers(0, 2, rows, np.int8)),
            "flag": pa.array(random.random(rows) < 0.5),
            "price": price,
            "id": pa.array(random.integers(0, 1 << 62, rows)),
            "word": pa.array(["x"] * rows),
            "gap": pa.array([1, None] * (rows // 2)),
            "doubt": pa.array([True, None] * (rows // 2)),
        }
        path = directory / f"part-{j}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=1000)
        paths.append(str(path))
    return paths


def work_of(files, **changes):
    fields = {"columns": NAMES, "batch_size": 300, "shuffle": False, "window_rows": 1500}
    return Work(files=tuple(files), **{**fields, **changes})


def read(peer, work):
    return fingerprint(peer.load()(work).epoch(0))


def test_survey_keeps_what_all_contenders_can_read(files):
    found = survey(files)
    assert found.columns == NAMES
    assert found.left_out == {"word": "of type string"}
    assert (found.rows, found.row_groups, found.decoded_bytes) == (4200, 5, 4200 * 23)
    assert survey(files, ["id"]).columns == ("id",)
    with pytest.raises(ColumnNotFoundError, match="such as price"):
        survey(files, ["prise"])
    with pytest.raises(ValueError, match="`word`: of type string"):
        survey(files, ["id", "word"])


@pytest.mark.parametrize("peer", OTHERS, ids=lambda peer: peer.contender)
def test_contenders_give_the_rows_that_pyarrow_gives(peer, files, monkeypatch):
    skip_if_absent(peer)
    if peer.family == "huggingface":
        # Each shuffled pass over several files would end with a sleep of 5 seconds.
        monkeypatch.setattr("datasets.config.SLEEP_TIME_ON_THREADS_SHUTDOWN", 0, raising=False)
    work = work_of(files)
    expected = read(REFERENCE, work)
    assert expected.rows == 4200
    assert not fault(read(peer, work), expected, shuffled=False, ordered=True)
    contender = peer.load()(replace(work, shuffle=True))
    first, second = (fingerprint(contender.epoch(number)) for number in (0, 1))
    for got in (first, second):
        assert not fault(got, expected, shuffled=True, ordered=False)
    assert first.sequence != second.sequence


def test_batches_stay_when_the_memory_of_others_is_used_again(files):
    from fastload.tools.bench.peers import pyarrow_readers

    work = work_of(files, shuffle=True)
    contender = pyarrow_readers.WindowReader(work)
    kept = list(contender.epoch(0))
    before = fingerprint(kept)
    for number in range(1, 4):
        assert fingerprint(contender.epoch(number)).multiset == before.multiset
    assert fingerprint(kept) == before


@pytest.mark.timeout(120)
@pytest.mark.parametrize("peer", LOADERS, ids=lambda peer: peer.contender)
def test_workers_share_the_rows(peer, files):
    expected = read(REFERENCE, work_of(files))
    got = read(peer, work_of(files, workers=2, shuffle=True))
    assert not fault(got, expected, shuffled=True, ordered=False)


class Said(list):
    """Progress that keeps how many steps were left after each."""

    foreseen = None

    def __call__(self, what, left):
        assert not self or left < self[-1]
        self.append(left)

    def takes(self, seconds, limit_s):
        self.foreseen = seconds, limit_s


class Laboratory:
    """Answers for the processes that a session would start."""

    def __init__(self, wrong=(), broken=(), slow=(), roof=True, stop_after=None, kept=0):
        self.wrong, self.broken, self.slow, self.roof = wrong, broken, slow, roof
        self.stop_after, self.kept = stop_after, kept
        self.jobs = []

    def __call__(self, job):
        job = Job.of_json(job.to_json())
        if len(self.jobs) == self.stop_after:
            raise KeyboardInterrupt
        self.jobs.append((job.action, job.peer, job.work.shuffle))
        if job.peer in self.broken:
            raise JobError("ValueError: no")
        if job.action == "roof":
            if not self.roof:
                raise JobError("ModuleNotFoundError: no core")
            return {"seconds": 0.05 if job.kept_limit_bytes else 0.1}
        if job.action == "check":
            return {mode: self.checked(job.peer, mode) for mode in job.modes}
        slow = 1.0 if job.peer == "fastload" else 4.0
        repeat = sum(job == done for done in self.jobs)
        return {
            "epoch_s": [slow * 0.2, slow * 0.2 + repeat],
            "first_batch_s": 0.05,
            "cpu_s": slow * 0.7,
            "imports_rss_bytes": 200_000_000,
            "peak_rss_bytes": 900_000_000,
            "bottleneck": "decode" if job.peer == "fastload" else "",
            "kept_bytes": self.kept if job.peer == "fastload" else 0,
            "kept_limit_bytes": 2 * self.kept if job.peer == "fastload" else 0,
        }

    def checked(self, peer, mode):
        if peer in self.slow:
            return {"cut_rows": 420, "cut_s": 60.0}
        values = torch.arange(10)
        rows = values.flip(0) if mode == "shuffled" else values
        got = fingerprint([{"id": rows + (peer in self.wrong)}])
        return {name: getattr(got, name) for name in Fingerprint.__slots__}


ABSENT = Peer("absent", "absent.Contender", "fastload-no-such-package", "polars")


@pytest.fixture
def plan(files, monkeypatch):
    monkeypatch.setattr(Peer, "version", lambda peer: None if peer is ABSENT else "1.2")
    work = work_of(files, columns=("id",))
    return Plan(survey(files, ["id"]), (*PEERS, ABSENT), ("shuffled", "in_order"), work)


def text_of(findings, **options):
    return "\n".join(rendered(report(to_json(findings), **options)))


def test_a_session_checks_all_before_it_times_and_takes_turns(plan):
    laboratory, said = Laboratory(), Said()
    findings = measure(plan, said, laboratory)
    actions = [action for action, _, _ in laboratory.jobs]
    # Of the reference, and of each contender; then of the roof, and of each contender and mode.
    checks, turn = 1 + len(PEERS), 1 + 2 * len(PEERS)
    assert actions[:checks] == ["check"] * checks
    assert "check" not in actions[checks:]
    turns = [laboratory.jobs[checks + turn * j : checks + turn * (j + 1)] for j in range(3)]
    assert turns[0] == turns[1] == turns[2]
    assert len(laboratory.jobs) == checks + 3 * turn
    # Contenders that aren't installed don't count.
    assert said == [*range(checks + 3 * (turn - 1))][::-1]
    assert findings.roof_s == 0.1
    assert len(findings.results) == 2 * len(PEERS)
    assert {result.repeats for result in findings.results} == {3}


def test_the_first_repeat_ends_whatever_the_budget(plan):
    said = Said()
    findings = measure(replace(plan, budget_s=0.0), said, Laboratory())
    assert {result.repeats for result in findings.results} == {1}
    assert said[0] > said[-1] > 0
    assert said.foreseen[1] == 0.0
    said = Said()
    findings = measure(replace(plan, budget_s=60.0), said, Laboratory())
    assert {result.repeats for result in findings.results} == {3}
    assert said[-1] == 0


def test_an_interrupted_session_has_the_results_until_then(plan):
    checks = 1 + len(PEERS)
    findings = measure(plan, Said(), Laboratory(stop_after=checks + 3))
    assert findings.interrupted
    assert [(r.peer, r.mode) for r in findings.results] == [
        (PEERS[0], "shuffled"),
        (PEERS[1], "shuffled"),
    ]
    assert "interrupted" in text_of(findings)
    early = measure(plan, Said(), Laboratory(stop_after=1))
    assert (early.interrupted, early.results) == (True, [])


def test_a_wrong_contender_is_not_timed(plan):
    laboratory = Laboratory(wrong=["pyarrow + DataLoader"], broken=["hand-written polars"])
    said = Said()
    findings = measure(plan, said, laboratory)
    timed = {peer for action, peer, _ in laboratory.jobs if action == "time"}
    left = {"pyarrow + DataLoader", "hand-written polars"}
    assert timed == {peer.name for peer in PEERS} - left
    assert said[-1] == 0
    text = text_of(findings)
    assert "pyarrow + DataLoader, shuffled: refused, its rows are wrong: Expected" in text
    assert "hand-written polars, in order: ValueError: no." in text
    assert "hint: not installed: absent (`make peers` in a checkout)" in text
    assert "absent: fastload-no-such-package is not installed: pip install" not in text
    assert "absent: fastload-no-such-package is not installed: pip install" in text_of(
        findings, verbose=True
    )


def test_a_slow_contender_is_cut_off(plan):
    laboratory = Laboratory(slow=["tensors in RAM, row-major"])
    findings = measure(plan, Said(), laboratory)
    assert "tensors in RAM, row-major" not in {
        peer for action, peer, _ in laboratory.jobs if action == "time"
    }
    lines = notes(to_json(findings))
    assert any(
        "tensors in RAM, row-major, shuffled: cut off after 60 s and 420 of" in line
        for line in lines
    )
    cut_off = [
        entry
        for entry in to_json(findings)["left_out"]
        if entry["name"] == "tensors in RAM, row-major"
    ]
    assert [entry["rows_per_s"] for entry in cut_off] == [7, 7]


def test_the_report_says_what_was_and_was_not_measured(plan):
    findings = measure(plan, Said(), Laboratory())
    assert "4,200 rows x 1 column" in "\n".join(heading(to_json(findings)))
    text = text_of(findings)
    assert text.startswith(
        "Shuffled, fastload is 4.0x as fast as the best other (pyarrow + DataLoader)"
    )
    lines = text_of(findings, verbose=True).splitlines()
    first = next(j for j, line in enumerate(lines) if line.startswith("shuffled"))
    assert lines[first].split()[-1] == "roof"
    assert lines[first + 1].startswith("fastload")
    assert lines[first + 1].split()[-1] == "0.50"
    assert "Not measured: copies to a GPU" in text_of(findings, verbose=True)
    report = json.loads(json.dumps(to_json(findings)))
    assert report["roof"] == 0.1
    wanted = {"name", "version", "mode", "rows_per_s", "bytes_per_s", "first_batch_s"}
    wanted |= {"peak_rss_bytes", "cpu_s", "roof_fraction", "repeats"}
    assert len(report["results"]) == 2 * len(PEERS)
    for result in report["results"]:
        assert wanted <= set(result)
    first = report["results"][0]
    assert first["rows_per_s"] * 8 == pytest.approx(first["bytes_per_s"])


def test_without_a_roof_the_fractions_are_left_open(plan):
    laboratory = Laboratory(roof=False)
    findings = measure(plan, Said(), laboratory)
    assert [action for action, _, _ in laboratory.jobs].count("roof") == 1
    assert "Not timed: the roof: ModuleNotFoundError: no core." in text_of(findings)
    assert to_json(findings)["results"][0]["roof_fraction"] is None


def test_the_roof_of_kept_pages_is_of_pages_in_memory(plan):
    laboratory = Laboratory(kept=170_000_000)
    findings = measure(plan, Said(), laboratory)
    # Of each repeat, and of fastload in each mode of each repeat.
    assert [action for action, _, _ in laboratory.jobs].count("roof") == 3 + 3 * 2
    record = json.loads(json.dumps(to_json(findings)))
    assert record["roof"] == 0.1
    for entry in record["results"]:
        kept = entry["name"] == "fastload"
        assert entry["kept_bytes"] == (170_000_000 if kept else 0)
        assert entry["kept_roof"] == (0.05 if kept else None)
        if kept:
            assert entry["roof_fraction"] == pytest.approx(2 * entry["kept_roof_fraction"])
        else:
            assert entry["kept_roof_fraction"] is None
    lines = text_of(findings, verbose=True).splitlines()
    # A narrow terminal folds the name.
    rows = [line for line in lines if line.startswith("fastload, kept ")]
    assert [row.split()[-1] for row in rows] == ["0.25", "0.25"]
    assert text_of(findings).count("fastload, kept in memory ") == 2
    assert any(line.startswith("Kept in memory: 170 MB of decompressed pages") for line in lines)
    assert "ept in memory" not in text_of(measure(plan, Said(), Laboratory()))


def test_a_contender_tells_what_it_keeps(files):
    later = child.measure(Job("time", "fastload", work_of(files, threads=1), epochs=2))
    assert 0 < later.kept_bytes <= later.kept_limit_bytes
    # The only epoch had to decompress.
    only = child.measure(Job("time", "fastload", work_of(files, threads=1), epochs=1))
    assert (only.kept_bytes, only.kept_limit_bytes) == (0, 0)


@pytest.mark.timeout(120)
def test_a_job_runs_in_a_process_of_its_own(files):
    peer = next(peer for peer in OTHERS if peer.contender == "pyarrow_readers.WindowReader")
    timing = child.Timing(**launch(Job("time", peer.name, work_of(files, threads=1), epochs=2)))
    assert len(timing.epoch_s) == 2
    assert 0 < timing.first_batch_s < timing.epoch_s[0]
    assert timing.peak_rss_bytes >= timing.imports_rss_bytes > 50_000_000
    with pytest.raises(JobError, match="nowhere"):
        launch(Job("time", peer.name, work_of(["nowhere.parquet"])))
    checked = launch(Job("check", peer.name, work_of(["nowhere.parquet"])))
    assert "nowhere" in checked["in_order"]["error"]


def test_a_check_ends_at_its_limit(files, monkeypatch):
    class Slow:
        def __init__(self, work):
            pass

        def epoch(self, number):
            yield {"id": torch.arange(300)}
            threading.Event().wait()

    monkeypatch.setattr(Peer, "load", lambda peer: Slow)
    got = child.run(Job("check", "tensors in RAM, row-major", work_of(files), limit_s=0.2))[
        "in_order"
    ]
    assert got["cut_rows"] == 300
    assert got["cut_s"] >= 0.2


def test_descendants_count_as_used():
    before = machine.peak_bytes()
    reader, writer = os.pipe()
    child_pid = os.fork()
    if not child_pid:
        while time.process_time() < 0.3:
            pass
        os.write(writer, b"x")
        signal.pause()
    os.read(reader, 1)
    used = machine.cpu_s()
    own = sum(os.times()[:2])
    assert used - own > 0.25
    assert machine.peak_bytes() > before
    os.kill(child_pid, 9)
    os.waitpid(child_pid, 0)
    os.close(reader)
    os.close(writer)


def test_the_command_refuses_what_does_not_do(capsys, tmp_path, monkeypatch):
    from fastload.tools.cli.bench import main

    for arguments in (["--batch-size", "0"], ["--threads", "x"], ["--workers", "-1"]):
        with pytest.raises(SystemExit):
            main(arguments)
        assert "Expected a number" in capsys.readouterr().err
    assert main(["--peers", "pandas"]) == 2
    assert "Expected peers out of pyarrow, polars, memory, huggingface" in capsys.readouterr().err
    assert main([str(tmp_path / "nothing.parquet")]) == 2
    assert "nothing.parquet" in capsys.readouterr().err
