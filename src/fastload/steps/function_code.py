"""What the code of a function computes: bytecode, constants, and the values that names refer to."""

from __future__ import annotations

import dis
import types
from typing import TYPE_CHECKING, Any

from fastload.steps.installed import installed_version

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["code_text", "no_digest", "references"]

_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
# The bodies of classes look up closures by LOAD_CLASSDEREF, and since Python 3.12 by the last one.
_CELLS = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")


def code_text(code: types.CodeType) -> str:
    """Return a text of the bytecode, the names and the constants."""
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    constants = []
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            constants.append(code_text(constant))
        elif isinstance(constant, frozenset):
            constants.append(f"frozenset {sorted(map(repr, constant))}")
        else:
            constants.append(repr(constant))
    return repr((counts, names, code.co_code, getattr(code, "co_exceptiontable", b""), constants))


def references(
    code: types.CodeType, scope: dict[str, Any], cells: dict[str, Any], function: str
) -> Iterator[tuple[str, Any]]:
    """Yield each name in a function's code that means a value outside of the function.

    The name of a module that has no version is followed by the attributes that the code asks for,
    and its value is the last attribute's.

    Args:
        code: the function's code, or the code of a function defined inside.
        scope: the function's globals.
        cells: the values in the function's closure.
        function: the function's name, for messages.

    Raises:
        TypeError: the function imports a module that has no version, or names such a module
            without an attribute.
    """
    every = dis.get_instructions(code)
    instructions = [one for one in every if one.opname not in ("CACHE", "EXTENDED_ARG")]
    for number, one in enumerate(instructions):
        name = one.argval
        if one.opname == "IMPORT_NAME" and not installed_version(name):
            raise TypeError(
                f"Expected imports of modules that have a version, got `import {name}` in "
                f"{function}; import it outside of the function"
            )
        found = scope if one.opname in _GLOBALS else cells if one.opname in _CELLS else {}
        if name not in found:
            continue
        value = found[name]
        attributes = iter(instructions[number + 1 :])
        while isinstance(value, types.ModuleType) and not installed_version(value.__name__):
            following = next(attributes, one)
            if following.opname not in _ATTRIBUTES:
                raise no_digest(value, function)
            name = f"{name}.{following.argval}"
            value = getattr(value, following.argval, "missing")
        yield name, value
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from references(constant, scope, cells, function)


def no_digest(value: object, place: str) -> TypeError:
    """Return the error of a value that can't be told from others; `place` refers to it."""
    return TypeError(
        f"Expected code and values that have a digest, got {type(value).__qualname__} for {place}"
    )
