"""Digests of callables: two callables with equal digests compute the same.

A digest covers bytecode and constants, default arguments, attributes of functions, values in
closures, and the globals that the code names. Functions and classes count by their own code;
numbers, text, arrays and containers by value; attributes of modules by their own values. An object
of an installed package or of the standard library counts by its name and the package's version; a
function that such a package has made, say of another function, counts by its closure too. The
names of the function, of its file and of its lines don't count. Bytecode differs between versions
of Python, and so do digests.

A digest can't cover objects that code looks up by a computed name (`getattr`, `eval`), data that
code reads from files or the environment, and state behind functions written in C.
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import dis
import enum
import functools
import hashlib
import importlib.metadata
import os
import pathlib
import re
import struct
import sys
import sysconfig
import types
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["code_digest", "is_held", "numba_version"]

_PLAIN = (bool, int, float, str, bytes)
_CONTAINERS = (tuple, list, dict, set, frozenset, collections.deque)
_BY_TEXT = (complex, range, type(...), type(None), np.dtype, torch.dtype, torch.device)
_PLAIN_ARRAYS = (np.ndarray, np.memmap, torch.Tensor)
_NATIVE = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    np.ufunc,
)
_CACHED = type(functools.cache(lambda: None))
# Attributes that Python and its library keep for every class.
_OF_EVERY_CLASS = (
    "__abstractmethods__",
    "__annotate_func__",
    "__annotations__",
    "__annotations_cache__",
    "__dataclass_fields__",
    "__dataclass_params__",
    "__dict__",
    "__doc__",
    "__firstlineno__",
    "__hash__",  # None where `__eq__` is defined
    "__match_args__",
    "__module__",
    "__orig_bases__",
    "__parameters__",
    "__qualname__",
    "__slots__",
    "__static_attributes__",
    "__weakref__",
)
# Py_TPFLAGS_HEAPTYPE: set for classes of class statements, and of C code that imitates them.
_HEAP_TYPE = 1 << 9


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
    digest = _Digest()
    if version is not None:
        digest.add("version", _name(callable), version)
    else:
        digest.add_value(callable, _name(callable))
    return digest.hexdigest()


class _Digest:
    """A hash over values; the kind and the length of each value are hashed before the value."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._met: dict[int, int] = {}
        self._kept: list[object] = []  # keeps values alive, so that no id is reused

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def add(self, *parts: str | bytes) -> None:
        for part in parts:
            data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
            self._hash.update(struct.pack("<cq", b"b" if data is part else b"s", len(data)))
            self._hash.update(data)

    def add_value(self, value: Any, where: str) -> None:
        """Add a value to the hash.

        Args:
            value: the value.
            where: the code or object that refers to the value, for messages.
        """
        if type(value) in _PLAIN:
            self.add(type(value).__name__, _scalar(value))
        elif isinstance(value, _BY_TEXT):
            self.add(type(value).__name__, repr(value))
        elif self._is_known(value):
            return
        elif isinstance(value, _CONTAINERS) and _is_installed(type(value).__module__):
            self._add_container(value, where)
        elif isinstance(value, slice):
            self.add_value(("slice", value.start, value.stop, value.step), where)
        elif isinstance(value, types.MappingProxyType):
            self.add_value(("proxy", dict(value)), where)
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            self.add("namedtuple")
            self.add_value((value._fields, tuple(value)), where)
        elif not self._add_array(value, where):
            self._add_object(value, where)

    def _is_known(self, value: object) -> bool:
        """Return True if the value was added before.

        Such a value counts by the number of its first occurrence, so that cycles end.
        """
        number = self._met.get(id(value))
        if number is not None:
            self.add("met", str(number))
            return True
        self._met[id(value)] = len(self._met)
        self._kept.append(value)
        return False

    def _add_container(self, value: Any, where: str) -> None:
        self.add(type(value).__name__, str(len(value)))
        if isinstance(value, dict):
            self.add_value(getattr(value, "default_factory", None), where)
            for key, item in value.items():
                self.add_value(key, where)
                self.add_value(item, where)
        elif isinstance(value, (set, frozenset)):
            self.add(*sorted(_digest_of(item, where) for item in value))
        else:
            self.add_value(getattr(value, "maxlen", None), where)  # of a deque
            for item in value:
                self.add_value(item, where)

    def _add_array(self, value: Any, where: str) -> bool:
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            whole = value.detach().cpu().contiguous()
            self.add("tensor", str(value.dtype), repr(tuple(value.shape)))
            self.add(whole.flatten().view(torch.uint8).numpy().tobytes())
        elif isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
            kind = "scalar" if isinstance(value, np.generic) else "array"
            self.add(kind, value.dtype.str, repr(value.dtype.descr), repr(value.shape))
            self.add(value.tobytes())
        else:
            return False
        if not isinstance(value, np.generic) and type(value) not in _PLAIN_ARRAYS:
            # The operators of a np.matrix, and the mask of a masked array.
            self.add_value((type(value), vars(value)), where)
        return True

    def _add_object(self, value: Any, where: str) -> None:
        own = None if isinstance(value, type) else getattr(value, "code_digest", None)
        if own is not None:
            self.add("own", own())
        elif isinstance(value, type):
            self._add_class(value, where)
        elif isinstance(value, types.FunctionType):
            self._add_function(value, where)
        elif isinstance(value, _NATIVE):
            self._add_native(value, where)
        elif isinstance(value, types.ModuleType) and _is_installed(value.__name__):
            self._add_installed(value.__name__, "")
        elif (parts := _parts(value)) is not None:
            self.add("made of", str(len(parts)))
            for part in parts:
                self.add_value(part, where)
        else:
            self._add_instance(value, where)

    def _add_function(self, function: types.FunctionType, where: str) -> None:
        name = _name(function)
        # `__module__` may be copied from a function that this function wraps.
        if _is_installed(function.__module__) and _is_installed(_scope_of(function)):
            self._add_installed(function.__module__, function.__qualname__)
            if not is_held(function):
                self._add_made(function, name)
            return
        # What a function wraps counts where the function refers to it.
        own = {key: value for key, value in vars(function).items() if key != "__wrapped__"}
        if function.__globals__ is vars(functools) and "registry" in own:
            # Beside its functions, an object of functools.singledispatch has only caches.
            for cache in ("register", "dispatch", "_clear_cache"):
                del own[cache]
            self.add_value(("dispatch", own), name)
            return
        self.add("function")
        self._add_code(function.__code__, name)
        self.add_value(function.__defaults__, name)
        self.add_value(function.__kwdefaults__, name)
        self.add_value(own, f"an attribute of {name}")
        named = _Names(function)
        for reference, value in named.of(function.__code__, where):
            self.add("name", reference)
            self.add_value(value, f"`{reference}` in {name}")

    def _add_made(self, function: types.FunctionType, name: str) -> None:
        """Add what tells functions apart that a function of an installed package has made."""
        self._add_code(function.__code__, name)
        self.add_value(function.__defaults__, name)
        self.add_value(function.__kwdefaults__, name)
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # the cell is empty
                self.add_value(cell.cell_contents, name)

    def _add_code(self, code: types.CodeType, where: str) -> None:
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        self.add("code", repr(counts), code.co_code, getattr(code, "co_exceptiontable", b""))
        for names in (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars):
            self.add(repr(names))
        self.add(str(len(code.co_consts)))
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._add_code(constant, where)
            else:
                # Python may or may not share equal constants, so each constant counts by value.
                self.add(_digest_of(constant, where))

    def _add_native(self, value: Any, where: str) -> None:
        owner = getattr(value, "__self__", None)
        module = getattr(value, "__module__", None)
        name = str(getattr(value, "__qualname__", value.__name__))
        if isinstance(owner, types.ModuleType):
            module = owner.__name__
        elif owner is not None:  # a method of something
            self.add("native", name)
            self.add_value(owner, where)
            return
        if module is None and isinstance(value, np.ufunc):
            # The code of a ufunc of np.frompyfunc or of numba can't be seen.
            if not _is_held_anywhere(value):
                raise _unknown(value, where)
            module = "numpy"
        if module is None and hasattr(value, "__objclass__"):
            module = value.__objclass__.__module__
        if not _is_installed(module):
            raise _unknown(value, where)
        self._add_installed(str(module), name)

    def _add_class(self, value: type, where: str) -> None:
        # dataclasses.make_dataclass and types.new_class leave their own module's name in classes.
        if _is_installed(value.__module__) and (is_held(value) or not _is_of_python(value)):
            self._add_installed(value.__module__, value.__qualname__)
            return
        self.add("class", str(len(value.__bases__)))
        if type(value) is not type:
            self.add_value(type(value), where)
        for base in value.__bases__:
            self.add_value(base, where)
        for name, attribute in vars(value).items():
            if not _is_of_every_class(name, attribute):
                self.add("attribute", name)
                self.add_value(attribute, f"`{value.__qualname__}.{name}`")

    def _add_instance(self, value: Any, where: str) -> None:
        kind = type(value)
        if not _is_of_python(kind):
            # Such as np.mean, a function that C code wraps.
            if not _is_installed(getattr(value, "__module__", None)) or not is_held(value):
                raise _unknown(value, where)
            self._add_installed(value.__module__, value.__qualname__)
            return
        state = [*getattr(value, "__dict__", {}).items()]
        for base in kind.__mro__:
            for name, slot in vars(base).items():
                if isinstance(slot, types.MemberDescriptorType):
                    with contextlib.suppress(AttributeError):  # the slot is empty
                        state.append((name, slot.__get__(value)))
        self.add("instance")
        self._add_class(kind, where)
        self.add_value(state, f"an object of `{kind.__qualname__}`")

    def _add_installed(self, module: str, name: str) -> None:
        self.add("installed", module, _version(module.partition(".")[0]), name)


class _Names:
    """The objects that a function's code refers to by name.

    Args:
        function: its globals and its closure are looked up, also for functions defined inside.
    """

    def __init__(self, function: types.FunctionType) -> None:
        self._globals: Mapping[str, Any] = function.__globals__
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        self._cells = dict(cells)
        self._name = _name(function)

    def of(self, code: types.CodeType, where: str) -> Iterator[tuple[str, Any]]:
        """Yield each name in a function's code and the name's value.

        The name of a module that has no version is followed by the attributes that the code asks
        for, and its value is the last attribute's.

        Args:
            code: the function's code, or the code of a function defined inside.
            where: what refers to the function, for messages.

        Raises:
            TypeError: the function imports a module that has no version, or names such a module
                without an attribute.
        """
        every = dis.get_instructions(code)
        instructions = [one for one in every if one.opname not in ("CACHE", "EXTENDED_ARG")]
        for number, one in enumerate(instructions):
            if one.opname == "IMPORT_NAME" and not _is_installed(str(one.argval)):
                raise TypeError(
                    f"Expected imports of modules that have a version, got `import {one.argval}` "
                    f"in {self._name}; import it outside of the function"
                )
            found = self._value(one)
            if found is None:
                continue
            name, value = one.argval, found[0]
            at = number + 1
            while isinstance(value, types.ModuleType) and not _is_installed(value.__name__):
                if at == len(instructions) or instructions[at].opname not in _ATTRIBUTES:
                    raise _unknown(value, where)
                attribute = instructions[at].argval
                name, at = f"{name}.{attribute}", at + 1
                value = getattr(value, attribute, "missing")
            yield name, value
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from self.of(constant, where)

    def _value(self, one: dis.Instruction) -> tuple[Any] | None:
        name = one.argval
        if one.opname in _GLOBALS:
            if name in self._globals:
                return (self._globals[name],)
            return ("builtin",)
        if one.opname in _CELLS and name in self._cells:
            try:
                return (self._cells[name].cell_contents,)
            except ValueError:
                return ("empty",)
        return None


_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
# The bodies of classes look up closures by LOAD_CLASSDEREF, and since Python 3.12 by the last one.
_CELLS = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")


def _parts(value: Any) -> tuple[Any, ...] | None:
    """Return the class and the parts that define a value of a known class; None for others."""
    parts: tuple[Any, ...] | None = None
    if isinstance(value, types.MethodType):
        parts = ("method", value.__func__, value.__self__)
    elif isinstance(value, functools.partial):
        parts = ("partial", value.func, value.args, value.keywords)
    elif isinstance(value, (staticmethod, classmethod)):
        parts = (type(value).__name__, value.__func__)
    elif isinstance(value, property):
        parts = ("property", value.fget, value.fset, value.fdel)
    elif isinstance(value, re.Pattern):
        parts = ("pattern", value.pattern, value.flags)
    elif isinstance(value, pathlib.PurePath) and _is_installed(type(value).__module__):
        parts = ("path", os.fspath(value))
    elif isinstance(value, enum.Enum):
        parts = ("member", value.name, type(value))
    elif hasattr(value, "py_func") and type(value).__module__.partition(".")[0] == "numba":
        options = dict(getattr(value, "targetoptions", {}))
        parts = ("compiled", numba_version(), value.py_func, options, _frozen(value))
    elif isinstance(value, _CACHED):  # its results are those of the function
        parts = ("wrapped", value.__wrapped__)
    return parts


def _frozen(value: Any) -> list[tuple[str, str, Any]]:
    """Return what a function of numba was compiled with, and its names mean no longer.

    numba reads globals and closures when it compiles a function for some types of arguments, and
    this machine code stays as it is. A list has the types, the name and the value.
    """
    code = value.py_func.__code__
    cells = dict(zip(code.co_freevars, value.py_func.__closure__ or (), strict=True))
    frozen = []
    for signature, made in [*getattr(value, "overloads", {}).items()]:
        # What numba has read from its own cache has no blocks.
        blocks = getattr(getattr(made, "type_annotation", None), "blocks", {})
        one: Any
        for one in (
            getattr(line, "value", None) for block in blocks.values() for line in block.body
        ):
            kind = type(one).__name__
            if kind == "FreeVar" and one.name in cells:
                now = cells[one.name].cell_contents
            elif kind == "Global" and one.name in code.co_names:
                now = value.py_func.__globals__.get(one.name, vars(builtins).get(one.name))
            else:
                continue
            plain = type(now) is type(one.value) and type(now) in _PLAIN
            if now is not one.value and not (plain and repr(now) == repr(one.value)):
                frozen.append((str(signature), one.name, one.value))
    return frozen


def _is_of_every_class(name: str, attribute: object) -> bool:
    """Return True if Python itself keeps the attribute: `__doc__`, `__annotations__`, slots."""
    if isinstance(attribute, (types.MemberDescriptorType, types.GetSetDescriptorType)):
        return True
    if callable(attribute) or isinstance(attribute, (staticmethod, classmethod, property)):
        return False
    return name in _OF_EVERY_CLASS or name.startswith("_abc_")


def _digest_of(value: object, where: str) -> str:
    digest = _Digest()
    digest.add_value(value, where)
    return digest.hexdigest()


def _scalar(value: bool | float | str | bytes) -> str | bytes:
    if isinstance(value, float):
        return struct.pack("<d", value)
    return value if isinstance(value, (str, bytes)) else str(value)


def _is_of_python(kind: type) -> bool:
    """Return True if attributes hold all state of the class's objects: no base is a class of C."""
    bases = kind.__mro__[:-1]
    # Classes of C may imitate those of Python, but their objects have memory beside attributes.
    # Since Python 3.12, the dict and the weak references of an object may lie before the object.
    slots = [name for base in bases for name in _slots_of(base)]
    words = sum(name not in ("__dict__", "__weakref__") for name in slots)
    words += sum(offset > 0 for offset in (kind.__dictoffset__, kind.__weakrefoffset__))
    size = object.__basicsize__ + words * struct.calcsize("P")
    beside = kind.__basicsize__ != size or kind.__itemsize__ > 0
    return not beside and all(base.__flags__ & _HEAP_TYPE for base in bases)


def _slots_of(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _unknown(value: object, where: str) -> TypeError:
    return TypeError(
        f"Expected code and values that have a digest, got {type(value).__qualname__} for {where}"
    )


def _name(function: object) -> str:
    named = getattr(function, "func", function)  # of functools.partial
    return str(getattr(named, "__qualname__", type(named).__qualname__))


@functools.cache
def _installed_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    return tuple(os.path.realpath(folder) + os.sep for folder in folders)


def _is_installed(module: str | None) -> bool:
    """Return True if the module belongs to Python or to a package that has a version."""
    if not module:
        return False
    top = module.partition(".")[0]
    return bool(_version(top))


def _scope_of(function: types.FunctionType) -> str | None:
    """Return the name of the module whose globals a function uses."""
    return function.__globals__.get("__name__")


def is_held(value: Any) -> bool:
    """Return True if the module of a function or class holds the object under its name.

    An object without a name is held by no module.
    """
    found = sys.modules.get(value.__module__)
    for part in getattr(value, "__qualname__", "").split("."):
        found = getattr(found, part, None)
    return getattr(found, "__func__", found) is value


def _is_held_anywhere(function: np.ufunc) -> bool:
    """Return True if some installed module holds a ufunc, which does not know its module."""
    name = function.__name__
    return any(
        _is_installed(module)
        for module, held in sys.modules.copy().items()
        if getattr(held, "__dict__", {}).get(name) is function
    )


def numba_version() -> str:
    """Return the version of numba, on which the results of compiled functions depend."""
    try:
        return importlib.metadata.version("numba")
    except importlib.metadata.PackageNotFoundError:
        return ""


@functools.cache
def _version(top: str) -> str:
    """Return the version of Python or of an installed package; "" for any other module."""
    file = getattr(sys.modules.get(top), "__file__", None)
    ours = file is None or os.path.realpath(file).startswith(_installed_folders())
    if top in sys.stdlib_module_names and ours:
        return sys.version.partition(" ")[0]
    if file is None or not os.path.realpath(file).startswith(_installed_folders()):
        return ""
    try:
        return importlib.metadata.version(top)
    except importlib.metadata.PackageNotFoundError:
        return str(getattr(sys.modules[top], "__version__", ""))
