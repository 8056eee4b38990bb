import io
import json
import os
import re
from html.parser import HTMLParser

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from fastload.tools.bench.peers import PEERS, Work
from fastload.tools.bench.profile import Profile, profile
from fastload.tools.bench.report import picture
from fastload.tools.bench.report.page import page
from fastload.tools.bench.report.record import schema, to_json
from fastload.tools.bench.report.text import waits
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
def findings(files, work, seen):
    plan = Plan(survey(files), PEERS, ("shuffled", "in_order"), work)
    results = [
        Result(peer, "1.2", mode, 0.1 * k, 0.05, 0.2, 10**8, 9 * 10**8, "decode", 3, 0.05 * k)
        for mode in plan.modes
        for k, peer in enumerate(PEERS[:3], 1)
    ]
    left_out = [("HF datasets", "", "datasets is not installed: pip install datasets")]
    left_out.append(("DuckDB", "shuffled", "cut off after 20 s"))
    return Findings(
        plan,
        ("--html", "a <file>"),
        0.05,
        results,
        left_out,
        {("DuckDB", "shuffled"): 4.2},
        seen,
    )


def test_the_json_is_as_its_schema_says(findings, files, work):
    record = json.loads(json.dumps(to_json(findings)))
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(record, schema(), jsonschema.Draft202012Validator)
    plain = Findings(Plan(survey(files), PEERS, ("in_order",), work))
    jsonschema.validate(to_json(plain), schema(), jsonschema.Draft202012Validator)
    assert record["left_out"][1]["rows_per_s"] == 4.2


def test_a_profile_sees_the_loop(findings, seen):
    assert (seen.epochs, seen.steps) == (2, 24)
    assert 0 < seen.share < 1
    assert {"seconds", "epoch", "index", "where"} == set(seen.pauses[0])
    text = "\n".join(waits(to_json(findings)))
    assert "In a loop with steps of 2 ms, shuffled:" in text
    assert "(epoch start)" in text


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
def html(findings):
    return page(to_json(findings))


def test_the_page_is_whole_and_readable_by_machines(html):
    outline = Outline()
    outline.feed(html)
    assert outline.open == []
    assert [level for level, _ in outline.headings].count("h1") == 1
    assert [text for level, text in outline.headings if level == "h2"] == [
        "Summary",
        "Shuffled",
        "In order",
        "Waits for data",
        "How it was measured",
    ]
    assert [svg["role"] for svg in outline.of("svg")] == ["img"]
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


def test_the_page_says_what_was_run(findings):
    record = to_json(findings)
    html = page(record)
    assert "<h1>Shuffled, fastload is " in html
    for words in (record["host"]["cpu"], record["created"][:10], "--html"):
        assert words in html


def test_steps_without_length_are_no_waits(findings):
    record = to_json(findings)
    record["profile"]["step_s"] = 0.0
    assert "Waits for data" not in page(record)


def test_a_page_without_the_rest(files, work):
    plain = Findings(Plan(survey(files), PEERS, ("in_order",), work))
    outline = Outline()
    outline.feed(page(to_json(plain)))
    headings = [text for level, text in outline.headings if level == "h2"]
    assert headings == ["How it was measured"]


def contrast(one, other):
    """Of two colours such as #ffffff, as WCAG 2 reckons it: 1 to 21."""

    def luminance(colour):
        levels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in levels]
        return np.dot(linear, (0.2126, 0.7152, 0.0722))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_letters_and_bars_stand_out(html):
    schemes = re.findall(r":root {(.*?)}", html, re.DOTALL)
    assert len(schemes) == 2
    for scheme in schemes:
        colours = dict(re.findall(r"--(\w+): (#\w{6});", scheme))
        assert contrast(colours["ink"], colours["paper"]) >= 4.5
        assert contrast(colours["soft"], colours["paper"]) >= 4.5
    for place in (1, 2):
        colours = {names[0]: names[place] for names in picture._COLOURS}
        paper = colours.pop(".paper")
        for name, colour in colours.items():
            least = 3 if name in (".bar", ".ours") else 4.5
            assert contrast(colour, paper) >= least, name


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
    screen = Image.open(io.BytesIO(tab.picture(width)))
    assert screen.width == width
    assert screen.height == tab.evaluate("document.documentElement.scrollHeight")
    # Paper, letters and bars.
    assert len(screen.convert("RGB").getcolors(1 << 24)) > 100


@pytest.mark.timeout(120)
def test_a_screen_reader_is_told_all(html, tab, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(html, encoding="utf-8")
    tab.show(path.as_uri(), width=1100)
    nodes = tab.nodes()
    named = ("RootWebArea", "heading", "image", "table", "region", "columnheader", "rowheader")
    roles = {role for role, _ in nodes}
    assert {"main", "heading", "image", "table", "region", "rowheader"} <= roles
    assert [role for role, name in nodes if role in named and not name.strip()] == []


def test_the_command_writes_its_reports(files, tmp_path, capsys, monkeypatch):
    from fastload.tools.cli.bench import main

    launch_from_fork_server(monkeypatch)
    paths = {name: tmp_path / f"report.{name}" for name in ("json", "html", "svg", "trace")}
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
    assert "<h2>Waits for data</h2>" in paths["html"].read_text()
    assert "</svg>" in paths["svg"].read_text()
    stages = {event.get("cat") for event in json.loads(paths["trace"].read_text())["traceEvents"]}
    assert {"fill", "wait"} <= stages
    assert main(["--peers", "none", "--json", str(tmp_path / "no" / "where.json")]) == 2
    assert "Expected a directory to write to" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--step-ms", "-1"])
