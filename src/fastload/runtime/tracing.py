"""Methods that torch.compile calls instead of tracing them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["untraced"]

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")


def untraced(function: Callable[_Args, _Result]) -> Callable[_Args, _Result]:
    """Return a function that torch.compile calls as it is.

    A compiled training loop would else trace the dataset's own code, which ends in errors of
    torch, because Dynamo refuses read-only numpy arrays. The decorator `torch.compiler.disable`
    does the same, but imports the compiler, which takes seconds, in programs that compile nothing.
    """

    @functools.wraps(function)
    def call(*args: _Args.args, **kwargs: _Args.kwargs) -> _Result:
        if torch.compiler.is_compiling():
            as_it_is: Callable[_Args, _Result]
            as_it_is = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
            return as_it_is(*args, **kwargs)
        return function(*args, **kwargs)

    return call
