"""Fingerprints of rows, which show a wrong, missing, doubled or moved value.

The values of a row are mixed into one 64-bit hash. The sum of the hashes does not depend on the
order of the rows; the sum of the hashes mixed with the row numbers does. Only the sums are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Odd constants of the murmur3 finalizer and of splitmix64, as signed 64-bit numbers.
_MULTIPLY = -0x00AE502812AA7333
_GOLDEN = -0x61C8864680B583EB
# Wrap-around sums, so that they fit JSON and compare as numbers.
_MASK = (1 << 64) - 1


@dataclass(slots=True)
class Fingerprint:
    """A fingerprint of the rows that a contender gave in one epoch.

    Attributes:
        rows: number of rows.
        dtypes: dtype of each column.
        columns: for each column, a sum over the values that does not depend on their order.
        multiset: a sum over the rows that does not depend on their order.
        sequence: a sum over the rows and their positions.
        largest: number of rows of the largest batch.
    """

    rows: int = 0
    dtypes: dict[str, str] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)
    multiset: int = 0
    sequence: int = 0
    largest: int = 0


def fingerprint(batches: Iterable[Mapping[str, torch.Tensor]]) -> Fingerprint:
    """Return the fingerprint of all batches of one epoch.

    Raises:
        ValueError: the columns of a batch have different lengths, or other names or dtypes than
            the columns of the first batch.
    """
    print_ = Fingerprint()
    for batch in batches:
        rows = len(next(iter(batch.values())))
        dtypes = {name: str(value.dtype).removeprefix("torch.") for name, value in batch.items()}
        if print_.dtypes and dtypes != print_.dtypes:
            raise ValueError(f"Expected columns {print_.dtypes}, got {dtypes}")
        print_.dtypes = dtypes
        hashes = torch.zeros(rows, dtype=torch.int64)
        for j, (name, value) in enumerate(batch.items()):
            if value.shape != (rows,):
                raise ValueError(f"Expected `{name}` ({rows},), got {tuple(value.shape)}")
            mixed = _mix(_bits(value) + _signed(j * _GOLDEN))
            print_.columns[name] = _sum(print_.columns.get(name, 0), mixed)
            hashes = _mix(hashes + mixed)
        places = torch.arange(print_.rows, print_.rows + rows)
        print_.multiset = _sum(print_.multiset, _mix(hashes))
        print_.sequence = _sum(print_.sequence, _mix(hashes ^ _mix(places)))
        print_.largest = max(print_.largest, rows)
        print_.rows += rows
    return print_


def fault(got: Fingerprint, expected: Fingerprint, *, shuffled: bool, ordered: bool) -> str:
    """Return what is wrong with a contender's rows, in one sentence; "" if nothing is wrong.

    Args:
        got: fingerprint of the contender.
        expected: fingerprint of the plain reader, in stored order, with the same batch size.
        shuffled: True if the rows must come in another order than the stored order.
        ordered: True if the rows must come in stored order.
    """
    if got.rows != expected.rows:
        return f"Expected {expected.rows:,} rows, got {got.rows:,}"
    if list(got.columns) != list(expected.columns):
        return f"Expected columns {list(expected.columns)}, got {list(got.columns)}"
    for name, dtype in expected.dtypes.items():
        if got.dtypes[name] != dtype:
            return f"Expected {dtype}, got {got.dtypes[name]} - at column `{name}`"
        if got.columns[name] != expected.columns[name]:
            return f"Expected the values that pyarrow reads, got other values - at column `{name}`"
    if got.multiset != expected.multiset:
        return "Expected the rows that pyarrow reads, got their values in other rows"
    if got.largest != expected.largest:
        return f"Expected batches of {expected.largest} rows, got up to {got.largest}"
    same_order = got.sequence == expected.sequence
    if ordered and not same_order:
        return "Expected the rows in stored order, got another order"
    if shuffled and same_order and got.rows > 1:
        return "Expected shuffled rows, got the stored order"
    return ""


def _bits(values: torch.Tensor) -> torch.Tensor:
    """Return the bits of values as int64. All NaNs become the same: a null may become any NaN."""
    if values.is_floating_point():
        values = torch.where(values.isnan(), torch.full_like(values, torch.nan), values)
        integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[values.element_size()]
        values = values.contiguous().view(integer)
    return values.to(torch.int64)


def _mix(values: torch.Tensor) -> torch.Tensor:
    values = (values ^ (values >> 33)) * _MULTIPLY
    return values ^ (values >> 29)


def _signed(number: int) -> int:
    """Return the number modulo 2**64, as the int64 with the same bits."""
    return ((number + (1 << 63)) & _MASK) - (1 << 63)


def _sum(total: int, values: torch.Tensor) -> int:
    return (total + int(values.sum())) & _MASK
