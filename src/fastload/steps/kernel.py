"""Kernel: a step of machine code, which the core calls on its own threads."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np
import torch
from typing_extensions import override

from fastload.runtime.digest import digest
from fastload.steps.code_digest import code_digest
from fastload.steps.installed import is_held
from fastload.steps.kernel_entry import KERNEL_DTYPES, NARROW, AddressCode, Argument
from fastload.steps.numba_function import numba_version
from fastload.steps.per_row import name_of

if TYPE_CHECKING:
    from typing_extensions import Self

    from fastload.schema.fields import Field
    from fastload.steps.kernel_code import KernelCode

__all__ = ["Kernel", "kernel"]

DTypeLike: TypeAlias = "str | torch.dtype | np.dtype[Any] | type"


class Kernel:
    """A step for `preprocess` or `augment`, made by `kernel`. Calling it calls the function.

    Attributes:
        fn: the function.
        inputs: the names of the outputs that the function takes.
        outputs: the arrays that the function fills.
        random: the function takes seeds.
        version: a text that stands for the code of a function that has no digest, or None.
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
        self._digests: dict[tuple[Argument, ...], str] = {}  # of the code when it was compiled

    def __call__(self, *arrays: Any) -> Any:
        """Call the function in Python, on arrays; nothing is compiled."""
        return self.fn(*arrays)

    def __repr__(self) -> str:
        outputs = [output.name for output in self.outputs]
        return f"kernel({name_of(self.fn)}, inputs={[*self.inputs]}, outputs={outputs})"

    def __reduce__(self) -> str | tuple[Any, ...]:
        # A decorated function is pickled by its name, as plain functions are.
        if is_held(self):
            return str(self.fn.__qualname__)
        return _remade, (self.fn, self.inputs, self.outputs, self.random, self.version)

    @property
    def label(self) -> str:
        """Name of the kernel in messages."""
        return f"kernel `{name_of(self.fn)}`"

    def code_digest(self) -> str:
        """Return what names the kernel's code and arrays, as `code_digest` does for functions.

        What counts is the code as it was compiled, for each type of inputs: the machine code keeps
        the values that globals had then.

        Raises:
            TypeError: the code refers to an object that has no digest, and `version` is None.
        """
        compiled = {*self._digests.values()}
        if len(compiled) > 1:
            return digest(repr(sorted(self._digests.items())))
        return compiled.pop() if compiled else self._digest_now()

    def _digest_now(self) -> str:
        # A version stands for all of the code, as it does for functions.
        by = numba_version() if self.version is None else ""
        what = (code_digest(self.fn, self.version), by, self.inputs, self.outputs, self.random)
        return digest(repr(what))

    def code(self, inputs: Sequence[Argument]) -> KernelCode | AddressCode:
        """Return the machine code for inputs of given types, compiled on the first call.

        Args:
            inputs: the type of each input.

        Raises:
            TypeError: numba can't compile the function for these types.
            ModuleNotFoundError: numba is not installed.
        """
        key = tuple(inputs)
        if key not in self._codes:
            # numba is imported only here, so that programs without kernels don't wait for it.
            from fastload.steps.kernel_code import compiled

            with contextlib.suppress(TypeError):  # only a cache needs the digest, and asks again
                self._digests[key] = self._digest_now()
            self._codes[key] = compiled(self, key)
        return self._codes[key]

    def argument(self, name: str, field: Field, *, row_major: bool = True) -> Argument:
        """Return the array by which the kernel takes an output.

        Args:
            name: the name of the output.
            field: the field of the output.
            row_major: the output's elements are stored in the order of its shape.

        Raises:
            TypeError: a kernel can't take such an output.
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


class kernel:  # noqa: N801 - users write the class as a decorator
    """A decorator that turns a function of arrays into a step that numba compiles.

    Example:
        @fastload.kernel(inputs=("price", "quantity"), outputs={"revenue": "float32"})
        def revenue(price, quantity, out):
            for i in range(len(out)):
                out[i] = price[i] * quantity[i]

        FastParquetDataset("train", columns=["price", "quantity"], preprocess=revenue)

    The core calls the machine code on its threads, without the GIL, on each assembled batch. After
    a step that is a Python function, the thread that asks for the batch calls the machine code.

    The function takes the arrays of the inputs in order, then (with `random`) the seeds, then the
    arrays of the outputs. It fills the arrays of the outputs, which are zeros at first; the arrays
    of the inputs are read-only. For a block of B rows, an input (B,) or (B, n) is an array of this
    shape and of the input's dtype. A list column, and a column of strings, is two arrays: values
    (N,) and offsets int64 (B + 1), where row i is `values[offsets[i]:offsets[i + 1]]`. Rows must
    not depend on one another, because it is not defined which rows make a block.

    numba can't compute float16 and bfloat16 on a CPU. Read such inputs as columns with
    dtype=torch.float32, and declare outputs as float32; a function of `augment` may narrow them.

    Arithmetic is numpy's: dividing a float by 0 gives inf or nan. Indices are not checked, unless
    NUMBA_BOUNDSCHECK=1 is set. An error in the function is raised where the batch is asked for.
    Machine code is kept in $FASTLOAD_CACHE_DIR, or else in the user's cache directory, under a
    digest of the function's code and of all objects that the code refers to. These objects are
    read when the function is compiled, and later changes have no effect.

    To make a step of machine code from another compiler, use `kernel.from_address`.

    Args:
        inputs: name or names of the outputs that the function takes, from `columns` or from
            earlier steps.
        outputs: dtype of each output that the function adds or replaces: "bool", an integer,
            "float32" or "float64" for (B,); or (dtype, n) for (B, n). An output with the name of
            an input replaces the input.
        random: the function takes seeds, uint64 (B,), as callables of `augment` do. Allowed only
            in `augment`.
        version: a text that stands for the code where the code refers to an object that has no
            digest. Change it whenever the code changes.

    Raises:
        TypeError, ValueError: an argument is wrong. When a dataset is made and the types of the
            inputs are known: an input does not exist, or numba can't compile the function for
            these types; the message has the kernel, the types and numba's message.
    """

    def __init__(
        self,
        inputs: str | Sequence[str],
        outputs: Mapping[str, DTypeLike | tuple[DTypeLike, int]],
        *,
        random: bool = False,
        version: str | None = None,
    ) -> None:
        self._inputs, self._outputs = _checked(inputs, outputs)
        if version is not None and not isinstance(version, str):
            raise TypeError(f"Expected version of kernel as str, got {version!r}")
        self._random = random
        self._version = version

    def __call__(self, fn: Callable[..., Any]) -> Kernel:
        """Return the step that the core makes of the function."""
        if not callable(getattr(fn, "py_func", fn)) or not hasattr(fn, "__qualname__"):
            raise TypeError(f"Expected a function to make a kernel of, got {fn!r}")
        return Kernel(fn, self._inputs, self._outputs, random=self._random, version=self._version)

    @staticmethod
    def from_address(
        address: int,
        *,
        inputs: str | Sequence[str],
        outputs: Mapping[str, DTypeLike | tuple[DTypeLike, int]],
        version: str,
        random: bool = False,
        owner: object = None,
    ) -> AddressKernel:
        """Return a step from machine code that any compiler made: C, C++, Rust, Cython, numba.

        The function has the form

            int64_t function(void** arrays, int64_t rows)

        `arrays` holds pointers to the arrays that a function of `kernel` takes, in this order: for
        each input its values, followed by its offsets if the input is ragged; with `random`, the
        seeds; then each output. All arrays are C-contiguous. The function returns 0, or another
        number if it failed: the batch then raises RuntimeError with this number. Several threads
        call the function at a time, without the GIL, so it must be thread-safe and may not call
        Python. fastload can't check what the machine code does: a wrong type or index crashes the
        process, or gives wrong values.

        A kernel from an address works in this process and in forked workers. It can't be sent to
        workers that are not forked.

        Args:
            address: address of the function.
            inputs: as for `kernel`.
            outputs: as for `kernel`.
            version: a text that stands for the machine code in the key of the cache, such as the
                version of your library or the digest of its file. Change it whenever the code
                changes.
            random: as for `kernel`.
            owner: object that keeps the machine code in memory, such as a ctypes.CDLL or a
                numba.cfunc. The kernel keeps a reference to it.

        Raises:
            TypeError, ValueError: an argument is wrong.
        """
        takes, fills = _checked(inputs, outputs)
        if type(address) is not int:
            raise TypeError(f"Expected address of kernel.from_address as int, got {address!r}")
        if address <= 0:
            raise ValueError(f"Expected address of kernel.from_address above 0, got {address}")
        if not isinstance(version, str):
            raise TypeError(f"Expected version of kernel.from_address as str, got {version!r}")
        code = AddressCode(address, fills, owner)
        return AddressKernel(code, takes, fills, random=random, version=version)


class AddressKernel(Kernel):
    """A step for `preprocess` or `augment` whose machine code the user compiled.

    Made by `kernel.from_address`. Calling it calls the machine code on arrays.

    Args:
        code: the machine code.
        inputs, outputs, random: as for `Kernel`.
        version: a text that stands for the machine code.
    """

    fn: AddressCode

    def __init__(
        self,
        code: AddressCode,
        inputs: tuple[str, ...],
        outputs: tuple[Argument, ...],
        *,
        random: bool,
        version: str,
    ) -> None:
        super().__init__(code, inputs, outputs, random=random, version=version)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # a copy of a dataset in this process uses the same machine code

    @override
    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "Expected a step that another process can load, got kernel.from_address: its machine "
            "code has an address only in this process and in its forks; write "
            'DataLoader(..., multiprocessing_context="fork")'
        )

    @override
    def code(self, inputs: Sequence[Argument]) -> AddressCode:
        """Return the machine code, which takes inputs of the types that the user compiled for.

        Args:
            inputs: the type of each input.
        """
        return self.fn


def _checked(inputs: Any, outputs: Any) -> tuple[tuple[str, ...], tuple[Argument, ...]]:
    """Return the names of the inputs and the arrays of the outputs of a kernel.

    Raises:
        TypeError, ValueError: the arguments `inputs` and `outputs` of `kernel` are wrong.
    """
    takes = (inputs,) if isinstance(inputs, str) else inputs
    if not isinstance(takes, Sequence) or not all(isinstance(name, str) for name in takes):
        raise TypeError(f"Expected inputs of kernel as a name or names, got {inputs!r}")
    if not isinstance(outputs, Mapping) or not all(isinstance(name, str) for name in outputs):
        raise TypeError(
            f"Expected outputs of kernel as a mapping from name to dtype, got {outputs!r}"
        )
    if not outputs:
        raise ValueError("Expected outputs of kernel to name at least one output, got none")
    if len(set(takes)) < len(takes):
        raise ValueError(f"Expected each input of kernel once, got {inputs!r}")
    return tuple(takes), tuple(_filled(name, what) for name, what in outputs.items())


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
        # A later step can narrow the output.
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
