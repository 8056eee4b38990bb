"""Every Python block of the README and of the documentation runs."""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from pathlib import Path

import pytest
import torch

from page_blocks import blocks_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_BLOCKS = [page for page in PAGES if blocks_of(page.read_text())]
# What blocks may need that isn't here; anything else has to run.
LACKING = {
    "Azure",
    "CUDA",
    "Hugging Face datasets",
    "S3",
    "a Ray cluster",
    "a trainer",
    "litdata",
    "petastorm",
    "the Hub",
    "torchrun",
    "torchvision",
}


pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Profiler clears events"),  # by torch 2.11, always
    # torch computes nested attention on a CPU by an API that it warns of.
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
]


@pytest.fixture(scope="module")
def source_text():
    """All that may say something to a user."""
    places = [
        ROOT / "setup.py",
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "csrc").rglob("*.cc"),
    ]
    text = "".join(path.read_text() for path in places)
    # A sentence goes on in the next line.
    return re.sub(r'"\n\s*f?"', "", text)


def test_pages_have_blocks():
    assert len(WITH_BLOCKS) > 15
    needs = {block.needs for page in PAGES for block in blocks_of(page.read_text())}
    assert needs - {None} <= LACKING


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: os.fspath(page.relative_to(ROOT)))
def test_blocks_run(page):
    namespace = {"__name__": "__page__"}
    for block in blocks_of(page.read_text()):
        code = compile(block.code, str(page), "exec")
        if block.needs is None or (block.needs == "CUDA" and torch.cuda.is_available()):
            with _warnings_of(page):
                exec(code, namespace)
    assert [name for name, value in namespace.items() if _holds_nan(value)] == []


def _holds_nan(value):
    """Return True for a batch with NaN, and for a model that was trained on NaN."""
    if isinstance(value, torch.nn.Module):
        value = value.state_dict()
    if isinstance(value, dict):
        return any(map(_holds_nan, value.values()))
    return (
        isinstance(value, torch.Tensor)
        and value.device.type == "cpu"
        and bool((value != value).any())
    )


@contextlib.contextmanager
def _warnings_of(page):
    """Let trainers warn of torch, and of a machine without a GPU, which fastload can't change."""
    with warnings.catch_warnings():
        if page.name in {"frameworks.md", "ray.md"}:
            warnings.simplefilter("ignore")
        yield


def test_messages_are_those_of_the_code(source_text):
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    messages = re.findall(r"^### `(.*)`$", page, re.MULTILINE)
    assert len(messages) > 20
    for message in messages:
        for part in message.split("…"):
            # A name in quotes is formatted by `!r`.
            assert part.strip(" `()'") in source_text, message


def test_code_of_the_landing_page_fits_a_phone():
    page = (ROOT / "docs" / "index.md").read_text()
    code = "".join(block.code for block in blocks_of(page))
    assert max(map(len, code.splitlines())) <= 60
