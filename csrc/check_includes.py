"""Check that the core's folders include each other in one direction only.

`make lint-cpp` runs this script. It prints one line for each fault and then fails. A fault is
an include of a folder to the right of one's own in FOLDERS, a cycle of files, an include of
a file that does not exist, or a file of the core in no folder.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CSRC = Path(__file__).resolve().parent
CORE = "fastload"

# A file may include files of its own folder and of the folders above it in this list.
FOLDERS = {
    "base": "what knows nothing of Parquet: errors, memory, threads, counters, copies",
    "source": "files, their footers, what a footer says of columns, and where pages lie",
    "plan": "which columns and rows to read, and where they lie in a batch",
    "fetch": "the bytes of column chunks, from disk, from a store or from its cache",
    "decode/pages": "bytes become pages, and pages levels and dictionary codes",
    "decode/values": "codes and stored values become values of the dtype that was asked for",
    "decode/lists": "levels become rows of lists",
    "decode": "readers of one column chunk, made of the three folders above",
    "collate": "decoded rows become rows of batches, in order or shuffled",
    "scan": "one pass: what is fetched and decoded when, and the threads that do it",
    "filter": "the row groups, pages and rows for which a condition is true",
    "share": "batches in memory that several processes see",
    "measure": "what the machine can do at most, for benchmarks",
    "bindings": "the core's names in Python; the only folder that includes pybind11",
}

INCLUDE = re.compile(r'^\s*#\s*include\s+"((?:fastload|bindings)/[^"]+)"', re.MULTILINE)


def folder_of(file: str) -> str:
    """Return the folder of `file`, as FOLDERS names folders."""
    return file.rpartition("/")[0].removeprefix(CORE + "/")


def read_includes() -> dict[str, list[str]]:
    """Return the includes of each file, both as paths below csrc."""
    files = sorted(path for path in CSRC.rglob("*") if path.suffix in (".h", ".cc"))
    return {path.relative_to(CSRC).as_posix(): INCLUDE.findall(path.read_text()) for path in files}


def find_misplaced(includes: dict[str, list[str]]) -> Iterator[str]:
    """Yield a fault for each file in no folder and for each include to the right."""
    order = {folder: place for place, folder in enumerate(FOLDERS)}
    for file, targets in includes.items():
        own = folder_of(file)
        if own not in order:
            yield f"csrc/{file}: Expected one of the folders {', '.join(order)}"
            continue
        for target in targets:
            folder = folder_of(target)
            if target not in includes:
                yield f"csrc/{file}: Expected an include of an existing file, got {target}"
            elif order.get(folder, 0) > order[own]:
                yield f"csrc/{file}: Expected {own} to include no {folder}, got {target}"


def find_cycles(includes: dict[str, list[str]]) -> Iterator[str]:
    """Yield a fault for each include that closes a cycle within a folder.

    A header and its .cc are one file here. A cycle of several folders has an include to the
    right, which `find_misplaced` finds.
    """

    def merged(file: str) -> str:
        header = file.rpartition(".")[0] + ".h"
        return header if header in includes else file

    graph: dict[str, list[str]] = {}
    for file, targets in includes.items():
        graph.setdefault(merged(file), []).extend(
            merged(target) for target in targets if folder_of(target) == folder_of(file)
        )
    done: set[str] = set()
    for start in graph:
        yield from walk(graph, start, [], done)


def walk(graph: dict[str, list[str]], file: str, path: list[str], done: set[str]) -> Iterator[str]:
    """Yield a fault for each include, from `file` on, that leads back onto `path`."""
    if file in path:
        cycle = [*path[path.index(file) :], file]
        yield f"csrc/{file}: Expected no cycle of includes, got {' -> '.join(cycle)}"
        return
    if file in done:
        return
    for target in dict.fromkeys(graph.get(file, [])):
        if target != file:
            yield from walk(graph, target, [*path, file], done)
    done.add(file)


def main() -> int:
    """Print the faults; return 1 if there are any."""
    includes = read_includes()
    faults = [*find_misplaced(includes), *find_cycles(includes)]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
