"""Count the lines of fastload by folder, and the modules that are small or large.

    python benchmarks/loops/lines_of_folders.py

A line for each folder of `src/fastload` has the number of files and of lines, and of these the
lines of docstrings, of imports, and blank lines and comments; the rest is code. Then come the
totals without and with the commands in `tools`, the modules under 100 lines that one other module
imports, and the files of more than 500 lines. The import graph is import-linter's, with the imports
of annotations.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import grimp

LIBRARY = Path(__file__).parents[2] / "src" / "fastload"


def main() -> None:
    """Print the counts."""
    folders: dict[str, Counter[str]] = {}
    lines: dict[str, int] = {}
    for path in sorted(LIBRARY.rglob("*.py")):
        if path.name == "_build_info.py":  # written by the build
            continue
        inside = path.relative_to(LIBRARY)
        counted = count(path)
        lines[".".join(["fastload", *inside.with_suffix("").parts])] = counted["lines"]
        folders.setdefault(str(inside.parent), Counter()).update(counted)
    for folder, counted in folders.items():
        print(shown(folder, counted))
    library = [c for folder, c in folders.items() if not folder.startswith("tools")]
    print(shown("without tools", sum(library, Counter())))
    print(shown("all", sum(folders.values(), Counter())))

    graph = grimp.build_graph("fastload", cache_dir=None)
    for module, size in sorted(lines.items(), key=lambda pair: pair[1]):
        if size < 100 and not module.endswith("__init__"):
            importers = graph.find_modules_that_directly_import(module)
            if len(importers) == 1:
                print(f"one importer: {module}, {size} lines, by {importers.pop()}")
        elif size > 500:
            print(f"large: {module}, {size} lines")


def count(path: Path) -> Counter[str]:
    """Return the numbers of lines of a file, by what they are."""
    text = path.read_text()
    counted = Counter(files=1, lines=len(text.splitlines()))
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if first is not None and ast.get_docstring(node, clean=False) is not None:
                documented.update(range(first.lineno, (first.end_lineno or 0) + 1))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            counted["imports"] += (node.end_lineno or 0) - node.lineno + 1
    counted["docstrings"] = len(documented)
    counted["blank"] = sum(
        number not in documented and (not line.strip() or line.lstrip().startswith("#"))
        for number, line in enumerate(text.splitlines(), start=1)
    )
    return counted


def shown(name: str, counted: Counter[str]) -> str:
    """Return a line of the table."""
    parts = [counted[kind] for kind in ("docstrings", "imports", "blank")]
    code = counted["lines"] - sum(parts)
    return (
        f"{name:22} {counted['files']:4} files {counted['lines']:6} lines: "
        f"docstrings {parts[0]:5}, imports {parts[1]:5}, blank and comments {parts[2]:5}, "
        f"code {code:6}"
    )


if __name__ == "__main__":
    main()
