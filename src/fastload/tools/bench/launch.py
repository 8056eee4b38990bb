"""Runs a Job in a process of its own, so that memory and threads are the contender's alone."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any, TypeAlias

from fastload.tools.bench import environments

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.tools.bench.child import Job

# Far beyond any sane measurement: what takes longer hangs.
_TIMEOUT_S = 1800


Launch: TypeAlias = "Callable[[Job], dict[str, Any]]"


class JobError(RuntimeError):
    """The process failed; the message is the last line that it wrote."""


def launch(job: Job) -> dict[str, Any]:
    """The Job's result.

    Raises:
        JobError: it failed or did not end.
    """
    environment = dict(os.environ)
    if job.work.threads:
        environment["POLARS_MAX_THREADS"] = str(job.work.threads)
    try:
        done = subprocess.run(  # noqa: S603  our own module
            environments.command(job.package),
            input=job.to_json(),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise JobError(f"Expected an end within {_TIMEOUT_S} s, got none") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise JobError(lines[-1])
    result: dict[str, Any] = json.loads(done.stdout)
    return result
