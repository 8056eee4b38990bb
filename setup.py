"""Builds the compiled core against the pyarrow that is installed.

FASTLOAD_JOBS        compilers that run at a time (default: as many as there are CPUs)
FASTLOAD_SANITIZE    for -fsanitize=, such as address,undefined: a build for tests
FASTLOAD_PURE        1: install the Python files alone (the core was built in place)
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pyarrow
import pybind11
from pybind11.setup_helpers import ParallelCompile
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
SANITIZE = os.environ.get("FASTLOAD_SANITIZE", "")
# Arrow's soname is the major and the minor version, the latter in two digits.
ARROW_SOVERSION = f"{pyarrow.cpp_version_info.major}{pyarrow.cpp_version_info.minor:02d}"
BUILD_INFO = f'''"""What the compiled core was built against; written by setup.py."""

PYARROW_VERSION = "{pyarrow.__version__}"
ARROW_SOVERSION = "{ARROW_SOVERSION}"
'''


def library_directory() -> str:
    """The directory of the libarrow and libparquet that the installed pyarrow runs on."""
    directories = pyarrow.get_library_dirs()
    for directory in directories:
        if Path(directory, f"libparquet.so.{ARROW_SOVERSION}").exists():
            return str(directory)
    sys.exit(
        f"Expected libparquet.so.{ARROW_SOVERSION} of pyarrow {pyarrow.__version__} in one of "
        f"{', '.join(directories)}, found none: install pyarrow's wheel (Linux, x86-64 or ARM)"
    )


def relative(pattern: str) -> list[str]:
    """Paths of this tree that match, sorted, relative to it (setuptools asks for that)."""
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern))


def needs_recompile(object_path: str, source_path: str) -> bool:
    """Whether the source, a header it includes or this file is newer than the object."""
    object_file = Path(object_path)
    dependencies = object_file.with_suffix(".d")
    if not dependencies.exists():
        return True
    prerequisites = dependencies.read_text().replace("\\\n", " ").split(": ", 1)[1].split()
    built = object_file.stat().st_mtime
    return any(
        not Path(name).exists() or Path(name).stat().st_mtime > built
        for name in [source_path, __file__, *prerequisites]
    )


class BuildCore(build_ext):
    """Builds the core, and writes down which pyarrow it belongs to."""

    def finalize_options(self) -> None:
        super().finalize_options()
        # Objects depend on headers outside the tree, which -MMD leaves out.
        versions = f"pyarrow-{pyarrow.__version__}-pybind11-{pybind11.__version__}"
        self.build_temp = os.path.join(self.build_temp, versions + SANITIZE.replace(",", "-"))
        if self.inplace:
            # A core that finds pyarrow by its absolute path must not get into a wheel.
            self.build_lib = os.path.join("build", "inplace")

    def run(self) -> None:
        if not self.extensions:
            return
        python_h = Path(sysconfig.get_path("include")) / "Python.h"
        if not python_h.exists():
            sys.exit(
                f"Expected Python's C headers, found no {python_h}: install them "
                "(on Debian and Ubuntu: apt-get install python3-dev)"
            )
        core = Path(self.get_ext_fullpath(self.extensions[0].name))
        build_info = core.with_name("_build_info.py")
        if not build_info.exists() or build_info.read_text() != BUILD_INFO:
            self.force = True
        if self.inplace:
            self.extensions[0].runtime_library_dirs.append(PYARROW_LIBRARIES)
        super().run()
        build_info.write_text(BUILD_INFO)


PYARROW_LIBRARIES = library_directory()
COMPILE_ARGS = [
    "-std=c++20",
    "-O1" if SANITIZE else "-O3",
    "-g" if SANITIZE else "-g0",
    "-fvisibility=hidden",
    "-fno-wrapv",
    "-Wall",
    "-Wextra",
    "-Wno-missing-field-initializers",  # designated initialisers leave the rest at its default
    "-MMD",
    "-isystem",
    pyarrow.get_include(),
    "-isystem",
    pybind11.get_include(),
]
LINK_ARGS = []
if SANITIZE:
    COMPILE_ARGS += [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer"]
    LINK_ARGS += [f"-fsanitize={SANITIZE}"]

core = Extension(
    "fastload._core",
    sources=relative("csrc/fastload/*.cc") + relative("csrc/bindings/*.cc"),
    depends=[*relative("csrc/*/*.h"), "setup.py"],
    language="c++",
    include_dirs=["csrc"],
    library_dirs=[PYARROW_LIBRARIES],
    libraries=[f":libarrow.so.{ARROW_SOVERSION}", f":libparquet.so.{ARROW_SOVERSION}"],
    runtime_library_dirs=["$ORIGIN/../pyarrow"],
    extra_compile_args=COMPILE_ARGS,
    extra_link_args=LINK_ARGS,
)

with ParallelCompile("FASTLOAD_JOBS", needs_recompile=needs_recompile):
    setup(
        ext_modules=[] if os.environ.get("FASTLOAD_PURE") == "1" else [core],
        cmdclass={"build_ext": BuildCore},
    )
