"""Machine code of kernels, which numba compiles once and which is then kept on disk.

No other module imports numba. A file on disk holds a checksum, then numba's own form of a compiled
function. The file's name is a digest of the kernel's code, the types of its arrays, the versions
of Python and numba, and the processor. Because the file is code, it is loaded only if it belongs
to this user.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

import numba
import numpy as np
from numba import types
from numba.core import config
from numba.core.ccallback import CFunc
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.core.serialize import dumps

from fastload.runtime.digest import digest
from fastload.runtime.disk.private_directory import cache_home, publish, remove_abandoned_once
from fastload.steps.code_digest import code_digest
from fastload.steps.kernel_entry import ENTRY, call_entry, output_arrays

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from fastload.steps.kernel_entry import Argument

__all__ = ["KernelCode", "compiled"]

_CHECKSUM_BYTES = len(digest())
_BOLD = re.compile(r"\x1b\[\d*m")  # numba puts it into messages, even outside of a terminal
# Options that the user passed to numba.njit and that change what the function computes.
_OPTIONS = ("fastmath", "error_model", "boundscheck")


class Counts(NamedTuple):
    """Numbers of functions that this process has compiled, and has loaded from disk."""

    compiled: int = 0
    loaded: int = 0


class KernelSource(Protocol):
    """The part of `Kernel` that this module reads in order to compile the kernel."""

    fn: Callable[..., Any]
    outputs: tuple[Argument, ...]
    random: bool

    @property
    def label(self) -> str:
        """Name of the kernel in messages."""


class KernelCode:
    """A kernel, compiled for inputs of some types.

    Args:
        kernel: the kernel to compile.
        inputs: the type of each input.

    Attributes:
        address: the address of a C function `int64_t (void** arrays, int64_t rows)`, which returns
            0, or 1 if the kernel raised an error. It is valid as long as the object lives.
        loaded: the machine code was read from disk.

    Raises:
        TypeError: numba can't compile the kernel for these types.
    """

    def __init__(self, kernel: KernelSource, inputs: Sequence[Argument]) -> None:
        self._kernel = kernel
        given = getattr(kernel.fn, "targetoptions", {})
        options = {"error_model": "numpy", **{k: given[k] for k in _OPTIONS if k in given}}
        self._function = numba.njit(nogil=True, **options)(getattr(kernel.fn, "py_func", kernel.fn))
        self._signature = _signature(kernel, inputs)
        entry = _entry(kernel, inputs, self._function)
        arguments = (types.CPointer(types.voidptr), types.int64)
        self._native: Any = CFunc(entry, (arguments, types.int64), {}, {"nopython": True})
        disk = _Disk(_path(kernel, inputs, options), self._compile)
        # numba's own cache goes by names and times of source files.
        self._native._cache = disk  # noqa: SLF001
        try:
            self._native.compile()
        except Exception as error:
            raise TypeError(_refusal(kernel, inputs, error)) from error
        self.loaded = disk.loaded
        self.address: int = self._native.address
        self._call = ENTRY(self.address)

    def run(self, arrays: Sequence[NDArray[Any]], rows: int) -> list[NDArray[Any]]:
        """Compute the outputs of a block, on this thread and without the GIL.

        Args:
            arrays: the arrays of the inputs, each ragged one as values and offsets, then the
                seeds of a random kernel.
            rows: the number of rows in the block.

        Returns:
            An array for each output, in order.
        """
        outputs = output_arrays(self._kernel.outputs, rows)
        every = [np.ascontiguousarray(array) for array in arrays] + outputs
        if call_entry(self._call, every, rows):
            self.fail(arrays, rows)
        return outputs

    def fail(self, arrays: Sequence[NDArray[Any]], rows: int) -> NoReturn:
        """Call the function again in a way that raises its error.

        Args:
            arrays: the arrays on which `run` failed.
            rows: the number of rows in the block.

        Raises:
            Exception: the function's error.
            RuntimeError: the function raises no error this time.
        """
        self._compile()
        self._function(*arrays, *output_arrays(self._kernel.outputs, rows))
        raise RuntimeError(
            f"The {self._kernel.label} failed, but did not fail again on the same rows, so its "
            "error is not known"
        )

    def _compile(self) -> None:
        """Compile the function for read-only inputs, and allow no other types from then on."""
        if not self._function.signatures:
            self._function.compile(self._signature)
            self._function.disable_compile()


class _Disk:
    """A cache of one file, in the form in which numba asks for machine code.

    Args:
        path: the path of the file; None = nothing is kept.
        before: called before numba compiles the code.
    """

    def __init__(self, path: Path | None, before: Callable[[], None]) -> None:
        self.loaded = False
        self._path = path
        self._before = before

    def load_overload(self, _signature: Any, context: Any) -> CompileResult | None:
        """Return the kept code; None unless an undamaged file of this user exists."""
        context.refresh()
        try:
            payload = None if self._path is None else _read(self._path)
        except OSError:
            payload = None
        if payload is None:
            self._before()
            return None
        self.loaded = True
        return CompileResult._rebuild(context, *pickle.loads(payload))  # noqa: S301, SLF001

    def save_overload(self, _signature: Any, result: CompileResult) -> None:
        """Keep the code, unless it refers to this process's memory or can't be written."""
        if self._path is None or result.library.has_dynamic_globals:
            return
        payload = dumps(result._reduce())  # noqa: SLF001
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            remove_abandoned_once(self._path.parent)
            with publish(self._path) as file:
                file.writelines([digest(payload).encode(), payload])
        except OSError:
            return


_lock = threading.RLock()
# fork() waits for the end of a compilation: in a child, nobody would release this lock and numba's.
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)
_counts = Counts()


def counts() -> Counts:
    """Return the numbers of functions that this process has compiled and loaded so far."""
    return _counts


def compiled(kernel: KernelSource, inputs: Sequence[Argument]) -> KernelCode:
    """Load the machine code of a kernel from disk, or compile the kernel.

    Args:
        kernel: the kernel.
        inputs: the type of each input.

    Raises:
        TypeError: numba can't compile the kernel for these types.
    """
    global _counts  # noqa: PLW0603
    with _lock:
        code = KernelCode(kernel, inputs)
        _counts = Counts(_counts.compiled + (not code.loaded), _counts.loaded + code.loaded)
    return code


def _signature(kernel: KernelSource, inputs: Sequence[Argument]) -> Any:
    taken: list[Any] = []
    for argument in inputs:
        taken.append(_array(argument, readonly=True))
        if argument.ragged:
            taken.append(types.Array(types.int64, 1, "C", readonly=True))
    if kernel.random:
        taken.append(types.Array(types.uint64, 1, "C", readonly=True))
    return types.void(*taken, *(_array(output, readonly=False) for output in kernel.outputs))


def _array(argument: Argument, *, readonly: bool) -> Any:
    dtype = numba.from_dtype(np.dtype(argument.dtype))
    return types.Array(dtype, 1 + len(argument.shape), "C", readonly=readonly)


def _entry(kernel: KernelSource, inputs: Sequence[Argument], function: Any) -> Any:
    """Return a function of pointers that calls `function`, and returns 1 if `function` raises.

    A C function can't raise exceptions.
    """
    arrays: list[tuple[str, tuple[int, ...], str]] = []  # rows, shape of a row, dtype
    for argument in inputs:
        # The last element of the next array, the offsets, is the number of values.
        rows = f"a{len(arrays) + 1}[rows]" if argument.ragged else "rows"
        arrays.append((rows, argument.shape, argument.dtype))
        if argument.ragged:
            arrays.append(("rows + 1", (), "int64"))
    if kernel.random:
        arrays.append(("rows", (), "uint64"))
    arrays += [("rows", output.shape, output.dtype) for output in kernel.outputs]
    scope: dict[str, Any] = {"__name__": __name__, "function": function, "carray": numba.carray}
    body = ""
    for number, (rows, shape, dtype) in reversed([*enumerate(arrays)]):
        scope[f"t{number}"] = np.dtype(dtype).type
        whole = "".join(f"{size}, " for size in (rows, *shape))
        body += f"    a{number} = carray(arrays[{number}], ({whole}), t{number})\n"
    names = ", ".join(f"a{number}" for number in range(len(arrays)))
    source = (
        f"def entry(arrays, rows):\n{body}"
        f"    try:\n        function({names})\n"
        "    except Exception:\n        return 1\n    return 0\n"
    )
    exec(source, scope)  # noqa: S102 - numba compiles functions, and each has other arrays
    return scope["entry"]


def _path(kernel: KernelSource, inputs: Sequence[Argument], options: dict[str, Any]) -> Path | None:
    """Return the path of the kept code; None if the code has no digest, or no directory exists."""
    home = cache_home()
    try:
        # The kernel's version is not used: functions of other programs may have the same name.
        code = code_digest(kernel.fn)
    except TypeError:
        return None
    if home is None:
        return None
    what = (
        code,
        [tuple(argument) for argument in (*inputs, *kernel.outputs)],
        (kernel.random, sorted(options.items()), config.BOUNDSCHECK, repr(config.OPT)),
        (sys.version, numba.__version__, cpu_target.target_context.codegen().magic_tuple()),
    )
    return home / "kernels" / digest(repr(what))


def _read(path: Path) -> bytes | None:
    """Return the code in a file; None if the file is damaged, or belongs to another user."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_uid != os.geteuid():
            return None
        checksum, payload = file.read(_CHECKSUM_BYTES), file.read()
    return payload if digest(payload).encode() == checksum else None


def _refusal(kernel: KernelSource, inputs: Sequence[Argument], error: Exception) -> str:
    takes = ", ".join(map(str, inputs)) + (", seeds uint64 (B,)" if kernel.random else "")
    fills = ", ".join(map(str, kernel.outputs))
    return (
        f"Expected {kernel.label} to compile for {takes} -> {fills}, got "
        f"{type(error).__name__}: {_BOLD.sub('', str(error))}"
    )
