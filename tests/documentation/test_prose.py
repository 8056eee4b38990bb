"""What the check of the language refuses, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from prose import docstrings, findings

PAGE = Path("page.md")

REFUSED = [
    "The files are written anew.",
    "A cache makes room for what was not used for longest.",
    "Under torchrun nothing is to be done.",
    "Below some 3 % there is nothing to gain.",
    "The former is raised first.",
    "It reads strings too.",
    "It reads lists as well.",
    "What a layout costs.",
    "Those that shuffle.",
    "One paragraph.\n\nWhether a pass finds its rows.",
]
ALLOWED = [
    "fastload rewrites the files.",
    "The window is too large.",
    "It works as well as before.",
    "What you pass is a list.",
    "```text\nwritten anew, too.\n```",
    "Call `anew.too.` now.",
    "### `Expected nobody, too.`",
    "<!-- not run: anew -->",
    "[a page](anew.md)",
]


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text):
    assert list(findings(PAGE, text))


@pytest.mark.parametrize("text", ALLOWED)
def test_allowed(text):
    assert list(findings(PAGE, text)) == []


def test_line_is_that_of_the_phrase():
    text = "One.\n\n```sh\nls\n```\n\nTwo lines,\nwritten anew.\n"
    (found,) = findings(PAGE, text)
    assert str(found).startswith("page.md:8: ")
    assert [one.line for one in findings(PAGE, "It is anew.", first_line=5)] == [5]


def test_public_docstrings_alone(tmp_path):
    module = tmp_path / "module.py"
    module.write_text('def _f():\n    """Hidden."""\n\n\nclass C:\n    """Shown."""\n')
    assert list(docstrings(module)) == [(6, "Shown.")]
