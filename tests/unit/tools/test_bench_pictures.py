"""What is made of a record without measuring: pictures, Markdown, the report again."""

import json
import xml.etree.ElementTree as ET

import pytest

from fastload.tools.bench.peers import Work
from fastload.tools.bench.peers.memory_tables import ByColumn, RowMajor
from fastload.tools.bench.report.markdown import markdown
from fastload.tools.bench.report.picture import dark_path, svg
from fastload.tools.cli.bench import main
from support.bench_record import bench_record
from support.sample_files import write_sample

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def record():
    return bench_record()


def shuffled(record):
    results = [result for result in record["results"] if result["mode"] == "shuffled"]
    return sorted(results, key=lambda result: -result["rows_per_s"])


@pytest.mark.parametrize("dark", [False, True])
def test_the_figures_of_a_picture_are_those_of_its_record(record, dark):
    text = svg(record, dark=dark)
    root = ET.fromstring(text)
    texts = [node.text for node in root.iter(f"{SVG}text")]
    bars = [float(node.get("width")) for node in root.iter(f"{SVG}rect")]
    expected = shuffled(record)
    names = [name.removesuffix(" *") for name in texts[0 : 2 * len(expected) : 2]]
    assert names == [result["name"] for result in expected]
    figures = texts[1 : 2 * len(expected) : 2]
    assert figures == [f"{result['rows_per_s'] / 1e6:.1f} M" for result in expected]
    most = expected[0]["rows_per_s"]
    for width, result in zip(bars, expected, strict=True):
        assert width == pytest.approx(bars[0] * result["rows_per_s"] / most, abs=1)
    assert len(text) < 2600
    assert "script" not in text
    assert text.count("http") == 1  # the name space


def test_a_picture_says_how_tensors_in_ram_differ(record):
    texts = [node.text for node in ET.fromstring(svg(record)).iter(f"{SVG}text")]
    assert "tensors in RAM, by column *" in texts
    assert texts[-1].startswith("* The whole table in RAM beforehand, and a full permutation")
    assert any("files in the page cache" in text for text in texts)
    record["results"] = [r for r in record["results"] if r["family"] != "memory"]
    assert "RAM" not in svg(record)
    record["results"] = []
    with pytest.raises(ValueError, match="without any"):
        svg(record)


def test_names_are_text(record):
    record["dataset"]["files"] = ["/data/a <b>&.parquet"]
    assert "a &lt;b&gt;&amp;.parquet" in svg(record)
    assert "a \\<b\\>&.parquet" in markdown(record)


def test_markdown_has_the_figures(record):
    lines = markdown(record).splitlines()
    assert lines[0].startswith("**Shuffled, fastload is 1.8x as fast as the best other")
    assert "| **fastload** | 13.4 M | 1.84x | 90 ms | 365 MB | 0.143 |" in lines
    tables = [line for line in lines if line.startswith("|")]
    assert len({line.count("|") for line in tables}) == 1


def test_a_record_is_shown_again_without_measuring(record, tmp_path, capsys):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(record))
    arguments = ["--from-json", str(path), "--svg", str(tmp_path / "rows.svg")]
    arguments += ["--markdown", str(tmp_path / "rows.md"), "--html", str(tmp_path / "rows.html")]
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith("Shuffled, fastload is 1.8x")
    assert (tmp_path / "rows.svg").read_text() == svg(record)
    assert (tmp_path / "rows-dark.svg").read_text() == svg(record, dark=True)
    assert dark_path("a/rows.svg").as_posix() == "a/rows-dark.svg"
    assert "13.4 M" in (tmp_path / "rows.md").read_text()
    assert (tmp_path / "rows.html").read_text().startswith("<!doctype html>")
    path.write_text("{}")
    assert main(["--from-json", str(path)]) == 2
    assert "Expected what --json of this version wrote" in capsys.readouterr().err


@pytest.mark.parametrize("contender", [ByColumn, RowMajor])
def test_tensors_in_ram_permute_all_rows(tmp_path, contender):
    path = write_sample(tmp_path / "a.parquet", 1000)
    work = Work((str(path),), names_of(path), 300, shuffle=True)
    contender = contender(work)
    first, second = (list(contender.epoch(number)) for number in (0, 1))
    assert [len(next(iter(batch.values()))) for batch in first] == [300, 300, 300, 100]
    assert list(first[0]) == list(work.columns)
    name = work.columns[0]
    orders = [[v for batch in epoch for v in batch[name].tolist()] for epoch in (first, second)]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])


def names_of(path):
    from fastload.tools.bench.survey import survey

    return survey([str(path)]).columns
