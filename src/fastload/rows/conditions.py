"""Conversion of filters to tests of single columns that are joined by "and" and "or"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastload.rows.predicate import serialized
from fastload.rows.value_sets import Keys, ValueSet, WordKeys
from fastload.runtime.native import core

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastload.plan.intervals import Int64s

__all__ = ["RowConditions", "is_short_decimal"]

_KEYS: dict[Any, Keys] = {
    pa.bool_(): Keys(),
    pa.int8(): Keys(),
    pa.int16(): Keys(),
    pa.int32(): Keys(),
    pa.int64(): Keys(),
    pa.uint8(): Keys(),
    pa.uint16(): Keys(),
    pa.uint32(): Keys(),
    pa.uint64(): Keys(offset=2**63),
    pa.float32(): Keys(float_bytes=4),
    pa.float64(): Keys(float_bytes=8),
    pa.date32(): Keys(),
}
_WORDS: dict[Any, type[str | bytes]] = {
    pa.string(): str,
    pa.large_string(): str,
    pa.binary(): bytes,
    pa.large_binary(): bytes,
}
_MIRRORED = {
    "equal": "equal",
    "not_equal": "not_equal",
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}
_AND, _OR = -1, -2  # the core's numbers
_INT64_DIGITS = 18  # every number of so many decimal digits fits int64

_Tree = tuple[Any, ...]  # the result of core.bind_filter


def is_short_decimal(arrow: Any) -> bool:
    """Return True for a type of decimals whose keys are their unscaled integers."""
    return pa.types.is_decimal128(arrow) and bool(arrow.precision <= _INT64_DIGITS)


class _NoTestError(Exception):
    """Raised for a filter that is no test of a single column."""


@dataclass(frozen=True, slots=True)
class RowConditions:
    """Filters in the core's form.

    Attributes:
        names: the names of the columns that are tested.
        words: for each name, the strings or bytes that the column's tests mention, where a word's
            index is its key; () for columns of numbers.
        tests: for each test the index of its column in `names`, the ranges of keys that pass, as
            int64 (n, 2), and True if a null passes.
        program: the tests in postfix form. A number from 0 on is the index of a test, -1 joins the
            two results before it by "and", -2 by "or".
    """

    names: tuple[str, ...]
    words: tuple[tuple[str, ...] | tuple[bytes, ...], ...]
    tests: tuple[tuple[int, Int64s, bool], ...]
    program: tuple[int, ...]

    @classmethod
    def of(cls, filters: Any, schema: Any, *, partial: bool = False) -> RowConditions | None:
        """Convert an Expression to conditions.

        Args:
            filters: the Expression.
            schema: an Arrow schema with the columns of the filters.
            partial: leave out parts that are joined by "and" and can't be expressed. Every row
                that passes the Expression then passes the conditions, and other rows may pass.

        Returns:
            The conditions, or None if the Expression can't be expressed by tests of single
            columns.
        """
        try:
            tree = core.bind_filter(serialized(filters), schema)
            reading = _Reading(schema, partial=partial)
            passes = reading.of(tree, negated=False)
        except (_NoTestError, pa.ArrowException, ValueError, TypeError, NotImplementedError):
            return None
        tests: list[_Test] = []
        program: list[int] = []
        passes.write(tests, program)
        names = tuple(dict.fromkeys(test.column for test in tests))
        encoded = tuple((names.index(t.column), t.values.array, t.nulls) for t in tests)
        words = tuple(reading.words_of(name) for name in names)
        return cls(names, words, encoded, tuple(program)) if names else None


@dataclass(frozen=True, slots=True)
class _Test:
    """A test that is true for some values of a column, and for nulls if `nulls` is True."""

    column: str
    values: ValueSet
    nulls: bool

    def joined(self, other: _Test, operator: int) -> _Test:
        if operator == _AND:
            return _Test(self.column, self.values & other.values, self.nulls and other.nulls)
        return _Test(self.column, self.values | other.values, self.nulls or other.nulls)

    def write(self, tests: list[_Test], program: list[int]) -> None:
        program.append(len(tests))
        tests.append(self)


@dataclass(frozen=True, slots=True)
class _Join:
    """Parts, at least one, whose results are joined by `operator`."""

    operator: int
    parts: tuple[_Test | _Join, ...]

    def write(self, tests: list[_Test], program: list[int]) -> None:
        for number, part in enumerate(self.parts):
            part.write(tests, program)
            if number:
                program.append(self.operator)


def _join(operator: int, parts: Sequence[_Test | _Join]) -> _Test | _Join:
    """Join parts, at least one; tests of the same column become one test."""
    tests: dict[str, _Test] = {}
    others: list[_Test | _Join] = []
    for part in parts:
        if isinstance(part, _Join):
            others += part.parts if part.operator == operator else [part]
        elif part.column in tests:
            tests[part.column] = tests[part.column].joined(part, operator)
        else:
            tests[part.column] = part
    if others and any(isinstance(part, _Test) for part in others):
        return _join(operator, [*tests.values(), *others])
    joined = (*tests.values(), *others)
    return joined[0] if len(joined) == 1 else _Join(operator, joined)


class _Reading:
    """Converts the tree of an Expression.

    A row passes if the expression is true. If the expression is null, the row passes neither the
    expression nor its negation, so a negation can't be the complement of the rows that pass.
    Instead, "not" is moved down the tree to the tests of the columns.
    """

    def __init__(self, schema: Any, *, partial: bool) -> None:
        self._schema = schema
        self._partial = partial
        self._words: dict[str, WordKeys] = {}

    def words_of(self, column: str) -> tuple[Any, ...]:
        """Return the strings or bytes that a column's tests mention; () for a column of numbers."""
        return self._words[column].words if column in self._words else ()

    def of(self, tree: _Tree, *, negated: bool) -> _Test | _Join:
        """Convert a tree, or the negation of the tree.

        Raises:
            _NoTestError: the tree has a part that is no test of a single column.
        """
        name, *arguments = tree
        if name == "invert":
            return self.of(arguments[0][0], negated=not negated)
        if name in ("and_kleene", "or_kleene"):
            operator = _AND if (name == "and_kleene") != negated else _OR
            return _join(operator, self._parts(arguments[0], operator, negated=negated))
        if name == "column":
            return self._test(tree, lambda keys: keys.compared("equal", 1), negated=negated)
        if name in _MIRRORED:
            return self._comparison(name, *arguments[0], negated=negated)
        if name == "is_in":
            return self._membership(*arguments[0], negated=negated)
        if name in ("is_null", "is_null_or_nan", "is_valid"):
            return self._nullness(name, arguments[0][0], negated=negated)
        if name == "is_nan":
            return self._test(arguments[0][0], lambda keys: ~keys.numbers, negated=negated)
        raise _NoTestError(name)

    def _parts(
        self, trees: Sequence[_Tree], operator: int, *, negated: bool
    ) -> list[_Test | _Join]:
        """Convert trees that are joined by an operator; at least one."""
        parts = []
        for tree in trees:
            try:
                parts.append(self.of(tree, negated=negated))
            except (_NoTestError, ValueError):
                if not self._partial or operator != _AND:
                    raise
        if not parts:
            raise _NoTestError("and")
        return parts

    def _comparison(self, name: str, left: _Tree, right: _Tree, *, negated: bool) -> _Test:
        if left[0] == "values":
            name, left, right = _MIRRORED[name], right, left
        if right[0] != "values":
            raise _NoTestError(right[0])
        (value,) = right[1]
        if value is None:  # a comparison with null is null, so no row passes
            return _Test(self._column(left)[0], ValueSet(()), nulls=False)
        return self._test(left, lambda keys: keys.compared(name, value), negated=negated)

    def _membership(self, column: _Tree, members: _Tree, *, negated: bool) -> _Test:
        name, keys = self._column(column)
        # Arrow compares floats by their bits here, which ranges of keys can't express.
        if members[0] != "values" or keys.float_bytes:
            raise _NoTestError(members[0])
        values = keys.members(value for value in members[1] if value is not None)
        # Membership is never null: a null is a member if the set contains null.
        found = _Test(name, values, nulls=None in members[1])
        return _Test(name, ~found.values, not found.nulls) if negated else found

    def _nullness(self, name: str, column: _Tree, *, negated: bool) -> _Test:
        column_name, keys = self._column(column)
        values = ~keys.numbers if name == "is_null_or_nan" else ValueSet(())
        negated ^= name == "is_valid"
        return _Test(column_name, ~values if negated else values, nulls=not negated)

    def _test(self, column: _Tree, values_of: Callable[[Any], ValueSet], *, negated: bool) -> _Test:
        """Return a test that no null passes, negated or not."""
        name, keys = self._column(column)
        values = values_of(keys)
        return _Test(name, ~values if negated else values, nulls=False)

    def _column(self, tree: _Tree) -> tuple[str, Keys | WordKeys]:
        if tree[0] != "column":
            raise _NoTestError(tree[0])
        arrow = self._schema.field(tree[1]).type
        kind = bytes if pa.types.is_fixed_size_binary(arrow) else _WORDS.get(arrow)
        if kind is not None:
            return tree[1], self._words.setdefault(tree[1], WordKeys(kind))
        whole = pa.types.is_timestamp(arrow) or is_short_decimal(arrow)
        keys = Keys() if whole else _KEYS.get(arrow)
        if keys is None:
            raise _NoTestError(str(arrow))
        return tree[1], keys
