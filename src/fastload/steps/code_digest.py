"""Digests of callables: two callables with equal digests compute the same.

A digest is a hash of the callable's pickle, in which functions and classes stand by value: by
bytecode, constants, default arguments and attributes, and by the values in closures and of the
globals that the code names. An object of an installed package or of the standard library counts by
its name and the package's version; a function that such a package has made, say of another
function, counts by its closure too. The names of the function, of its file and of its lines don't
count. Bytecode differs between versions of Python, and so do digests.

A digest can't cover objects that code looks up by a computed name (`getattr`, `eval`), data that
code reads from files or the environment, and state behind functions written in C.
"""

from __future__ import annotations

import contextlib
import copyreg
import functools
import hashlib
import io
import pickle
import random
import re
import types
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fastload.steps.function_code import code_text, no_digest, references
from fastload.steps.installed import installed_name, installed_version
from fastload.steps.numba_function import compiled_with, is_compiled, numba_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["code_digest"]

_PLAIN = (bool, int, float, type(None), tuple, list, dict)  # pickled as they are
# Objects whose state changes as they are used, beside NumPy's, whose module takes long to import.
_CHANGING = (io.IOBase, random.Random, torch.Generator)
_CHANGING_OF_NUMPY = ("BitGenerator", "Generator", "RandomState")
_METHODS_IN_C = (types.MethodDescriptorType, types.WrapperDescriptorType)
# Attributes that define an object which pickle knows by name, or not at all.
_DEFINED_BY: dict[type, tuple[str, ...]] = {
    types.MethodType: ("__func__", "__self__"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
    type(functools.cache(lambda: None)): ("__wrapped__",),
}
_DISPATCH_CACHES = ("register", "dispatch", "_clear_cache")
# Attributes that Python and its library keep for every class.
_OF_EVERY_CLASS = re.compile(
    "_abc_impl|"
    "__(annotat\\w+|dataclass_fields|doc|firstlineno|module|qualname|slotnames|static_attributes)__"
)


def code_digest(
    callable: Callable[..., Any],  # noqa: A002 - the word that users know
    version: str | None = None,
) -> str:
    """Return a digest of a callable's code: 32 hexadecimal digits.

    The digest is the same in every process, and on every machine with the same versions of Python
    and of the packages that the code uses. Callables with equal digests compute the same; two
    callables that compute the same may have different digests.

    Args:
        callable: a function (also one that numba compiled), a functools.partial, a method, or an
            object with `__call__`. The method `code_digest()` of an object, if it has one, decides
            instead.
        version: a text that stands for the code. The caller promises that the code stays the same
            as long as the version and the name of the callable do.

    Raises:
        TypeError: the code refers to an object that has no digest, and `version` is None.
    """
    name = _name(callable)
    if version is not None:
        return _digest_of(("version", name, version), name)
    return _digest_of(callable, name)


def _digest_of(value: object, place: str) -> str:
    """Return a digest of a value; `place` names what refers to the value, for messages."""
    hashed = hashlib.blake2b(digest_size=16)
    try:
        _Pickler(hashed.update, place).dump(value)
    except RecursionError:
        raise no_digest(value, place) from None
    return hashed.hexdigest()


class _Place(str):
    """The code or object that refers to the next value, for messages."""

    __slots__ = ()


class _Pickler(pickle.Pickler):
    """A pickler whose output depends only on what a value computes.

    Args:
        write: takes the bytes of the pickle.
        place: the code or object that refers to the value, for messages.
    """

    def __init__(self, write: Callable[[bytes], object], place: str) -> None:
        super().__init__(types.SimpleNamespace(write=write), protocol=4)
        self._place = place

    def persistent_id(self, value: Any) -> bytes | None:
        """Return bytes that stand for a value, whichever object holds the value; None for others.

        Equal strings may be one object or two, and sets have an order of their own.
        """
        kind = type(value)
        if kind in _PLAIN:
            return None
        if kind is str:
            return b"text %b" % value.encode("utf-8", "surrogatepass")
        if kind is bytes:
            return b"bytes %b" % value
        if kind is _Place:
            self._place = str(value)
            return b"place"
        if kind in (set, frozenset):
            items = sorted(_digest_of(item, self._place) for item in value)
            return f"{kind.__name__} {items}".encode()
        if isinstance(value, np.dtype):
            return f"dtype {value!r}".encode()
        name = "" if is_compiled(value) else installed_name(value)
        return f"installed {name}".encode() if name else None

    def reducer_override(self, value: Any) -> tuple[Any, ...]:
        """Return how a value is pickled: its parts follow once pickle knows it, so cycles end."""
        return str, (), self._parts(value)

    def _parts(self, value: Any) -> tuple[Any, ...]:
        """Return all that defines a value."""
        parts: tuple[Any, ...]
        if isinstance(value, type):
            parts = ("class", *_class_parts(value))
        elif isinstance(value, (*_CHANGING, types.ModuleType)) or _is_random_of_numpy(value):
            raise no_digest(value, self._place)
        elif (own := getattr(value, "code_digest", None)) is not None:
            parts = ("own", own())
        elif isinstance(value, types.FunctionType):
            parts = ("function", *_function_parts(value))
        elif (names := _DEFINED_BY.get(type(value))) is not None:
            parts = (type(value).__name__, *(getattr(value, name) for name in names))
        elif isinstance(value, types.MappingProxyType):
            parts = ("proxy", dict(value))
        elif is_compiled(value):
            options = dict(getattr(value, "targetoptions", {}))
            parts = ("numba", numba_version(), value.py_func, options, compiled_with(value))
        else:
            parts = ("object", type(value), *self._object_parts(value))
        return parts

    def _object_parts(self, value: Any) -> tuple[Any, ...]:
        """Return the content of an object, and its attributes, which its pickle may leave out."""
        kind = type(value)
        place = _Place(f"an object of `{kind.__qualname__}`")
        attributes = None if installed_name(kind) else _attributes(value)
        content: Any
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            whole = value.detach().cpu().contiguous().flatten().view(torch.uint8)
            content = (str(value.dtype), tuple(value.shape), _hash_of(whole.numpy()))
            attributes = vars(value)
        elif isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
            content = (value.dtype, value.shape, _hash_of(value))
            attributes = getattr(value, "__dict__", None)  # such as the mask of a masked array
        elif isinstance(value, (set, frozenset)):
            content = frozenset(value)
        else:
            content = self._pickled(value)
        return place, content, attributes

    def _pickled(self, value: Any) -> str | tuple[Any, ...]:
        """Return how an object asks to be pickled."""
        if isinstance(value, _METHODS_IN_C) and not installed_name(value.__objclass__):
            raise no_digest(value, self._place)
        reduce = copyreg.dispatch_table.get(type(value))
        try:
            pickled: Any = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception:  # noqa: BLE001 - whatever a class of the user raises
            raise no_digest(value, self._place) from None
        if isinstance(pickled, str):
            # A function in C, whose code can't be seen. Objects of typing compute nothing.
            if hasattr(value, "__name__") and type(value).__module__ != "typing":
                raise no_digest(value, self._place)
            return pickled
        # An iterator over a list would count by the list, whose items are still to come.
        return tuple([*part] if hasattr(part, "__next__") else part for part in pickled)


def _is_random_of_numpy(value: Any) -> bool:
    """Return whether a value is a random generator of NumPy."""
    kinds = (kind for kind in type(value).__mro__ if kind.__module__.startswith("numpy.random"))
    return any(kind.__name__ in _CHANGING_OF_NUMPY for kind in kinds)


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object of a user's class, those in slots too."""
    slots = {
        name: getattr(value, name)
        for base in type(value).__mro__
        for name, member in vars(base).items()
        if isinstance(member, types.MemberDescriptorType) and hasattr(value, name)
    }
    return {**slots, **getattr(value, "__dict__", {})}


def _function_parts(function: types.FunctionType) -> Iterator[Any]:
    name = _name(function)
    # What a function wraps counts where the function refers to it.
    own = {key: value for key, value in vars(function).items() if key != "__wrapped__"}
    if function.__globals__ is vars(functools) and "registry" in own:
        # Besides its functions, an object of functools.singledispatch has only caches.
        yield {key: value for key, value in own.items() if key not in _DISPATCH_CACHES}
        return
    yield from (code_text(function.__code__), _Place(name))
    yield from (function.__defaults__, function.__kwdefaults__)
    yield from (_Place(f"an attribute of {name}"), own)
    cells = {}
    variables = function.__code__.co_freevars
    for variable, cell in zip(variables, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # the cell is empty
            cells[variable] = cell.cell_contents
    package = str(function.__globals__.get("__name__"))
    if version := installed_version(package):  # a function that the package has made
        yield from (package, version, _Place(name), cells)
        return
    for reference, value in references(function.__code__, function.__globals__, cells, name):
        yield from (reference, _Place(f"`{reference}` in {name}"), value)


def _class_parts(kind: type) -> Iterator[Any]:
    yield from (type(kind), kind.__bases__)
    for name, attribute in [*vars(kind).items()]:
        slot = isinstance(attribute, (types.MemberDescriptorType, types.GetSetDescriptorType))
        if not slot and not _OF_EVERY_CLASS.fullmatch(name):
            yield from (name, _Place(f"`{kind.__qualname__}.{name}`"), attribute)


def _hash_of(array: np.ndarray[Any, Any] | np.generic) -> bytes:
    return hashlib.blake2b(array.tobytes(), digest_size=16).digest()


def _name(function: object) -> str:
    named = getattr(function, "func", function)  # of functools.partial
    return str(getattr(named, "__qualname__", type(named).__qualname__))
