"""Jobs of fastload-bench in processes of the tests' fork server, which has imported torch."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from fastload.tools.bench import child, run

if TYPE_CHECKING:
    import pytest

    from fastload.tools.bench.child import Job


def launch_from_fork_server(patch: pytest.MonkeyPatch) -> None:
    """Have the command start no process that has to import torch, for a second or two."""
    patch.setattr(run, "measure", partial(run.measure, run=_launch))
    patch.setattr(run, "launch", _launch)


def _launch(job: Job) -> dict[str, Any]:
    """Do a job in a process of its own, as `fastload.tools.bench.launch` does."""
    with ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as process:
        return process.submit(_run, job, dict(os.environ)).result()


def _run(job: Job, environment: dict[str, str]) -> dict[str, Any]:
    """Do a job with the environment of the test; the fork server's is older."""
    os.environ.clear()
    os.environ.update(environment)
    return child.run(job)
