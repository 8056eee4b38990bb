"""Calls in a new process of the tests' fork server, which has imported torch and fastload."""

from __future__ import annotations

import io
import os
import traceback
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def in_its_own_process(
    function: Callable[..., Any], *arguments: object, timeout_s: float = 60
) -> Any:
    """Return what a function returns in a process that does nothing else.

    Raises:
        BrokenProcessPool: the process crashed.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as process:
        call = process.submit(_call, function, arguments, dict(os.environ))
        return call.result(timeout_s)


def printed(code: str) -> tuple[str, str]:
    """Return what a program prints to stdout and stderr, with the traceback of its error.

    In its own process, the program runs before any module of the tests is imported.
    """
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            exec(code, {"__name__": "__main__"})
        except Exception:  # noqa: BLE001 - as an interpreter does
            traceback.print_exc()
    return out.getvalue(), err.getvalue()


def _call(
    function: Callable[..., Any], arguments: tuple[object, ...], environment: dict[str, str]
) -> Any:
    """Call a function with the environment of the test; the fork server's is older."""
    os.environ.clear()
    os.environ.update(environment)
    return function(*arguments)
