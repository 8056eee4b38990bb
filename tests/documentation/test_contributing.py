"""The tables of CONTRIBUTING name folders and files that exist, and the tour names every folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "src/fastload"
NAMES = re.compile(r"`([\w./]+/|[\w./]+\.(?:py|pyi|cc|h|md))`")


def section(title):
    """The lines of the tables under a heading."""
    _, _, rest = TEXT.partition(f"\n## {title}\n")
    lines = rest.partition("\n## ")[0].splitlines()
    rows = [line for line in lines if line.startswith("| ")][1:]
    assert rows, f"Expected a table under {title}"
    return rows


def lost(row):
    """The names in a row of a table that no folder or file has.

    A name counts from the repository, from src/fastload, or from a folder named before it.
    """
    missing = []
    bases = [ROOT, PACKAGE]
    for name in NAMES.findall(row):
        found = next((base / name for base in reversed(bases) if (base / name).exists()), None)
        if found is None:
            missing.append(name)
        else:
            bases.append(found if found.is_dir() else found.parent)
    return missing


@pytest.mark.parametrize("title", ["A tour", "Where to begin"])
def test_names_exist(title):
    missing = {row.split("|")[1].strip(): names for row in section(title) if (names := lost(row))}
    assert not missing, "CONTRIBUTING.md names folders or files that are not there"


def test_the_tour_names_every_folder():
    firsts = {name for row in section("A tour") for name in NAMES.findall(row.split("|")[1])}
    folders = {f"{init.parent.name}/" for init in PACKAGE.glob("*/__init__.py")}
    assert folders - firsts == set(), "folders of src/fastload that the tour leaves out"
