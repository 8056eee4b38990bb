"""Digest of the steps of `preprocess`, which tells when prepared rows have to be made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.runtime.digest import digest
from fastload.steps.code_digest import code_digest
from fastload.steps.image_step import ImageStep
from fastload.steps.kernel import Kernel
from fastload.steps.per_row import PerBlock, PerRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.steps.steps import Step

__all__ = ["code_of"]


def code_of(steps: Sequence[Step], version: str | None) -> str:
    """Return a digest of the code of `preprocess`.

    Args:
        steps: the steps of `preprocess`.
        version: a text that stands for the code of functions, or None.

    Raises:
        TypeError: a function refers to an object that has no digest, and `version` is None.
    """
    return digest(*(_code_of_step(step, version) for step in steps))


def _code_of_step(step: Step, version: str | None) -> str:
    try:
        if isinstance(step.run, Kernel):
            return step.run.code_digest()
        # A version stands for the function of its name, so the name has to be that of the function.
        fn = step.run.fn if isinstance(step.run, (PerBlock, PerRow)) else step.run
        around: tuple[object, ...] = ()
        if isinstance(step.run, ImageStep):
            version = None  # the function is fastload's
        if isinstance(step.run, PerRow):
            around = (step.run.inputs, step.run.outputs, step.run.layouts)
        return digest(code_digest(fn, version), repr(around))
    except TypeError as error:
        named = "kernel(version=...)" if isinstance(step.run, Kernel) else "Cache(..., key=...)"
        raise TypeError(
            f"{error}; nothing can tell when {step.label} changes: name its version, {named}, and "
            "change the version with the code, or pass cache=Cache(..., prepared=False)"
        ) from None
