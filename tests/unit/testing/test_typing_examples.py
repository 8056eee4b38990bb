"""The examples that type checkers look at show the whole public interface."""

import ast
import importlib
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import fastload.integrations

EXAMPLES = sorted(Path(__file__).parents[2].glob("typing/*.py"))
MODULES = ["", "dataset.loaders.data_wait", "engine.stats", "testing", "dataset.trace"]
# Their classes are the frameworks' own, with methods that these call.
INTEGRATIONS = sorted(
    f"integrations.{path.stem}"
    for path in Path(fastload.integrations.__file__).parent.glob("[!_]*.py")
)
# What only other parts of the package use.
INTERNAL = {
    ("engine.stats", "stats_of"),
    ("dataset.trace", "CAPACITY"),
    ("dataset.trace", "recorded"),
}


def shown() -> tuple[dict[str, set[str]], set[str]]:
    """Names that the examples import and use, by module, and the attributes that they use."""
    names: dict[str, set[str]] = {}
    attributes: set[str] = set()
    for path in EXAMPLES:
        nodes = list(ast.walk(ast.parse(path.read_text())))
        used = {node.id for node in nodes if isinstance(node, ast.Name)}
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fastload"):
                found = {alias.name for alias in node.names}
                names.setdefault(node.module, set()).update(found & used)
        attributes |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        attributes |= {node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg}
    return names, attributes


def members(of: type) -> set[str]:
    """Public attributes that the package gives to a class."""
    own = [cls for cls in of.__mro__ if cls.__module__.partition(".")[0] == "fastload"]
    found = {name for cls in own for name in vars(cls) if not name.startswith("_")}
    return found | ({field.name for field in fields(of)} if is_dataclass(of) else set())


@pytest.mark.parametrize("module", [*MODULES, *INTEGRATIONS])
def test_every_public_name_has_an_example(module):
    full = f"fastload.{module}".rstrip(".")
    try:
        public = importlib.import_module(full).__all__
    except ImportError as error:
        pytest.skip(f"{full} cannot be imported here: {error}")
    expected = {name for name in public if (module, name) not in INTERNAL}
    names = shown()[0]
    assert expected - names.get(full, set()) - names["fastload"] == set()


@pytest.mark.parametrize("module", MODULES)
def test_every_public_attribute_has_an_example(module):
    imported = importlib.import_module(f"fastload.{module}".rstrip("."))
    classes = [getattr(imported, name) for name in imported.__all__]
    _, attributes = shown()
    missing = {
        f"{each.__name__}.{name}"
        for each in classes
        if isinstance(each, type)
        for name in members(each) - attributes
    }
    assert missing == set()
