"""Machine code of kernels: compiled by numba once, then kept on disk.

The only module that imports numba. An entry of the disk is what numba keeps of a compiled
function, behind a checksum; it is named after the kernel's code, the types of its arrays, the
versions of Python and numba, and the processor. As it is code, only files that belong to this user
are loaded.
"""

from __future__ import annotations

import ctypes
import hashlib
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

from fastload.runtime.disk.private_directory import cache_home, publish
from fastload.steps.code_digest import code_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from fastload.steps.kernel_argument import Argument

__all__ = ["Counts", "KernelCode", "compiled", "counts"]

_CHECKSUM_BYTES = 32
_BOLD = re.compile(r"\x1b\[\d*m")  # numba's messages have it wherever they are shown
# Options of a function that numba was told to compile: they change what it computes.
_OPTIONS = ("fastmath", "error_model", "boundscheck")
_NATIVE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)


class Counts(NamedTuple):
    """Functions that this process has compiled, and that it has loaded from disk."""

    compiled: int = 0
    loaded: int = 0


class KernelSource(Protocol):
    """What a kernel is compiled from: the part of `Kernel` that this module reads."""

    fn: Callable[..., Any]
    outputs: tuple[Argument, ...]
    random: bool

    @property
    def label(self) -> str:
        """The kernel's name, as messages give it."""


class KernelCode:
    """A kernel, compiled for inputs of some types.

    Args:
        kernel: what is compiled.
        inputs: of these types.

    Attributes:
        address: of the C function `int64_t (void** arrays, int64_t rows)`, which returns 0, or
            1 if the kernel raised something; valid as long as this lives.
        loaded: it came from disk.

    Raises:
        TypeError: numba can't compile it.
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
        # numba's own goes by names and times of source files.
        self._native._cache = disk  # noqa: SLF001
        try:
            self._native.compile()
        except Exception as error:
            raise TypeError(_refusal(kernel, inputs, error)) from error
        self.loaded = disk.loaded
        self.address: int = self._native.address
        self._call = _NATIVE(self.address)

    def run(self, arrays: Sequence[NDArray[Any]], rows: int) -> list[NDArray[Any]]:
        """The outputs of a block, computed by this thread without the GIL.

        Args:
            arrays: of the inputs, with offsets behind values, and the seeds.
            rows: of the block.
        """
        outputs = [np.zeros((rows, *o.shape), o.dtype) for o in self._kernel.outputs]
        every = [np.ascontiguousarray(array) for array in arrays] + outputs
        addresses = (ctypes.c_void_p * len(every))(*(array.ctypes.data for array in every))
        if self._call(ctypes.addressof(addresses), rows):
            self.fail(arrays, rows)
        return outputs

    def fail(self, arrays: Sequence[NDArray[Any]], rows: int) -> NoReturn:
        """Raises what the kernel raised on these arrays, as `run` takes them."""
        self._compile()
        filled = [np.zeros((rows, *o.shape), o.dtype) for o in self._kernel.outputs]
        self._function(*arrays, *filled)
        raise RuntimeError(
            f"Expected {self._kernel.label} to fail again on rows on which it failed, got none"
        )

    def _compile(self) -> None:
        """For read-only inputs, and no other types from then on."""
        if not self._function.signatures:
            self._function.compile(self._signature)
            self._function.disable_compile()


class _Disk:
    """What numba asks for machine code: one entry, if there is a place for it.

    Args:
        path: of the entry.
        before: called before the code is compiled.
    """

    def __init__(self, path: Path | None, before: Callable[[], None]) -> None:
        self.loaded = False
        self._path = path
        self._before = before

    def load_overload(self, _signature: Any, context: Any) -> CompileResult | None:
        """The entry; None if there is none that is whole and this user's."""
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
        """Keeps it, unless it refers to this process's memory or the disk refuses."""
        if self._path is None or result.library.has_dynamic_globals:
            return
        payload = dumps(result._reduce())  # noqa: SLF001
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            publish(self._path, [hashlib.sha256(payload).digest(), payload])
        except OSError:
            return


_lock = threading.Lock()
_counts = Counts()


def counts() -> Counts:
    """What this process has done so far."""
    return _counts


def compiled(kernel: KernelSource, inputs: Sequence[Argument]) -> KernelCode:
    """The code of a kernel for these inputs: from disk if it is there, else compiled.

    Raises:
        TypeError: numba can't compile it for them.
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
    """A function of pointers that calls `function`: no exception leaves a C function."""
    arrays: list[tuple[str, tuple[int, ...], str]] = []  # rows, shape of one, dtype
    for argument in inputs:
        # The last offset, of the array behind, says how many values there are.
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
    exec(source, scope)  # noqa: S102 - numba takes functions, and each has its own arrays
    return scope["entry"]


def _path(kernel: KernelSource, inputs: Sequence[Argument], options: dict[str, Any]) -> Path | None:
    """Where the code is kept; None if nothing names it, or there is no directory."""
    home = cache_home()
    try:
        # Its version says nothing of other functions of the same name.
        digest = code_digest(kernel.fn)
    except TypeError:
        return None
    if home is None:
        return None
    what = (
        digest,
        [tuple(argument) for argument in (*inputs, *kernel.outputs)],
        (kernel.random, sorted(options.items()), config.BOUNDSCHECK, repr(config.OPT)),
        (sys.version, numba.__version__, cpu_target.target_context.codegen().magic_tuple()),
    )
    name = hashlib.sha256(repr(what).encode()).hexdigest()[:40]
    return home / "kernels" / name


def _read(path: Path) -> bytes | None:
    """What an entry holds; None if it is damaged, or another user may have written it."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_uid != os.geteuid():
            return None
        checksum, payload = file.read(_CHECKSUM_BYTES), file.read()
    return payload if hashlib.sha256(payload).digest() == checksum else None


def _refusal(kernel: KernelSource, inputs: Sequence[Argument], error: Exception) -> str:
    takes = ", ".join(map(str, inputs)) + (", seeds uint64 (B,)" if kernel.random else "")
    fills = ", ".join(map(str, kernel.outputs))
    return (
        f"Expected {kernel.label} to compile for {takes} -> {fills}, got "
        f"{type(error).__name__}: {_BOLD.sub('', str(error))}"
    )
