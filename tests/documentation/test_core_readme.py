"""The core's README names files, functions and folders as they are."""

import re
import runpy
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[2] / "csrc"
TEXT = (CSRC / "fastload" / "README.md").read_text()
QUOTED = sorted(set(re.findall(r"`([^`\n]+)`", TEXT)))
FILES = [name for name in QUOTED if name.endswith((".cc", ".h"))]
FUNCTIONS = [name for name in QUOTED if re.fullmatch(r"[A-Z]\w*(::\w+)?", name)]


# `file` `function`, `function` of `file`, `function` (`file`).
PLACES = {
    *((found[1], found[0]) for found in re.findall(r"`(\S+\.cc|\S+\.h)`\s+`([\w:]+)`", TEXT)),
    *re.findall(r"`([\w:]+)`\s+(?:of\s+|\()`(\S+\.cc|\S+\.h)`", TEXT),
}


def source(file):
    return next(root / file for root in (CSRC / "fastload", CSRC) if (root / file).exists())


@pytest.fixture(scope="module")
def sources():
    return "\n".join(p.read_text() for p in sorted(CSRC.rglob("*")) if p.suffix in (".cc", ".h"))


def test_names_are_found():
    assert len(FILES) > 20
    assert len(FUNCTIONS) > 40
    assert len(PLACES) > 30


@pytest.mark.parametrize("file", FILES)
def test_file_exists(file):
    assert source(file).is_file()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_function_exists(function, sources):
    owner, _, name = function.rpartition("::")
    assert re.search(rf"\b{name}\b", sources)
    assert re.search(rf"\b{owner}\b", sources)


@pytest.mark.parametrize(("function", "file"), sorted(PLACES))
def test_function_is_in_its_file(function, file):
    assert re.search(rf"\b{function.rpartition('::')[2]}\b", source(file).read_text())


def test_folders_are_those_of_the_includes():
    folders = runpy.run_path(str(CSRC / "check_includes.py"))["FOLDERS"]
    rows = re.findall(r"^\| `([\w/]+)` \|", TEXT, re.MULTILINE)
    assert [*rows, "bindings"] == list(folders)
