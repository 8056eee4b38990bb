"""The reference shows every public name with its signature, its parameters and its errors."""

from __future__ import annotations

import ast
import html
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fastload
import fastload.images
import fastload.testing

ROOT = Path(__file__).resolve().parents[2]
ERRORS = {name for name in fastload.__all__ if name.endswith("Error")}
INTEGRATIONS = sorted((ROOT / "src/fastload/integrations").glob("[!_]*.py"))
OTHERS = ["schema.fields.Schema", "schema.fields.Field", "engine.stats.Stats"]
# The kinds of boxes that a page may ask for.
BOXES = {"note", "tip", "warning"}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The text of the reference's pages, in HTML."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("needs the extra `docs`")
    site = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", site],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    return "".join(path.read_text() for path in sorted(site.glob("reference/**/index.html")))


def entry_of(reference, name):
    """The part of the reference about a class or function, its members included."""
    start = re.search(rf'<h2 id="{re.escape(name)}" class="doc doc-heading"', reference)
    assert start, f"{name} is not in the reference: name it on a page of docs/reference/"
    end = re.search(r"<h2 |</article>", reference[start.end() :])
    return reference[start.start() : start.end() + end.start()]


def text_of(part):
    return html.unescape(re.sub(r"<[^>]+>", "", part))


def tables(part, title):
    """The rows of the tables with a title, each row as the texts of its cells."""
    found = re.findall(
        rf'<span class="doc-section-title">{title}:</span>.*?<table>(.*?)</table>', part, re.DOTALL
    )
    rows = re.findall(r'<tr class="doc-section-item">(.*?)</tr>', "".join(found), re.DOTALL)
    return [
        [text_of(cell).strip() for cell in re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL)]
        for row in rows
    ]


@pytest.mark.parametrize("name", sorted(set(fastload.__all__) - ERRORS))
def test_signature_and_parameters(reference, name):
    entry = entry_of(reference, f"fastload.{name}")
    # A class with overloads has a signature for each of them.
    heads = re.findall(r'<div class="doc-signature highlight">(.*?)</div>', entry, re.DOTALL)
    assert heads, "no signature"
    signatures = text_of("".join(heads))
    described = {row[0] for row in tables(entry, "Parameters")}
    for parameter in inspect.signature(getattr(fastload, name)).parameters:
        assert re.search(rf"\b{parameter}\b", signatures), "not in the signature"
        assert parameter in described, "not in the table of parameters"


@pytest.mark.parametrize("name", [f"errors.{name}" for name in sorted(ERRORS)] + OTHERS)
def test_other_names_are_there(reference, name):
    assert entry_of(reference, f"fastload.{name}")


@pytest.mark.parametrize("name", fastload.images.__all__)
def test_names_of_images_are_there(reference, name):
    assert entry_of(reference, f"fastload.images.{name}")


@pytest.mark.parametrize("name", fastload.testing.__all__)
def test_names_of_testing_are_there(reference, name):
    assert entry_of(reference, f"fastload.testing.{name}")


@pytest.mark.parametrize("path", INTEGRATIONS, ids=lambda path: path.stem)
def test_names_of_integrations_are_there(reference, path):
    # Not imported: the framework may not be installed.
    assigned = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)]
    values = [node.value for node in assigned if ast.unparse(node.targets[0]) == "__all__"]
    for name in ast.literal_eval(*values):
        assert entry_of(reference, f"fastload.integrations.{path.stem}.{name}")


def test_the_first_page_names_each():
    page = (ROOT / "docs/reference/index.md").read_text(encoding="utf-8")
    lacking = [name for name in sorted(set(fastload.__all__) - ERRORS) if f"`{name}`" not in page]
    assert not lacking, "public names that docs/reference/index.md leaves out"


def test_no_docstring_becomes_a_box(reference):
    boxes = re.findall(
        r'<(?:details|div) class="([^"]*)"[^>]*>\s*<(?:summary|p class="adm)', reference
    )
    assert set(" ".join(boxes).split()) <= {*BOXES, "admonition"}


def test_errors_have_a_row_each(reference):
    rows = tables(reference, "Raises")
    assert len(rows) > 50
    assert [row[0] for row in rows if not re.fullmatch(r"\w+", row[0])] == []
