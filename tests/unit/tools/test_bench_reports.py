import io
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from fastload.tools.bench import roofline, tune
from fastload.tools.bench.peers import PEERS, Work
from fastload.tools.bench.profile import Profile, profile
from fastload.tools.bench.profile import report as profile_report
from fastload.tools.bench.report import charts
from fastload.tools.bench.report.page import page
from fastload.tools.bench.report.record import schema, to_json
from fastload.tools.bench.report.timeline import timeline
from fastload.tools.bench.roofline import StageRoofs
from fastload.tools.bench.session import Findings, Plan, Result
from fastload.tools.bench.survey import survey
from support import browser
from support.bench_jobs import launch_from_fork_server

NAMES = ("label", "price", "id")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("reports")
    paths = []
    for number in range(2):
        random = np.random.default_rng(number)
        rows = 3000
        columns = {
            "label": pa.array(random.integers(0, 2, rows, np.int8)),
            "price": pa.array(random.random(rows, np.float32)),
            "id": pa.array(random.integers(0, 1 << 40, rows)),
        }
        paths.append(str(directory / f"part-{number} <b>&.parquet"))
        pq.write_table(pa.table(columns), paths[-1], row_group_size=1000)
    return paths


@pytest.fixture(scope="module")
def work(files):
    return Work(tuple(files), NAMES, batch_size=500, shuffle=True, threads=1, window_rows=2000)


@pytest.fixture(scope="module")
def seen(work):
    # As it comes from the other process.
    fields = json.loads(json.dumps(vars_of(profile(work, 0.002, 2))))
    return Profile(**fields)


def vars_of(record):
    return {name: getattr(record, name) for name in record.__slots__}


@pytest.fixture(scope="module")
def roofs(work):
    patience, roofline._PASSES_S = roofline._PASSES_S, 0.05
    try:
        return StageRoofs(**json.loads(json.dumps(vars_of(roofline.measure(work)))))
    finally:
        roofline._PASSES_S = patience


class Machine:
    """Answers with epochs that are as long as the threads and the prefetch make them."""

    def __init__(self, best):
        self.best = best
        self.settings = []

    def __call__(self, job):
        work = job.work
        self.settings.append((work.threads, work.workers, work.prefetch))
        seconds = 0.5 if work.threads == self.best else 1.0
        return {
            "epoch_s": [9.0, seconds, seconds * 1.02, seconds * 0.98],
            "first_batch_s": 0.1,
            "cpu_s": 1.0,
            "imports_rss_bytes": 1,
            "peak_rss_bytes": 2,
            "bottleneck": "decode",
        }


@pytest.fixture(scope="module")
def tuning(work):
    return tune.tune(work, 6000, 60, lambda what: None, run=Machine(best=2))


@pytest.fixture(scope="module")
def findings(files, work, seen, roofs, tuning):
    plan = Plan(survey(files), PEERS, ("shuffled", "in_order"), work, others={"ray": True})
    results = [
        Result(peer, "1.2", mode, 0.1 * k, 0.05, 0.2, 10**8, 9 * 10**8, "decode", 3, 0.05 * k)
        for mode in plan.modes
        for k, peer in enumerate(PEERS[:3], 1)
    ]
    left_out = [("LitData", "", "litdata is not installed: pip install litdata")]
    left_out.append(("Daft", "shuffled", "cut off after 20 s"))
    return Findings(
        plan,
        ("--html", "a <file>"),
        0.05,
        results,
        left_out,
        {("Daft", "shuffled"): 4.2},
        roofs,
        seen,
        tuning,
    )


def test_the_json_is_as_its_schema_says(findings, files, work):
    record = json.loads(json.dumps(to_json(findings)))
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(record, schema(), jsonschema.Draft202012Validator)
    plain = Findings(Plan(survey(files), PEERS, ("in_order",), work))
    jsonschema.validate(to_json(plain), schema(), jsonschema.Draft202012Validator)
    layout = record["dataset"]["layout"]
    assert [(one["file"], one["rows"]) for one in layout["row_groups"]] == [
        (number, 1000) for number in (0, 0, 0, 1, 1, 1)
    ]
    stored = record["dataset"]["stored_bytes"]
    assert sum(one["stored_bytes"] for one in layout["row_groups"]) == stored
    assert sum(one["stored_bytes"] for one in layout["columns"]) == stored
    assert sum(one["decoded_bytes"] for one in layout["columns"]) == 6000 * 13
    assert record["left_out"][1]["rows_per_s"] == 4.2


def test_a_profile_sees_the_loop(seen):
    assert (seen.epochs, seen.number_of_steps) == (2, 24)
    assert [step["index"] for step in seen.steps] == [*range(12)] * 2
    assert seen.working_s >= 24 * 0.002
    assert 0 < seen.share < 1
    assert seen.memory[-1]["resident"] > 0
    stages = {span.stage for span in seen.trace().spans}
    assert {"prepare", "fill", "wait", "train"} <= stages
    assert sum(span.stage == "train" for span in seen.trace().spans) == 24
    text = profile_report(seen)
    assert "In a loop with steps of 2 ms, shuffled:" in text
    assert "(epoch start)" in text


def test_the_roofs_are_of_the_same_files(roofs):
    # All pages are kept.
    assert roofs.kept_bytes > 0
    assert (roofs.read_s, roofs.decompress_s) == (0, 0)
    assert roofs.kept_read_s > 0
    assert roofs.memcpy_s > 0
    assert roofs.roof_s == roofs.kept_read_s + roofs.memcpy_s
    assert "1" in roofs.by_threads
    assert set(roofs.codecs) == {"none", "snappy", "lz4", "zstd"}
    assert roofs.stored_codecs == ["snappy"]
    lines = roofline.table(roofs).splitlines()
    assert lines[0].split() == ["roof", "fastload", "of", "roof"]
    assert lines[-1].split()[0] == "epoch"


def roofs_of(**changes):
    fields = {
        "threads": 2,
        "read_s": 0.1,
        "decompress_s": 0.3,
        "memcpy_s": 0.31,
        "h2d_s": None,
        "epoch_s": 1.0,
        "spread": 0.02,
        "fastload_read_s": 0.1,
        "fastload_decode_s": 1.8,
        "waiting": 0.9,
        "bottleneck": "decode",
        "by_threads": {"1": [1.9, 0.02], "2": [1.0, 0.02], "4": [0.6, 0.02]},
        "codecs": {"none": 0.1, "snappy": 0.2, "zstd": 0.32},
        "stored_codecs": ["zstd"],
    }
    return StageRoofs(**{**fields, **changes})


def test_the_verdict_says_what_was_measured():
    assert roofline.verdict(roofs_of()) == (
        "Decode-bound: 71 % of the roof; more threads help up to 4: 1.7 x; "
        "zstd costs 1.6 x over snappy in reading and decompressing."
    )
    noisy = roofs_of(by_threads={"1": [1.9, 0.1], "2": [1.0, 0.1], "4": [0.9, 0.1]})
    assert "more than 2 threads gain nothing up to 4, within the noise" in roofline.verdict(noisy)
    text = roofline.verdict(roofs_of(stored_codecs=["snappy"], bottleneck="consumer", h2d_s=2.0))
    assert text.startswith("Bound by the consumer: ")
    assert "costs" not in text
    assert text.endswith("copies to the device take longer than an epoch.")


def test_the_roofline_says_which_roof(roofs):
    kept = roofs_of(read_s=0.0, decompress_s=0.0, kept_bytes=170_000_000, kept_read_s=0.09)
    text = roofline.report(kept)
    assert "Decode-bound: 40 % of the roof over pages kept in memory; more threads help" in text
    assert "in reading and decompressing, which first epochs do." in text
    assert "read kept pages" in text
    assert "170 MB of decompressed pages are kept in memory: the roof reads these pages" in text
    other = roofline.report(roofs_of())
    assert "kept" not in other
    assert "the roof decompresses every page" in other


def test_a_search_finds_what_is_faster_by_more_than_the_noise(work):
    machine = Machine(best=2)
    found = tune.tune(work, 6000, 60, lambda what: None, run=machine)
    assert found.best == tune.Setting(threads=2)
    assert machine.settings[:3] == [(1, 0, None)] * 3
    # What is better is tried again before it is believed.
    assert machine.settings.count((2, 0, None)) == 3
    text = tune.remarks(found, work.files[0], NAMES, work)
    assert "2.00 times as fast" in text
    program = text[text.index("from torch") :]
    dataset, loader = program.splitlines()[-2:]
    assert dataset.startswith(f"dataset = FastParquetDataset({work.files[0]!r}, columns=['label',")
    assert dataset.endswith("shuffle=True, threads=2)")
    assert loader == "loader = DataLoader(dataset, batch_size=None)"
    assert "<- best" in tune.table(found)
    pasted = {}
    exec(program, pasted)
    assert sum(len(batch["id"]) for batch in pasted["loader"]) == 3000


def test_the_program_has_all_of_a_setting(work, tmp_path):
    best = tune.Setting(threads=1, workers=1, prefetch=8, request_bytes=2_000_000)
    tuning = tune.Tuning([], best, 0.0, 6000, shuffled=False, seconds=1.0, left_out=0)
    cached = replace(work, cache_dir=str(tmp_path / "cache"))
    program = tune.constructor(tuning, work.files[0], ("id",), cached)
    assert "prefetch=8" in program
    assert 'io=IO(request_bytes="2MB")' in program
    pasted = {}
    exec(program, pasted)
    assert sum(len(batch["id"]) for batch in pasted["loader"]) == 3000


def test_a_search_keeps_the_defaults_and_its_time(work):
    found = tune.tune(work, 6000, 60, lambda what: None, run=Machine(best=99))
    assert found.best == found.trials[0].setting
    assert "nothing tried was faster" in tune.remarks(found, "a", NAMES, work)
    short = tune.tune(work, 6000, 0, lambda what: None, run=Machine(best=2))
    assert len(short.trials) == 1
    assert short.left_out > 3
    assert f"left {short.left_out} untried" in tune.remarks(short, "a", NAMES, work)


class Outline(HTMLParser):
    """What a page is made of."""

    VOID = frozenset({"meta", "link", "rect", "polyline"})

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.headings = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and re.fullmatch("h[1-6]", self.open[-1]):
            self.headings.append((self.open[-1], data))

    def of(self, name):
        return [attributes for tag, attributes in self.tags if tag == name]


@pytest.fixture(scope="module")
def html(findings, seen):
    return page(to_json(findings), seen)


def test_the_page_is_whole_and_readable_by_machines(html):
    outline = Outline()
    outline.feed(html)
    assert outline.open == []
    assert [level for level, _ in outline.headings].count("h1") == 1
    assert [text for level, text in outline.headings if level == "h2"] == [
        "Summary",
        "Shuffled: rows a second",
        "In order: rows a second",
        "Distance from the roof",
        "Waits for data",
        "Timeline",
        "Memory over time",
        "Tuning",
        "The files",
        "How it was measured",
        "Not measured",
    ]
    assert len(outline.of("svg")) >= 4
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in outline.of("svg"))
    assert len(outline.of("table")) == len(outline.of("caption"))
    assert all("scope" in cell for cell in outline.of("th"))
    assert outline.of("html") == [{"lang": "en"}]
    assert "viewport" in [meta.get("name") for meta in outline.of("meta")]
    assert "prefers-color-scheme: dark" in html


def test_the_page_asks_nobody_for_anything(html):
    outline = Outline()
    outline.feed(html)
    assert outline.of("script") == []
    assert "http:" not in html
    assert "https:" not in html
    assert "url(" not in html
    links = [attributes.get("href") for _, attributes in outline.tags if "href" in attributes]
    assert links == ["data:,"]
    # What files are called is text.
    assert "part-0 &lt;b&gt;&amp;.parquet" in html
    assert "<b>" not in html


def test_whiskers_stay_in_the_chart():
    items = [("wild", 5.0, 3.8), ("noisy", 9.0, 0.9), ("calm", 10.0, 0.1)]
    drawn = charts.bars([charts.Bar(name, value, spread, name) for name, value, spread in items])
    places = re.findall(r"left:(.*?)%;width:(.*?)%\"></span>", drawn)
    assert places == [("8.18", "91.82"), ("81.82", "18.18")]
    assert "wild, unstable" in drawn


def test_the_top_of_the_page_says_it_all(findings):
    record = to_json(findings)
    html = page(record, None)
    head = html[html.index("<header>") : html.index("</header>")]
    for words in ("<h1>", "as fast as", record["host"]["cpu"], record["created"][:10], "--html"):
        assert words in head
    assert html.index("Not measured") > html.index("How it was measured")


def test_steps_without_length_are_no_waits(findings, seen):
    record = to_json(findings)
    record["profile"]["step_s"] = 0.0
    html = page(record, None)
    assert "Waits for data" not in html
    assert "of the time goes on waiting" not in html
    assert "Memory over time" in html


def test_a_page_without_the_rest(files, work):
    plain = Findings(Plan(survey(files), PEERS, ("in_order",), work))
    outline = Outline()
    outline.feed(page(to_json(plain), None))
    assert [text for level, text in outline.headings if level == "h2"] == [
        "The files",
        "How it was measured",
    ]


def contrast(one, other):
    """Of two colours such as #ffffff, as WCAG 2 reckons it: 1 to 21."""

    def luminance(colour):
        levels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in levels]
        return np.dot(linear, (0.2126, 0.7152, 0.0722))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_letters_and_charts_stand_out(html):
    schemes = re.findall(r":root {(.*?)}", html, re.DOTALL)
    assert len(schemes) == 2
    for scheme in schemes:
        colours = dict(re.findall(r"--(\w+): (#\w{6});", scheme))
        grounds = [colours.pop("paper"), colours.pop("panel")]
        del colours["line"]  # between rows, which are apart without it
        assert len(colours) > 10
        for name, colour in colours.items():
            least = 4.5 if name in ("ink", "soft", "ours") else 3
            assert min(contrast(colour, ground) for ground in grounds) >= least, name


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    """A tab of a browser, which CI has to have."""
    installed = browser.installed()
    if installed is None:
        advice = f"no browser: apt-get install {browser.NAMES[0]}"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{advice} (CI runs every test)")
        pytest.skip(advice)
    with browser.opened(installed, tmp_path_factory.mktemp("browser")) as tab:
        yield tab


@pytest.mark.timeout(120)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1100])
def test_a_browser_renders_the_page(html, tab, tmp_path, width, dark):
    path = tmp_path / "report.html"
    path.write_text(html, encoding="utf-8")
    tab.messages.clear()
    tab.requests.clear()
    tab.show(path.as_uri(), width=width, dark=dark)
    assert tab.messages == []
    assert set(tab.requests) <= {path.as_uri(), "data:,"}
    # What is wider than the window scrolls by itself.
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)")
    picture = Image.open(io.BytesIO(tab.picture(width)))
    assert picture.width == width
    assert picture.height == tab.evaluate("document.documentElement.scrollHeight")
    # Paper, panels, letters and each colour of the charts.
    assert len(picture.convert("RGB").getcolors(1 << 24)) > 100


@pytest.mark.timeout(120)
def test_a_screen_reader_is_told_all(html, tab, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(html, encoding="utf-8")
    tab.show(path.as_uri(), width=1100)
    tab.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    nodes = tab.nodes()
    named = ("RootWebArea", "heading", "image", "table", "region", "columnheader", "rowheader")
    roles = {role for role, _ in nodes}
    assert {"main", "heading", "image", "table", "region", "rowheader", "list"} <= roles
    assert [role for role, name in nodes if role in named and not name.strip()] == []


def test_the_timeline_of_a_loop_that_begins_late(seen):
    """As on a busy machine: the first step begins after as long as both epochs last."""
    late_ns = 10**10
    late = replace(seen, start_ns=seen.start_ns - late_ns, seconds=seen.seconds + late_ns / 1e9)
    for shown in (timeline(seen), timeline(late)):
        assert "training steps" in shown
        assert "columns decoded into batches" in shown


def test_the_command_writes_its_reports(files, tmp_path, capsys, monkeypatch):
    from fastload.tools.cli.bench import main

    launch_from_fork_server(monkeypatch)
    paths = {name: tmp_path / f"report.{name}" for name in ("json", "html", "trace")}
    outputs = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    arguments = [
        *files[:1],
        "--peers",
        "none",
        "--copies",
        "2",
        "--epochs",
        "2",
        "--repeats",
        "1",
        "--no-shuffle",
        "--threads",
        "1",
    ]
    assert main([*arguments, "--step-ms", "0.5", *outputs]) == 0
    out = capsys.readouterr().out
    assert "In a loop with steps of 0.5 ms, in order:" in out
    record = json.loads(paths["json"].read_text())
    jsonschema.validate(record, schema(), jsonschema.Draft202012Validator)
    assert record["command"][1:] == [*arguments, "--step-ms", "0.5", *outputs]
    assert record["profile"]["step_s"] == 0.0005
    assert "<h2>Timeline</h2>" in paths["html"].read_text()
    stages = {event.get("cat") for event in json.loads(paths["trace"].read_text())["traceEvents"]}
    assert {"fill", "wait", "train"} <= stages
    assert main(["--peers", "none", "--json", str(tmp_path / "no" / "where.json")]) == 2
    assert "Expected a directory to write to" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--step-ms", "-1"])
