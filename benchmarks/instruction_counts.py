"""One question: do the hot kernels of the core take more instructions than they did?

    make instructions [ARGS=--store]

The program counts the instructions of each kernel of `benchmarks/instructions` with callgrind,
which gives the same counts on a busy machine. It compares the counts with the counts stored in
benchmarks/results for this compiler and this maker of processors, because others make or run other
code; --store stores the new counts. An increase beyond the tolerance is a failure. Fewer
instructions need not be faster: `bench_core.py` measures times.
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

# Tolerance: counts of the allocator and of libarrow's pages vary between machines.
_TOLERANCE = 0.03
# glibc chooses its way of copying by the sizes of caches.
_TUNABLES = ":".join(
    f"glibc.cpu.x86_{name}_threshold={1 << 30}"
    for name in ("non_temporal", "rep_movsb", "rep_stosb")
)


def count(binary: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return the instructions of each kernel by name, and its number of values or bytes."""
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
    """Return the kind of host on which counts depend: the compiler and the processor."""
    name, *_, version = re.sub(r"\(.*?\)", "", compiler).split()
    vendor = re.search(r"^vendor_id\s*: (\w+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    maker = vendor[1] if vendor else "unknown"
    return f"{name} {version.split('.')[0]} {platform.machine()} {maker}"


def main() -> None:
    """Count, print and compare."""
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
