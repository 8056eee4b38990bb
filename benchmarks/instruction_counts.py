"""One question: do the hot kernels of the core take more instructions than they did?

    make instructions [ARGS=--store]

Counts the instructions of each kernel that `benchmarks/instructions` has, with callgrind, which
gives the same counts on a busy machine. Compared are those kept in benchmarks/results for this
compiler and maker of processors, as another one makes, or runs, other code; --store keeps the new
ones. More instructions than before, by more than the tolerance, are a failure. Fewer need not be
faster: times are `bench_core.py`'s affair.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import tempfile
from pathlib import Path

STORED = Path(__file__).parent / "results" / "instructions.json"

# Of the allocator, and of what libarrow does with a page, not all is alike everywhere.
_TOLERANCE = 0.03
# glibc chooses how to copy by the sizes of caches.
_TUNABLES = ":".join(
    f"glibc.cpu.x86_{name}_threshold={1 << 30}"
    for name in ("non_temporal", "rep_movsb", "rep_stosb")
)


def count(binary: str) -> tuple[dict[str, int], dict[str, int]]:
    """Instructions of each kernel by name, and how many values or bytes it works on."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory, "out")
        command = ["valgrind", "--tool=callgrind", "--quiet", "--instr-atstart=no"]
        environment = {**os.environ, "LD_BIND_NOW": "1", "GLIBC_TUNABLES": _TUNABLES}
        done = subprocess.run(  # noqa: S603  our own program
            [*command, f"--callgrind-out-file={out}", binary],
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        dumps = [path.read_text() for path in out.parent.glob("out.*")]
    counts = {}
    for dump in dumps:
        name = re.search(r"^desc: Trigger: Client Request: (\w+)$", dump, re.MULTILINE)
        total = re.search(r"^totals: (\d+)$", dump, re.MULTILINE)
        if name is None or total is None:
            raise SystemExit("Expected a name and totals in what callgrind wrote, got none")
        counts[name[1]] = int(total[1])
    values = {name: int(number) for name, number in map(str.split, done.stdout.splitlines())}
    return {name: counts[name] for name in values}, values


def kind_of(compiler: str) -> str:
    """What counts depend on: the compiler, of its first line of --version, and the processor."""
    name, *_, version = re.sub(r"\(.*?\)", "", compiler).split()
    vendor = re.search(r"^vendor_id\s*: (\w+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    maker = vendor[1] if vendor else "unknown"
    return f"{name} {version.split('.')[0]} {platform.machine()} {maker}"


def main() -> None:
    """Counts, prints and compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--compiler", required=True, help="first line of its --version")
    parser.add_argument("--store", action="store_true", help="keep the counts")
    arguments = parser.parse_args()
    kind = kind_of(arguments.compiler)
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    before = stored.get(kind, {})
    counts, values = count(arguments.binary)
    grown = []
    for name, number in counts.items():
        line = f"{name:26}{number:12,}{number / values[name]:9.2f} each"
        if name in before:
            change = number / before[name] - 1
            line += f"{change:+9.1%}"
            if change > _TOLERANCE:
                grown.append(name)
        print(line)
    if arguments.store:
        stored[kind] = counts
        STORED.write_text(json.dumps(stored, indent=2) + "\n")
        return
    if not before:
        print(f"nothing to compare with: no counts are kept of {kind} (ARGS=--store keeps them)")
        return
    advice = "if that is meant, `make instructions ARGS=--store`"
    if grown:
        raise SystemExit(f"Expected no more instructions than kept, got more ({advice}): {grown}")
    if counts.keys() != before.keys():
        got = sorted(counts.keys() ^ before.keys())
        raise SystemExit(
            f"Expected counts kept of {kind} of each kernel, got others ({advice}): {got}"
        )


if __name__ == "__main__":
    main()
