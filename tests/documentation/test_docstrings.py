"""The examples in docstrings of public classes and functions run."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap

import pyarrow.parquet
import pytest
import torch
from torch.utils.data import DataLoader

import fastload
import fastload.testing
from fastload.engine.stats import Stats
from fastload.schema.fields import Schema

# The modules whose classes may be without an example.
WITHOUT = {
    "fastload.errors",
    "fastload.testing.quality",
}
PUBLIC = {
    **{name: getattr(fastload, name) for name in fastload.__all__},
    **{name: getattr(fastload.testing, name) for name in fastload.testing.__all__},
    "Schema": Schema,
    "Stats": Stats,
}


def example_of(thing):
    """The code below `Example:` in a docstring, or None."""
    docstring = inspect.cleandoc(thing.__doc__)
    found = re.search(r"^Example:\n((?: {4}.*\n|\n)+)", docstring + "\n", re.MULTILINE)
    return found and textwrap.dedent(found[1])


WITH_EXAMPLE = {name: thing for name, thing in PUBLIC.items() if example_of(thing)}


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - set(WITH_EXAMPLE)))
def test_names_have_an_example(name):
    assert PUBLIC[name].__module__ in WITHOUT, "no example"


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", sorted(WITH_EXAMPLE))
def test_examples_run(name):
    code = example_of(PUBLIC[name])
    assert 2 <= len(code.strip().splitlines()) <= 7
    namespace = {
        "__name__": "__docstring__",
        "DataLoader": DataLoader,
        "fastload": fastload,
        "functools": functools,
        "pyarrow": pyarrow,
        "torch": torch,
        "train": lambda batch: None,
        **PUBLIC,
    }
    namespace["ds"] = fastload.FastParquetDataset("train", columns=["f1", "label"])
    exec(compile(code, f"<example of {name}>", "exec"), namespace)
