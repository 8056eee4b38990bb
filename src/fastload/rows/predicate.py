"""Filters and a split, which decide the rows of a dataset."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fastload.runtime.digest import digest

if TYPE_CHECKING:
    import pyarrow.compute as pc

__all__ = [
    "Filters",
    "Predicate",
    "Split",
    "SplitArgument",
    "as_uint64",
    "expression_of",
    "is_expression",
    "is_integer",
    "parse_filters",
    "parse_split",
    "resolve_filters",
    "serialized",
    "within_limits",
]

Filters: TypeAlias = (
    "pc.Expression | tuple[str, str, Any] | Sequence[tuple[Any, ...]] "
    "| Sequence[Sequence[tuple[Any, ...]]]"
)
"""The `filters` argument: an expression, or conditions in the form of pyarrow and pandas."""

SplitArgument = tuple[str | Sequence[str] | None, float, float]
"""The `split` argument: column names or None, start and stop."""

_FORM = 'a condition such as ("price", ">", 0), a list of conditions or a pyarrow Expression'
_FUNCTION = (
    "rows are counted before they are decoded, so write a condition on columns, or choose the rows "
    "by number: Subset(dataset.by_index(), numbers)"
)
_OPERATORS = ("==", "=", "!=", "<", ">", "<=", ">=", "in", "not in")
_NULLS = "for nulls pass an Expression, pyarrow.compute.field(name).is_null() or .is_valid()"

_TIMES = (np.datetime64, np.timedelta64)
# The most characters of the text of a split in a saved state.
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Split:
    """The rows whose hash, as a fraction of 2**64, lies in [start, stop).

    Attributes:
        columns: the columns to hash; None = the file's name and the row's number. See `row_hash`.
        start: the first fraction, at least 0.
        stop: the fraction after the last one, at most 1.
    """

    columns: tuple[str, ...] | None
    start: float
    stop: float

    @property
    def bounds(self) -> tuple[int, int]:
        """First hash in the range, and first hash after the range, from 0 to 2**64."""
        return _bound(self.start), _bound(self.stop)


@dataclass(frozen=True, eq=False)
class Predicate:
    """Filters and a split. A row stays if it passes both.

    Attributes:
        filters: a pyarrow.compute Expression, or None.
        split: the split, or None.
        filters_text: text of the filters, of about 75 characters at most, and different for other
            filters; None without filters.
    """

    filters: Any = None
    split: Split | None = None
    filters_text: str | None = None

    def __bool__(self) -> bool:
        return self.filters is not None or self.split is not None

    @cached_property
    def split_text(self) -> str | None:
        """Text of the split, of about 200 characters at most; None without a split."""
        if self.split is None:
            return None
        text = repr((self.split.columns, self.split.start, self.split.stop))
        if len(text) <= _SHOWN:
            return text
        return f"{text[:_SHOWN]}... #{digest(text)}"

    @property
    def digest(self) -> str:
        """A digest that differs for each predicate."""
        return digest(repr((self.filters_text, self.split_text)))


def parse_filters(filters: Any) -> Any:
    """Check the `filters` argument, and return it; a single condition becomes a list of one.

    Args:
        filters: None, an Expression, a condition, or a list of conditions.

    Raises:
        TypeError, ValueError: the argument is wrong.
    """
    if filters is None or is_expression(filters):
        return filters
    if not isinstance(filters, (list, tuple)):
        hint = f": {_FUNCTION}" if callable(filters) else ""
        raise TypeError(f"Expected filters as {_FORM}, got {filters!r}{hint}")
    if len(filters) == 3 and isinstance(filters, tuple) and isinstance(filters[0], str):
        filters = [filters]
    for conjunction in _conjunctions(filters):
        for condition in conjunction:
            if not isinstance(condition, tuple) or len(condition) != 3:
                raise ValueError(
                    "Expected each condition of filters as (column, operator, value), got "
                    f"{condition!r} in {filters!r}; write filters as {_FORM}"
                )
            _check_condition(*condition)
    expression_of(resolve_filters(filters), filters)
    return filters


def _check_condition(name: object, operator: object, value: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"Expected the name of a column in filters, got {name!r}")
    if operator not in _OPERATORS:
        known = ", ".join(_OPERATORS)
        raise ValueError(
            f"Expected an operator of filters among {known}, got {operator!r}; for others pass an "
            "Expression of pyarrow.compute"
        )
    if operator in ("in", "not in"):
        if isinstance(value, (str, bytes)):
            raise ValueError(
                f"Expected a list of values for {operator!r}, got {value!r}: write [{value!r}]"
            )
        if isinstance(value, Iterator):  # filters are converted more than once
            raise ValueError(
                f"Expected a list of values for {operator!r}, got {value!r}, which can be read "
                "only once: make a list of it"
            )
    elif value is None:
        raise ValueError(
            f"Expected a value to compare `{name}` with, got None, which equals no value: {_NULLS}"
        )


def is_expression(filters: object) -> bool:
    """Return True for a pyarrow Expression."""
    # pyarrow.compute is imported only here, so that datasets without filters don't wait for it.
    from pyarrow.compute import Expression

    return isinstance(filters, Expression)


def resolve_filters(
    filters: Any,
    path_of: Callable[[str], tuple[str, ...]] = lambda name: (name,),
    condition_of: Callable[[str, str, Any], tuple[str, Any]] = lambda _name, *rest: rest,
) -> Any:
    """Return conditions as a list of lists of column path, operator and value; others unchanged.

    Args:
        filters: an Expression, a list of conditions, or None.
        path_of: returns the path of a column, given its name in a condition.
        condition_of: returns the operator and the value to compare with, given the name, the
            operator and the value of a condition.

    Raises:
        ValueError: a value of NumPy has a unit that Arrow lacks.
    """
    if filters is None or is_expression(filters):
        return filters
    resolved = []
    for conjunction in _conjunctions(filters):
        parts = [(path_of(name), *condition_of(name, *rest)) for name, *rest in conjunction]
        resolved.append([(path, operator, _stored(value)) for path, operator, value in parts])
    return resolved


def expression_of(resolved: Any, filters: Any) -> Any:
    """Convert filters to an Expression; return None for None.

    Args:
        resolved: what `resolve_filters` returned.
        filters: the filters as the user passed them, for the error.

    Raises:
        ValueError: the conditions are not in pyarrow's form.
    """
    if resolved is None or is_expression(resolved):
        return resolved
    try:
        from pyarrow.parquet import filters_to_expression

        return filters_to_expression(resolved)
    except (ValueError, TypeError, NotImplementedError, OverflowError) as error:
        message = f"Expected filters in pyarrow's form, got {filters!r}: {error}"
        raise ValueError(f"{message}{_mixed_hint(resolved)}") from None


def _mixed_hint(conjunctions: Sequence[Sequence[tuple[Any, ...]]]) -> str:
    """Return what to write instead of a list that mixes text with other values; "" if none does."""
    for path, _, values in (condition for each in conjunctions for condition in each):
        if isinstance(values, (list, tuple, set, frozenset)):
            text = [isinstance(each, str) for each in values if each is not None]
            if any(text) and not all(text):
                return f"; write a list of values of one type for `{'.'.join(path)}`"
    return ""


def _stored(value: Any) -> Any:
    """Return a time of NumPy or a large integer as the scalar that pyarrow does not make of it.

    An integer that int64 can't hold becomes uint64, or a decimal if uint64 can't hold it either.
    A list or a set with such an integer becomes an array, or a list of decimals; one with times of
    NumPy a list with their scalars.
    """
    if isinstance(value, _TIMES):
        return _stored_time(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        if any(issubclass(kind, _TIMES) for kind in set(map(type, value))):
            return [_stored_time(each) if isinstance(each, _TIMES) else each for each in value]
        if within_limits(value, -(2**63), 2**63 - 1):
            return value
        found = as_uint64(value)
        exact = found is value and all(is_integer(each) for each in value)
        return [Decimal(int(each)) for each in value] if exact else found
    if within_limits([value], -(2**63), 2**63 - 1):
        return value
    return as_uint64(value) if 0 <= value < 2**64 else Decimal(int(value))


def _stored_time(value: Any) -> Any:
    """Return a date, time or duration of NumPy as an Arrow scalar.

    Raises:
        ValueError: Arrow has no such unit, and seconds can't hold the value.
    """
    import pyarrow as pa

    unit = np.datetime_data(value.dtype)[0]
    if unit in ("W", "h", "m") or (unit == "D" and isinstance(value, np.timedelta64)):
        value = value.astype(f"{value.dtype.kind}8[s]")
    try:
        return pa.array(np.array([value]))[0]
    except pa.ArrowNotImplementedError:
        raise ValueError(
            "Expected a value in filters in weeks, days, hours, minutes, s, ms, us or ns, got "
            f"{value!r}"
        ) from None


def is_integer(value: Any) -> bool:
    """Return True for the integers of Python and NumPy, and False for a bool or a duration."""
    return type(value) is int or _is_integer_type(type(value))


def _is_integer_type(kind: type) -> bool:
    return issubclass(kind, Integral) and not issubclass(kind, (bool, np.timedelta64))


def within_limits(values: Collection[Any], least: int, most: int) -> bool:
    """Return True if no integer among values lies outside of [least, most]."""
    # Lists may have 100,000 values, so Python asks for their types and limits, not for each value.
    kinds = set(map(type, values))
    integers = {kind for kind in kinds if _is_integer_type(kind)}
    if not integers:
        return True
    if integers != {int} or len(kinds) > 1:
        values = [int(each) for each in values if type(each) in integers]
    return bool(least <= min(values) and max(values) <= most)


def as_uint64(value: Any) -> Any:
    """Return an integer as an Arrow uint64, or integers as an array; other values as they are."""
    listed = isinstance(value, (list, tuple, set, frozenset))
    values = [*value] if listed else [value]
    if not all(is_integer(each) and 0 <= each < 2**64 for each in values):
        return value
    import pyarrow as pa

    array = pa.array([int(each) for each in values], pa.uint64())
    return array if listed else array[0]


def _conjunctions(filters: Sequence[Any]) -> Sequence[Sequence[Any]]:
    """Return the lists of conditions: "or" joins the lists, "and" joins a list's conditions."""
    return filters if filters and isinstance(filters[0], list) else [filters]


def parse_split(split: Any) -> Split | None:
    """Check the `split` argument, and convert it to a `Split`; return None for None.

    Args:
        split: column names or None, start and stop; or None.

    Raises:
        TypeError, ValueError: the argument is wrong.
    """
    if split is None:
        return None
    if not isinstance(split, (tuple, list)) or len(split) != 3:
        raise TypeError(
            "Expected split as (columns or None, start, stop), such as (None, 0, 0.9) for training "
            f"and (None, 0.9, 1) for validation, got {split!r}"
        )
    columns, start, stop = split
    names = (columns,) if isinstance(columns, str) else columns
    if names is not None:
        if not isinstance(names, (tuple, list)) or not all(isinstance(n, str) for n in names):
            raise TypeError(f"Expected the columns of split as names or None, got {columns!r}")
        if not names:
            raise ValueError("Expected at least one column of split, or None, got none")
    for bound in (start, stop):
        if isinstance(bound, bool) or not isinstance(bound, (int, float)):
            raise TypeError(f"Expected start and stop of split as numbers, got {bound!r}")
    if not 0 <= start <= stop <= 1:
        raise ValueError(f"Expected split with 0 <= start <= stop <= 1, got {start} and {stop}")
    return Split(None if names is None else tuple(names), float(start), float(stop))


def serialized(expression: Any) -> bytes:
    """Return the bytes by which pyarrow pickles an Expression."""
    return bytes(expression.__reduce__()[1][0])


def _bound(fraction: float) -> int:
    # ldexp is exact, because multiplying by a power of two only changes the exponent.
    return math.ceil(math.ldexp(fraction, 64))
