"""Builds the compiled core: one for the pyarrow that is installed, or one for each of several.

FASTLOAD_PYARROWS    major versions of pyarrow, such as "24 25 26": a core for each, compiled
                     against its wheel, which pip fetches (default: the pyarrow installed)
FASTLOAD_JOBS        compilers that run at a time (default: as many as there are CPUs)
FASTLOAD_SANITIZE    for -fsanitize=, such as address,undefined: a build for tests
FASTLOAD_PORTABLE    1: on Linux, too, do without the calls that it alone has: a build for tests
FASTLOAD_PURE        1: install the Python files alone (the core was built in place)
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

if not sys.platform.startswith(("linux", "darwin")):
    sys.exit(
        f"Expected Linux or macOS, got {sys.platform}: fastload's core rests on memory, files and "
        "processes as POSIX has them. On Windows install it in WSL 2"
    )

import pyarrow
import pybind11
from pybind11.setup_helpers import ParallelCompile
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
SANITIZE = os.environ.get("FASTLOAD_SANITIZE", "")
PORTABLE = os.environ.get("FASTLOAD_PORTABLE") == "1"
MACOS = sys.platform == "darwin"
INSTALLED_MAJOR = pyarrow.__version__.partition(".")[0]
MAJORS = os.environ.get("FASTLOAD_PYARROWS", "").split() or [INSTALLED_MAJOR]
CORE = "fastload.runtime._core_pyarrow"  # and the major version
BUILD_INFO = '''"""What the compiled cores were built against; written by setup.py."""

PYARROW_VERSIONS = {}
'''


@dataclass(frozen=True)
class Pyarrow:
    """A pyarrow to build a core against: its version, and where its files are."""

    version: str
    include: str
    libraries: str

    def library(self, name: str) -> Path:
        """The file of Arrow's library of that name."""
        return Path(self.libraries, file_name(name, self.version))


def file_name(library: str, version: str) -> str:
    """Of a library in this pyarrow: it says the major version, and the minor in two digits."""
    major, minor = version.split(".")[:2]
    soversion = f"{major}{int(minor):02d}"
    return f"lib{library}.{soversion}.dylib" if MACOS else f"lib{library}.so.{soversion}"


def installed_pyarrow() -> Pyarrow:
    """The pyarrow that this Python imports."""
    version = pyarrow.__version__
    # conda's keeps its libraries in the environment's own directory.
    directories = [*pyarrow.get_library_dirs(), str(Path(sys.prefix, "lib"))]
    for directory in directories:
        if Path(directory, file_name("parquet", version)).exists():
            return Pyarrow(version, pyarrow.get_include(), str(directory))
    sys.exit(
        f"Expected {file_name('parquet', version)} of pyarrow {version} in one of "
        f"{', '.join(directories)}, found none: install pyarrow's wheel"
    )


def fetched_pyarrow(major: str) -> Pyarrow:
    """The newest pyarrow of a major version, unpacked under build/ beside no other package."""
    directory = ROOT / "build" / "pyarrow" / sysconfig.get_config_var("SOABI") / major
    if not directory.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
        wheel = ["--only-binary=:all:", "--target", str(directory), f"pyarrow=={major}.*"]
        if subprocess.run([*pip, *wheel], check=False).returncode != 0:  # noqa: S603 - ours
            sys.exit(f"Expected a wheel of pyarrow {major} for this Python, pip found none")
    found = [path.name for path in directory.glob("pyarrow-*.dist-info")]
    if not found:
        sys.exit(f"Expected pyarrow {major} in {directory}, found none: remove that directory")
    version = found[0].removeprefix("pyarrow-").removesuffix(".dist-info")
    package = directory / "pyarrow"
    return Pyarrow(version, str(package / "include"), str(package))


def pyarrow_of(major: str) -> Pyarrow:
    """The pyarrow of that major version: the installed one, if it is that."""
    if not major.isdecimal():
        sys.exit(f"Expected major versions in FASTLOAD_PYARROWS, such as '25 26', got {major!r}")
    return installed_pyarrow() if major == INSTALLED_MAJOR else fetched_pyarrow(major)


def relative(pattern: str) -> list[str]:
    """Paths of this tree that match, sorted, relative to it (setuptools asks for that)."""
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern))


def units(sources: list[str]) -> list[str]:
    """Units to compile, one for each folder, which includes all sources of the folder.

    Most of a file's time goes into Arrow's headers: units take a third of the time.
    """
    written = []
    for folder in sorted({str(Path(source).parent) for source in sources}):
        unit = Path("build", "units", folder, "unit.cc")
        of_folder = [source for source in sources if str(Path(source).parent) == folder]
        text = "".join(f'#include "{source}"\n' for source in of_folder)
        if not unit.exists() or unit.read_text() != text:
            unit.parent.mkdir(parents=True, exist_ok=True)
            unit.write_text(text)
        written.append(str(unit))
    return written


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
    """Builds the cores, and writes down which pyarrow each belongs to."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.objects = Path(self.build_temp)
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
        self.pyarrows = {CORE + major: pyarrow_of(major) for major in MAJORS}
        build_info = Path(self.get_ext_fullpath(self.extensions[0].name)).with_name(
            "_build_info.py"
        )
        written = BUILD_INFO.format(tuple(each.version for each in self.pyarrows.values()))
        if not build_info.exists() or build_info.read_text() != written:
            self.force = True
        super().run()
        build_info.write_text(written)
        cores = {Path(self.get_ext_fullpath(core.name)) for core in self.extensions}
        for left in set(build_info.parent.glob(f"_core*{EXTENSION_SUFFIXES[0]}")) - cores:
            left.unlink()  # an earlier build's: a wheel would take it along

    def build_extension(self, ext: Extension) -> None:
        against = self.pyarrows[ext.name]
        # Objects depend on headers outside the tree, which -MMD leaves out.
        versions = f"pyarrow-{against.version}-pybind11-{pybind11.__version__}"
        kind = SANITIZE.replace(",", "-") + ("-portable" if PORTABLE else "")
        self.build_temp = str(self.objects / (versions + kind))
        ext.extra_compile_args += ["-isystem", against.include, "-isystem", pybind11.get_include()]
        ext.extra_objects = [str(against.library(name)) for name in ("arrow", "parquet")]
        ext.runtime_library_dirs = [
            "@loader_path/../../pyarrow" if MACOS else "$ORIGIN/../../pyarrow"
        ]
        if self.inplace:
            ext.runtime_library_dirs.append(against.libraries)
        # A unit is as old as its list of sources, so a change of a source has to count by itself.
        ext.depends += ext.sources
        ext.sources = units(ext.sources)
        super().build_extension(ext)


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
]
LINK_ARGS = []
if SANITIZE:
    # Sanitized cores assert what plans and tasks promise each other.
    COMPILE_ARGS += [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer", "-UNDEBUG"]
    LINK_ARGS += [f"-fsanitize={SANITIZE}"]

if PORTABLE:
    COMPILE_ARGS += ["-DFASTLOAD_PORTABLE"]
if MACOS:
    # pyarrow's wheels are for one processor each, but the Python may be for both.
    os.environ.setdefault("ARCHFLAGS", f"-arch {platform.machine()}")

cores = [
    Extension(
        CORE + major,
        sources=relative("csrc/fastload/**/*.cc") + relative("csrc/bindings/*.cc"),
        depends=[*relative("csrc/**/*.h"), "setup.py"],
        language="c++",
        include_dirs=["csrc", "."],
        extra_compile_args=[*COMPILE_ARGS],
        extra_link_args=LINK_ARGS,
    )
    for major in MAJORS
]

with ParallelCompile("FASTLOAD_JOBS", needs_recompile=needs_recompile):
    setup(
        ext_modules=[] if os.environ.get("FASTLOAD_PURE") == "1" else cores,
        cmdclass={"build_ext": BuildCore},
    )
