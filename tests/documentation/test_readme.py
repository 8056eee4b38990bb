"""The picture and the figures of the README are those of the record beside the picture."""

import json
import re
from pathlib import Path

import pytest

from fastload.tools.bench.report.picture import svg
from fastload.tools.bench.report.verdict import ranked

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
RECORD = json.loads((IMAGES / "shuffled.json").read_text())


def test_the_picture_is_that_of_the_record():
    assert (IMAGES / "shuffled.svg").read_text() == svg(RECORD)


def test_ratios_are_those_of_the_record():
    readme = (ROOT / "README.md").read_text()
    rates = {entry["name"]: entry["rows_per_s"] for entry in ranked(RECORD, "shuffled")}
    own = rates.pop("fastload")
    readme = " ".join(readme.split())
    ratios = {
        name: float(found[1])
        for name in rates
        if (found := re.search(rf"([\d.]+)x the rows per second of {re.escape(name)}", readme))
    }
    assert len(ratios) == len(re.findall("x the rows per second of", readme)) >= 3
    for name, ratio in ratios.items():
        assert ratio == pytest.approx(own / rates[name], abs=0.06), name


def test_the_first_screen_is_short():
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) < 150
