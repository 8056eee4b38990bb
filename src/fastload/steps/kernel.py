"""kernel: a step that is compiled by numba, for the core to call on threads of its own."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from fastload.steps.code_digest import code_digest
from fastload.steps.kernel_argument import KERNEL_DTYPES, NARROW, Argument
from fastload.steps.per_row import name_of

if TYPE_CHECKING:
    from fastload.schema.fields import Field
    from fastload.steps.kernel_code import KernelCode

__all__ = ["Kernel", "kernel"]

DTypeLike: TypeAlias = "str | torch.dtype | np.dtype[Any] | type"


class Kernel:
    """What `kernel` makes: a step for `preprocess` and `augment`. Called, it calls the function.

    fn: the function.
    inputs: names of the outputs that it takes.
    outputs: the arrays that it fills.
    random: it takes seeds.
    version: as `kernel` takes it.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        inputs: tuple[str, ...],
        outputs: tuple[Argument, ...],
        *,
        random: bool,
        version: str | None,
    ) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.inputs = inputs
        self.outputs = outputs
        self.random = random
        self.version = version
        self._codes: dict[tuple[Argument, ...], KernelCode] = {}

    def __call__(self, *arrays: Any) -> Any:
        """Call the function in Python, on arrays; nothing is compiled."""
        return self.fn(*arrays)

    def __repr__(self) -> str:
        outputs = [output.name for output in self.outputs]
        return f"kernel({name_of(self.fn)}, inputs={[*self.inputs]}, outputs={outputs})"

    def __reduce__(self) -> str | tuple[Any, ...]:
        # A decorated function is found where it was defined, as functions are.
        found: Any = sys.modules.get(self.fn.__module__)
        for part in self.fn.__qualname__.split("."):
            found = getattr(found, part, None)
        if found is self:
            return str(self.fn.__qualname__)
        return _remade, (self.fn, self.inputs, self.outputs, self.random, self.version)

    @property
    def label(self) -> str:
        """The kernel's name in messages."""
        return f"kernel `{name_of(self.fn)}`"

    def code_digest(self) -> str:
        """What names its code and its arrays: see `code_identity.code_digest`.

        Raises:
            TypeError: that can't be told, and it has no version.
        """
        what = (code_digest(self.fn, self.version), self.inputs, self.outputs, self.random)
        return hashlib.blake2b(repr(what).encode(), digest_size=16).hexdigest()

    def code(self, inputs: Sequence[Argument]) -> KernelCode:
        """The machine code for inputs of these types.

        Raises:
            TypeError: numba can't compile it for them.
            ModuleNotFoundError: numba is not installed.
        """
        key = tuple(inputs)
        if key not in self._codes:
            # Who has no kernels doesn't wait for numba to be imported.
            from fastload.steps.kernel_code import compiled

            self._codes[key] = compiled(self, key)
        return self._codes[key]

    def argument(self, name: str, field: Field, *, row_major: bool = True) -> Argument:
        """How it takes an output.

        Args:
            name: of the output.
            field: of it.
            row_major: whether its elements lie as its shape says.

        Raises:
            TypeError: a kernel can't take such a one.
        """
        dtype = str(field.dtype).removeprefix("torch.")
        levels = field.depth + (field.kind is not None)
        if dtype not in KERNEL_DTYPES:
            got = f"{dtype} (dtype=torch.float32 of Column, Stack or Pad makes it one)"
        elif levels > 1:
            got = f"{levels} levels of lists"
        elif not row_major:
            got = "a tensor whose stored dimensions are permuted"
        else:
            return Argument(name, dtype, field.shape, field.ragged)
        raise TypeError(
            f"Expected bool, integers, float32 or float64, or one level of lists of such, for "
            f"input `{name}` of {self.label}, got {got}"
        )


def kernel(
    inputs: str | Sequence[str],
    outputs: Mapping[str, DTypeLike | tuple[DTypeLike, int]],
    *,
    random: bool = False,
    version: str | None = None,
) -> Callable[[Callable[..., Any]], Kernel]:
    """A decorator that makes a step of a function of arrays, which numba compiles.

        @fastload.kernel(inputs=("price", "qty"), outputs={"revenue": "float32"})
        def revenue(price, qty, out):
            for i in range(len(out)):
                out[i] = price[i] * qty[i]

        FastParquetDataset(path, preprocess=revenue)

    The core calls the machine code on its threads, without the GIL, when a batch has been put
    together; after a step that is a Python function, the thread that asks for the batch does. The
    function takes the arrays of the inputs, in order, then (with `random`) the seeds, then those
    of the outputs, and fills these: they are zeros at first. A block of B rows has, for an input
    (B,) or (B, n), an array of that shape and dtype; for a list column, or strings, two: values
    (N,) and offsets int64 (B + 1), where row i is `values[offsets[i]:offsets[i + 1]]`. Inputs
    can't be written to. Rows must not depend on one another: which make a block is not defined.

    numba computes no float16 and bfloat16 on a CPU: such inputs are columns with
    dtype=torch.float32, and outputs float32, which a function of `augment` may make narrower.

    Arithmetic is numpy's: dividing a float by 0 gives inf or nan. Indices are not checked, unless
    NUMBA_BOUNDSCHECK=1 is set. What the function raises is raised where the batch would have come.
    Machine code is kept in $FASTLOAD_CACHE_DIR, else in the user's cache directory, by the
    function's code and all that this refers to; that is read when it is compiled.

    Args:
        inputs: name or names of outputs that it takes: of `columns`, or of steps before.
        outputs: dtype of each output that it adds, or replaces: "bool", an integer, "float32" or
            "float64", for (B,); or (dtype, n) for (B, n). One named like an input replaces that.
        random: it takes seeds, uint64 (B,), as callables of `augment` do; for `augment` only.
        version: says that the code is the same as long as this is, where it can't be told.

    Raises:
        TypeError, ValueError: a wrong argument. When the dataset is made, where the types of
            the inputs are known then: an input is not there, or numba can't compile it for
            them; the message has the kernel, the types and what numba says.
    """
    takes: Any = (inputs,) if isinstance(inputs, str) else inputs
    fills: Any = outputs
    if not isinstance(takes, Sequence) or not all(isinstance(name, str) for name in takes):
        raise TypeError(f"Expected inputs of kernel as a name or names, got {inputs!r}")
    if not isinstance(fills, Mapping) or not all(isinstance(name, str) for name in fills):
        raise TypeError(
            f"Expected outputs of kernel as a mapping from name to dtype, got {outputs!r}"
        )
    if not fills:
        raise ValueError("Expected outputs of kernel to name at least one output, got none")
    if len(set(takes)) < len(takes):
        raise ValueError(f"Expected each input of kernel once, got {inputs!r}")
    if version is not None and not isinstance(version, str):
        raise TypeError(f"Expected version of kernel as str, got {version!r}")
    arrays = tuple(_filled(name, what) for name, what in fills.items())

    def decorate(fn: Callable[..., Any]) -> Kernel:
        if not callable(getattr(fn, "py_func", fn)) or not hasattr(fn, "__qualname__"):
            raise TypeError(f"Expected a function to make a kernel of, got {fn!r}")
        return Kernel(fn, tuple(takes), arrays, random=random, version=version)

    return decorate


def _filled(name: str, what: Any) -> Argument:
    dtype, shape = what, tuple[int, ...]()
    if isinstance(what, tuple):
        if len(what) != 2 or type(what[1]) is not int or what[1] < 1:
            raise ValueError(
                f"Expected a dtype, or (dtype, n) with n from 1 on, for output `{name}` of kernel, "
                f"got {what!r}"
            )
        dtype, shape = what[0], (what[1],)
    try:
        text = str(dtype) if isinstance(dtype, torch.dtype) else np.dtype(dtype).name
    except TypeError:
        text = repr(dtype)
    text = text.removeprefix("torch.")
    if text not in KERNEL_DTYPES:
        # A step behind it can make it narrower.
        advice = " (float32 holds all of its values)" if text in NARROW else ""
        raise ValueError(
            f"Expected one of {', '.join(KERNEL_DTYPES)} for output `{name}` of kernel, got {text}"
            f"{advice}"
        )
    return Argument(name, text, shape)


def _remade(
    fn: Callable[..., Any],
    inputs: tuple[str, ...],
    outputs: tuple[Argument, ...],
    random: bool,
    version: str | None,
) -> Kernel:
    return Kernel(fn, inputs, outputs, random=random, version=version)
