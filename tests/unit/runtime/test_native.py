"""The core is only loaded beside the pyarrow it was built against."""

import re
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pyarrow
import pytest

import fastload
from fastload.runtime import native as _native


def import_in(directory: Path) -> subprocess.CompletedProcess[str]:
    """Imports the `native` of a copy of the package in a process of its own."""
    return run_in(
        directory, "import fastload.runtime.native as native; print(native.core.__name__)"
    )


def run_in(directory: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Runs the code in a process of its own, which finds the copy first."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of what loads the core, in an otherwise empty package."""
    source = Path(fastload.__file__).parent / "runtime"
    copy = tmp_path / "fastload" / "runtime"
    copy.mkdir(parents=True)
    for path in [
        *source.glob("interpreter.py"),
        *source.glob("native.py"),
        *source.glob("_build_info.py"),
        *source.glob("*.so"),
    ]:
        shutil.copy(path, copy)
    (copy / "__init__.py").touch()
    (copy.parent / "__init__.py").touch()
    return copy


def test_core_is_loaded_beside_its_pyarrow():
    assert _native.core.__name__ == "fastload.runtime._core"


def test_copy_of_the_package_loads(package):
    result = import_in(package.parent.parent)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "fastload.runtime._core\n"


def write_versions(package: Path, *versions: str) -> None:
    """Says that the cores in the copy were built against these pyarrows."""
    (package / "_build_info.py").write_text(f"PYARROW_VERSIONS = {versions}\n")


def test_classes_are_found_by_the_one_name(package):
    code = (
        "import sys, fastload.runtime.native as native, fastload\n"
        "import fastload.runtime._core as by_name\n"
        "core = fastload.runtime._core\n"
        "assert native.core is by_name is core is sys.modules['fastload.runtime._core']\n"
        "assert by_name.Footer.__module__ == 'fastload.runtime._core'"
    )
    result = run_in(package.parent.parent, code)
    assert result.returncode == 0, result.stderr


def test_core_of_the_installed_pyarrow_is_picked_among_several(package):
    write_versions(package, "19.0.1", pyarrow.__version__, "99.0.0")
    for major in (19, 99):  # would not load
        (package / f"_core_pyarrow{major}{EXTENSION_SUFFIXES[0]}").write_bytes(b"no library")
    result = import_in(package.parent.parent)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "fastload.runtime._core\n"


def test_core_built_for_another_pyarrow_is_refused(package):
    write_versions(package, "19.0.1")
    result = import_in(package.parent.parent)
    assert result.returncode == 1
    message = result.stderr.splitlines()[-1]
    assert message.startswith("ImportError: Expected pyarrow 19.0, which ")
    assert f"got pyarrow {pyarrow.__version__}" in message
    assert "pip install --no-build-isolation" in message
    assert "make build" in message


def test_core_that_was_never_built_says_so(package):
    (package / "_build_info.py").unlink()
    result = import_in(package.parent.parent)
    assert result.returncode == 1
    message = result.stderr.splitlines()[-1]
    assert message.startswith("ImportError: Expected fastload's compiled core, found none")
    assert "make build" in message


@pytest.mark.parametrize(
    ("built", "installed"),
    [("26.0.1", "26.0.0"), ("26.0.1", "26.0.1.dev3"), ("27.1.0", "27.1.2")],
)
def test_patch_releases_share_their_core(built, installed):
    assert _native.fitting(["25.0.1", built, "28.0.0"], installed) == built


@pytest.mark.parametrize("installed", ["25.0.1", "27.0.0", "26.1.0", "2.0.1"])
def test_other_series_are_refused(installed):
    with pytest.raises(ImportError, match=re.escape(f"got pyarrow {installed}")):
        _native.fitting(["26.0.1"], installed)


def test_refusal_names_every_series_there_is():
    with pytest.raises(ImportError, match=r"^Expected pyarrow 24\.0 or 25\.0 or 26\.0, which "):
        _native.fitting(["24.0.0", "25.0.1", "26.0.1"], "27.0.0")
