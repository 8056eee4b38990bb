"""The picture of a record; tensors in RAM."""

import xml.etree.ElementTree as ET

import pytest

from fastload.tools.bench.peers import Work
from fastload.tools.bench.peers.memory_tables import ByColumn, RowMajor
from fastload.tools.bench.report.picture import svg
from support.bench_record import bench_record
from support.sample_files import write_sample

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def record():
    return bench_record()


def shuffled(record):
    results = [result for result in record["results"] if result["mode"] == "shuffled"]
    return sorted(results, key=lambda result: -result["rows_per_s"])


def test_the_figures_of_a_picture_are_those_of_its_record(record):
    text = svg(record)
    root = ET.fromstring(text)
    texts = [node.text for node in root.iter(f"{SVG}text")]
    bars = [
        float(node.get("width"))
        for node in root.iter(f"{SVG}rect")
        if node.get("class").startswith("bar")
    ]
    expected = shuffled(record)
    names = [name.removesuffix(" *") for name in texts[0 : 2 * len(expected) : 2]]
    assert names == [result["name"] for result in expected]
    figures = texts[1 : 2 * len(expected) : 2]
    assert figures == [f"{result['rows_per_s'] / 1e6:.1f} M" for result in expected]
    most = expected[0]["rows_per_s"]
    for width, result in zip(bars, expected, strict=True):
        assert width == pytest.approx(bars[0] * result["rows_per_s"] / most, abs=1)
    assert len(text) < 3000
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
