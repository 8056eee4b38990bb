"""The files of other writers, and the table of them that a run of the tests ends with."""

from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

# What tests say to the table: the file that they read, and how it was refused.
FILE, REFUSED = "conformance file", "conformance refusal"
HEAD = ("files", "equal", "refused", "failed")


@pytest.fixture
def path(request, data_dir):
    """The file that a test is of, from its path below the data directory."""
    request.node.user_properties.append((FILE, request.param))
    return str(data_dir / request.param)


@pytest.fixture
def refusal(request, data_dir):
    """A function of error, sentence and reason that expects a file to be refused so."""

    @contextmanager
    def expect(error, sentence, reason):
        with pytest.raises(error, match=sentence) as caught:
            yield
        got = f"{type(caught.value).__name__}: {caught.value}".replace(f"{data_dir}/", "")
        request.node.user_properties.append((REFUSED, (reason, got)))

    return expect


def pytest_terminal_summary(terminalreporter):
    """Prints how many files there are by directory, and which become no tensors, and why."""
    outcomes, refusals = {}, {}
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            said = dict(getattr(report, "user_properties", ()))
            if FILE in said:
                outcomes.setdefault(said[FILE], set()).add(outcome)
                refusals.update({said[FILE]: said[REFUSED]} if REFUSED in said else {})
    if not outcomes:
        return
    directories = {}
    for file, found in outcomes.items():
        end = "failed" if found != {"passed"} else "refused" if file in refusals else "equal"
        directories.setdefault(str(Path(file).parent), Counter()).update([end, "files"])
    directories["in all"] = sum(directories.values(), Counter())

    write = terminalreporter.write_line
    terminalreporter.section("Parquet files of other writers, against pyarrow")
    width = max(map(len, directories))
    write(" " * width + "".join(f"{name:>9}" for name in HEAD))
    for directory, counts in directories.items():
        write(f"{directory:{width}}" + "".join(f"{counts[name]:9}" for name in HEAD))
    write("Refused, each as it should be:")
    for file, (reason, got) in sorted(refusals.items()):
        write(f"{file}\n    {reason}\n    {got}")
