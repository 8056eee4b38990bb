"""What the build refuses, before it compiles anything."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fastload

ROOT = Path(__file__).parents[3]


def run(code: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def setup(*arguments: str, prelude: str = "", **environment: str) -> subprocess.CompletedProcess:
    code = f"import runpy, sys\n{prelude}\nsys.argv = {['setup.py', *arguments]}\n"
    return run(code + "runpy.run_path('setup.py', run_name='__main__')", **environment)


@pytest.mark.parametrize("platform", ["win32", "cygwin"])
def test_other_systems_are_refused_by_name(platform):
    result = setup("--version", prelude=f"sys.platform = {platform!r}")
    assert result.returncode == 1
    assert result.stderr.startswith(f"Expected Linux or macOS, got {platform}: ")
    assert "WSL 2" in result.stderr


@pytest.mark.parametrize(
    ("platform", "library"), [("linux", "libarrow.so.2600"), ("darwin", "libarrow.2600.dylib")]
)
def test_libraries_are_linked_by_the_names_of_the_system(platform, library):
    code = (
        "import runpy, sys, setuptools\n"
        "setuptools.setup = lambda **given: None\n"
        f"import pybind11.setup_helpers\nsys.platform = {platform!r}\n"
        "built = runpy.run_path('setup.py')\n"
        "print(built['Pyarrow']('26.0.1', '', '/there').library('arrow'))"
    )
    result = run(code)
    assert result.stdout == f"/there/{library}\n", result.stderr


def test_major_version_that_is_none_is_refused(tmp_path):
    build = ["build_ext", "--build-lib", str(tmp_path), "--build-temp", str(tmp_path)]
    result = setup(*build, FASTLOAD_PYARROWS="26.0")
    assert result.returncode == 1
    assert "Expected major versions in FASTLOAD_PYARROWS, such as '25 26', got '26.0'" in (
        result.stderr
    )


def test_wheels_hold_a_core_for_each_pyarrow_asked_for():
    code = (
        "import setuptools\n"
        "setuptools.setup = lambda **given: print(*(core.name for core in given['ext_modules']))"
    )
    result = setup(prelude=code, FASTLOAD_PYARROWS="24 25", FASTLOAD_PURE="")
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [
        "fastload.runtime._core_pyarrow24",
        "fastload.runtime._core_pyarrow25",
    ]


def test_units_include_each_source_and_depend_on_it(tmp_path):
    shown = "lambda self, ext: print(*ext.sources, '|', *ext.depends)"
    prelude = (
        f"from setuptools.command.build_ext import build_ext\nbuild_ext.build_extension = {shown}"
    )
    (tmp_path / "fastload" / "runtime").mkdir(parents=True)
    build = ["build_ext", "--build-lib", str(tmp_path), "--build-temp", str(tmp_path)]
    result = setup(*build, prelude=prelude, FASTLOAD_PURE="")
    assert result.returncode == 0, result.stderr
    units, depends = (part.split() for part in result.stdout.splitlines()[-1].split("|"))
    included = re.findall('#include "(.*)"', "".join((ROOT / unit).read_text() for unit in units))
    sources = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "csrc").rglob("*.cc"))
    assert sorted(included) == sources
    assert set(sources) <= set(depends)


def test_version_is_written_in_one_place():
    result = setup("--version", FASTLOAD_PURE="1")
    assert result.returncode == 0, result.stderr
    assert result.stdout.split()[-1] == fastload.__version__
