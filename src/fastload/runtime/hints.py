"""Hints for users who write a keyword or an attribute that another library has."""

from __future__ import annotations

import difflib
import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = [
    "hinted",
    "hinted_function",
    "missing_attribute",
    "missing_name",
    "nearest",
    "refuse_attribute",
    "shortened",
    "with_hints",
]

_Result = TypeVar("_Result")
_Class = TypeVar("_Class")
_Function = TypeVar("_Function")


def with_hints(
    owner: str, hints: Mapping[str, str]
) -> Callable[[Callable[..., _Result]], Callable[..., _Result]]:
    """Let a function that gets an unknown keyword, or too few arguments, say what to write instead.

    Args:
        owner: the name of the function or class, for the message.
        hints: what to write instead of a keyword; "{name}" stands for the keyword. "*" = what to
            write instead of too many arguments by position.

    Returns:
        A decorator for a function all of whose parameters have names. For arguments that the
        function does not take it raises a TypeError with a hint.
    """

    def decorate(function: Callable[..., _Result]) -> Callable[..., _Result]:
        signature = inspect.signature(function)
        known = [name for name in signature.parameters if name != "self"]

        @functools.wraps(function)
        def checked(*arguments: Any, **keywords: Any) -> _Result:
            for name in keywords:
                if name not in known:
                    raise TypeError(
                        f"{owner} has no parameter {name!r}: {_hint(name, known, hints)}"
                    )
            try:
                return function(*arguments, **keywords)
            except TypeError:
                wrong = _misfit(owner, signature, hints, arguments, keywords)
                if wrong is None:
                    raise
            raise TypeError(wrong)

        return checked

    return decorate


def hinted(**hints: str) -> Callable[[type[_Class]], type[_Class]]:
    """Return a decorator for a class whose `__init__` says what to write for an unknown keyword.

    Args:
        **hints: what to write instead of a keyword.
    """

    def decorate(kind: type[_Class]) -> type[_Class]:
        made = with_hints(kind.__name__, hints)(kind.__init__)
        setattr(kind, "__init__", made)  # noqa: B010  an assignment would hide the signature
        return kind

    return decorate


def hinted_function(**hints: str) -> Callable[[_Function], _Function]:
    """Return a decorator for a function that says what to write for an unknown keyword.

    Type checkers see the signature of the function.

    Args:
        **hints: what to write instead of a keyword.
    """

    def decorate(function: _Function) -> _Function:
        plain = cast("Callable[..., Any]", function)
        return cast("_Function", with_hints(plain.__name__, hints)(plain))

    return decorate


def missing_attribute(
    owner: object, name: str, hints: Mapping[str, str] | None = None, default: str = ""
) -> Any:
    """Do the work of `__getattr__`: raise the error for an attribute that does not exist.

    If a property raises an AttributeError, Python drops the error and calls `__getattr__`. Such a
    property is asked again, so that its own error is raised.

    Args:
        owner: the object.
        name: the attribute.
        hints: what to write instead of an attribute; None = as `default` says.
        default: what to write instead of any other attribute; "" = nothing.
    """
    kind = type(owner)
    for base in kind.__mro__:
        if name in vars(base):
            return vars(base)[name].__get__(owner, kind)
    # Libraries ask for private names and for special methods to learn what an object can do.
    hint = "" if name.startswith("_") else (hints or {}).get(name, default)
    raise AttributeError(
        f"{kind.__name__} has no attribute {name!r}" + (f": {hint}" if hint else "")
    )


def refuse_attribute(owner: object, name: str, advice: Callable[[str], str]) -> None:
    """Do the work of `__setattr__`: raise the error for an attribute that nothing would read.

    Private names, and names that the class or the object has, may be set. A subclass of a user may
    have attributes of its own.

    Args:
        owner: the object.
        name: the attribute.
        advice: returns what to write instead of setting an attribute; "" = nothing.

    Raises:
        AttributeError: the attribute may not be set.
    """
    kind = type(owner)
    if name.startswith("_") or name in vars(owner) or hasattr(kind, name):
        return
    if kind.__module__.partition(".")[0] != __name__.partition(".")[0]:
        return
    hint = advice(name) or "keep it in a variable of your own, or in a subclass"
    raise AttributeError(f"{kind.__name__} has no attribute {name!r} to set: {hint}")


def missing_name(module: str, name: str, names: Iterable[str], hints: Mapping[str, str]) -> Any:
    """Do the work of a module's `__getattr__`: raise the error for a name that does not exist.

    Args:
        module: the name of the module.
        name: the name that it lacks.
        names: the names that it has.
        hints: what to write instead of a name.
    """
    missing = f"module {module!r} has no attribute {name!r}"
    if name.startswith("_"):
        raise AttributeError(missing)
    close = " or ".join(f"{module}.{each}" for each in nearest(name, names))
    advice = f"did you mean {close}?" if close else f"dir({module}) lists the names"
    raise AttributeError(f"{missing}: {hints.get(name, advice)}")


def shortened(value: object, most: int = 60) -> str:
    """Return the repr of a value in one line of at most `most` characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= most else f"{text[: most - 3]}..."


def nearest(name: object, names: Iterable[str]) -> list[str]:
    """Return at most three of the names that resemble `name`, the nearest first."""
    return difflib.get_close_matches(str(name), list(names), n=3)


def _misfit(
    owner: str,
    signature: inspect.Signature,
    hints: Mapping[str, str],
    arguments: Sequence[object],
    keywords: Mapping[str, object],
) -> str | None:
    """Return what is wrong with the number of a call's arguments; None if it is right.

    Args:
        owner: as for `with_hints`.
        signature: the signature of the function.
        hints: as for `with_hints`.
        arguments: the arguments by position, with `self` if it is a method.
        keywords: the arguments by name, all of them known.
    """
    by_position = [each for each in signature.parameters.values() if each.kind != each.KEYWORD_ONLY]
    bound = [each.name for each in by_position[: len(arguments)]]
    names = [each.name for each in by_position if each.name != "self"]
    if len(arguments) > len(by_position):
        given = len(arguments) - len(by_position) + len(names)
        advice = hints.get("*", f"write the others by name, {owner}({', '.join(names)}, ...)")
        return f"{owner} takes {', '.join(names)} by position, got {given} arguments: {advice}"
    twice = [name for name in bound if name in keywords]
    if twice:
        return f"{owner} got {twice[0]!r} twice, by position and by name: write it once"
    required = [each.name for each in signature.parameters.values() if each.default is each.empty]
    missing = [name for name in required if name not in bound and name not in keywords]
    if not missing:
        return None
    call = ", ".join(name for name in required if name != "self")
    return f"{owner} needs {' and '.join(missing)}, got none: write {owner}({call})"


def _hint(name: str, known: list[str], hints: Mapping[str, str]) -> str:
    if name in hints:
        return hints[name].format(name=name)
    close = nearest(name, known)
    return f"did you mean {close[0]!r}?" if close else f"its parameters are {', '.join(known)}"
