"""Launch of a Job in a process of its own, which has no other memory and no other threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from fastload.errors import FastloadError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.tools.bench.child import Job

# Far longer than any measurement takes: a process that takes longer hangs.
_TIMEOUT_S = 1800


Launch: TypeAlias = "Callable[[Job], dict[str, Any]]"


class JobError(RuntimeError):
    """The process of a Job failed; the message is the last line that the process wrote."""


def launch(job: Job) -> dict[str, Any]:
    """Run a Job in a new process and return the result.

    A roof is measured in this process: the core's threads and memory end with the measurement.

    Raises:
        JobError: the process failed or did not end.
    """
    if job.action == "roof":
        from fastload.tools.bench.child import run

        try:
            return run(job)
        except (FastloadError, ImportError, OSError, ValueError, RuntimeError) as error:
            raise JobError(f"{type(error).__name__}: {error}") from error
    environment = dict(os.environ)
    if job.work.threads:
        environment["POLARS_MAX_THREADS"] = str(job.work.threads)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "fastload.tools.bench.child"],
            input=job.to_json(),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise JobError(f"The measurement did not end within {_TIMEOUT_S} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise JobError(lines[-1])
    result: dict[str, Any] = json.loads(done.stdout)
    return result
