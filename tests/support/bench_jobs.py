"""Jobs of fastload-bench in processes of the tests' fork server."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fastload.tools.bench import child, run
from support.own_process import in_its_own_process

if TYPE_CHECKING:
    import pytest

    from fastload.tools.bench.child import Job


def launch_from_fork_server(patch: pytest.MonkeyPatch) -> None:
    """Have the command start no process that has to import torch, for a second or two."""
    patch.setattr(run, "measure", partial(run.measure, run=_launch))
    patch.setattr(run, "launch", _launch)


def _launch(job: Job) -> dict[str, Any]:
    """Do a job in a process of its own, as `fastload.tools.bench.child.launch` does."""
    result: dict[str, Any] = in_its_own_process(child.run, job)
    return result
