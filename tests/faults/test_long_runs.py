"""Short forms of programs beside this file: kills, and faults of the disk."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def run(program, *arguments):
    """What a program prints that ends well."""
    done = subprocess.run(
        [sys.executable, HERE / program, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_killed_runs_go_on():
    assert "every row once" in run("kill_and_resume.py", "--kills", "10")


@pytest.mark.slow
def test_faults_of_the_disk():
    assert "\n0 of the endings are not as expected" in run("disk_faults.py")
