"""The table of endings that a run of the tests ends with."""

# What tests say to the table: a row, and by ending its cell.
ENDINGS = "endings"


def pytest_terminal_summary(terminalreporter):
    """Prints in which seconds each ending was over, or what went wrong."""
    rows = [
        value
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        for name, value in getattr(report, "user_properties", ())
        if name == ENDINGS
    ]
    if not rows:
        return
    write = terminalreporter.write_line
    terminalreporter.section("Seconds in which a pass ends")
    names = list(rows[0][1])
    write(f"{'context':12}{'workers':>7}  {'':10}" + "".join(f"{name:>15}" for name in names))
    for (context, workers, persistent), cells in rows:
        texts = [f"{c:.2f}" if isinstance(c, float) else c for c in map(cells.get, names)]
        write(f"{context:12}{workers:7}  {persistent:10}" + "".join(f"{t:>15}" for t in texts))
