"""Column specs: the form in which a column of the files enters a batch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias

import numpy as np
import torch

from fastload.runtime.hints import hinted
from fastload.schema.argument_checks import check_choice, check_int, check_name
from fastload.schema.image import Image

__all__ = [
    "DTYPES",
    "Codes",
    "Column",
    "DType",
    "Fill",
    "Fixed",
    "Hash",
    "LeafSpec",
    "Pad",
    "Spec",
    "Stack",
    "check_elements",
    "column_name",
    "torch_dtype",
]

DType = torch.dtype | np.dtype[Any] | type | str
"""A dtype as users write it: torch.float32, "float32", numpy.float32 or numpy.dtype("float32")."""

Fill = bool | int | float | str | bytes
"""A value that takes the place of nulls."""

StackFill = bool | int | float | Mapping[str, bool | int | float] | None
"""The `fill` of a `Stack`."""

DTYPES: dict[torch.dtype, str] = {
    torch.bool: "bool",
    torch.uint8: "uint8",
    torch.int8: "int8",
    torch.uint16: "uint16",
    torch.int16: "int16",
    torch.uint32: "uint32",
    torch.int32: "int32",
    torch.uint64: "uint64",
    torch.int64: "int64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
}
"""The dtypes that the core writes, with the core's names for them."""

_BY_NAME = {name: dtype for dtype, name in DTYPES.items()}


@hinted()
@dataclass(frozen=True, slots=True)
class Column:
    """One column, cast while it is decoded.

    A fixed-width column becomes a tensor of shape (B,), strings and binary a `Ragged` of B
    byte strings. Lists become a `Ragged` of B rows, lists in lists nested ones; lists of one
    fixed size n become a tensor of shape (B, n).

    Example:
        columns = {"y": Column("label", dtype="int64", fill=0)}
        ds = FastParquetDataset("train", columns=columns)

    Args:
        name: name of the column in the files. "a.b" is the field `b` of the struct `a`, or of the
            structs in the list `a`; "m.key" and "m.value" are the keys and values of the map `m`.
        dtype: dtype of the tensor, or of the elements of the lists, as torch, NumPy or a str
            names the dtype; None = the stored dtype. A value that does not fit raises
            `ValueError` while iterating. With an integer dtype, a decimal column yields its
            unscaled values, and `fill` is one too: 150 is 1.50 in a column of scale 2. If files
            have several scales, all values have the largest of these scales.
        fill: value that nulls become: an int, float, str or bytes, as the column holds. In a
            column of lists, null elements become `fill`; a null list becomes empty, or all fill
            if its size is fixed. With None, a null raises `NullValueError`, unless the dataset's
            `nulls` says otherwise.
        valid: add the output `<output>__valid`, a bool tensor of shape (B,) that is True where
            the value is not null (in a column of lists: where the whole list of the row is not
            null). Nulls then become 0 (or empty), unless `fill` is given.
        unit: unit of dates, times, timestamps and durations: "s", "ms", "us" or "ns"; None = the
            finest unit of the files. A value that is no whole number of the unit, or does not fit
            int64 in it, raises `ValueError` while iterating. INT96 timestamps, which Spark writes,
            count in "ns", which reach from 1677 to 2262 (in a Delta or Iceberg table: in the
            table's unit); with "us" every date fits.

    Raises:
        TypeError, ValueError: an argument has the wrong type or an invalid value.
    """

    name: str
    dtype: DType | None = None
    fill: Fill | None = None
    valid: bool = False
    unit: Literal["s", "ms", "us", "ns"] | None = None

    def __post_init__(self) -> None:
        check_name("Column", self.name)
        _set_dtype(self, "Column")
        _check_fill("Column", self.fill, text=True)
        if not isinstance(self.valid, bool):
            raise TypeError(f"Expected valid of Column to be a bool, got {self.valid!r}")
        check_choice("unit of Column", self.unit, (None, "s", "ms", "us", "ns"))


@hinted(
    **{"*": 'put the names into one list, Stack(["f1", "f2"])'},
    valid='pass nulls="mask" to the dataset, which adds the output <output>__valid',
)
@dataclass(frozen=True, slots=True)
class Stack:
    """Several numeric columns as one row-major tensor of shape (B, F), F = len(names).

    Example:
        columns = {"x": Stack(["f1", "f2", "age"], fill={"age": 30})}
        ds = FastParquetDataset("train", columns=columns)
        next(iter(ds))["x"].shape  # (1024, 3)

    Args:
        names: names of the columns in the files, in order; "a.b" is the field `b` of the struct
            `a`.
        dtype: dtype of the tensor. float32 holds every integer up to 2**24 exactly: for larger
            ids pass torch.int64.
        fill: number that nulls of every column become; or a mapping from the names of columns to
            numbers. In a column without a number, nulls raise `NullValueError`, unless the
            dataset's `nulls` says otherwise.

    Raises:
        TypeError, ValueError: an argument has the wrong type or an invalid value.
    """

    names: Sequence[str]
    dtype: DType = torch.float32
    # A mapping has no hash.
    fill: StackFill = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if isinstance(self.names, str) or not isinstance(self.names, Sequence):
            raise TypeError(
                f"Expected names of Stack to be a list of column names, got {self.names!r}: write "
                'Stack(["f1", "f2"]), with all names'
            )
        if not self.names:
            raise ValueError("Expected names of Stack to hold at least one column, got none")
        for name in self.names:
            if isinstance(name, Spec):
                raise TypeError(
                    f"Expected a column name of Stack to be a str, got {name!r}: write the name, "
                    "and pass dtype= to Stack, and fill= as a mapping of names to numbers"
                )
            check_name("Stack", name)
        repeated = [name for i, name in enumerate(self.names) if name in self.names[:i]]
        if repeated:
            raise ValueError(f"Column `{repeated[0]}` is used twice in Stack")
        if self.dtype is None:
            raise TypeError(
                "Expected dtype of Stack to be a torch.dtype such as torch.int64, got None: leave "
                "dtype= out for torch.float32"
            )
        _set_dtype(self, "Stack")
        # A tuple keeps the checked names from changing, and makes the spec hashable.
        object.__setattr__(self, "names", tuple(self.names))
        object.__setattr__(self, "fill", _checked_fills(self))

    def fill_of(self, name: str) -> bool | int | float | None:
        """Return the number that nulls of a column become; None = no number is given.

        Args:
            name: name of the column, which may be a field of a struct that `names` holds.
        """
        if not isinstance(self.fill, Mapping):
            return self.fill
        while name not in self.fill and "." in name:
            name = name.rpartition(".")[0]
        return self.fill.get(name)


@hinted()
@dataclass(frozen=True, slots=True)
class Hash:
    """A column of strings, binary, integers or decimals of scale 0 as int64 bucket numbers.

    A bucket is XXH64(data, seed) % buckets, where XXH64 is the 64-bit xxHash of the
    specification (https://github.com/Cyan4973/xxHash), read as an unsigned number. The data of a
    string are its UTF-8 bytes; the data of binary are its bytes; the data of an integer are its 8
    bytes as a little-endian int64 (two's complement), whatever the stored width. So the string
    "abc" with seed 0 and 1000 buckets is in bucket 0x44BC2CF5AD770999 % 1000 = 249. The buckets
    of values do not change between releases.

    Lists take the same form as with `Column`, and hold the buckets of their elements.

    Example:
        columns = {"country": Hash("country", buckets=2**20)}
        ds = FastParquetDataset("train", columns=columns)

    Args:
        name: name of the column in the files, as for `Column`.
        buckets: number of buckets, from 1 to 2**63 - 1.
        seed: seed of the hash, an unsigned 64-bit number.
        fill: value as which nulls are hashed: a str, bytes or int, as the column holds. A null
            list becomes empty. With None, nulls raise `NullValueError`, unless the dataset's
            `nulls` says otherwise.

    Raises:
        TypeError, ValueError: an argument has the wrong type or an invalid value.
    """

    name: str
    buckets: int
    seed: int = 0
    fill: int | str | bytes | None = None

    def __post_init__(self) -> None:
        check_name("Hash", self.name)
        check_int("buckets of Hash", self.buckets, 1, 2**63 - 1)
        check_int("seed of Hash", self.seed, 0, 2**64 - 1)
        if self.fill is not None and type(self.fill) not in (int, str, bytes):
            raise TypeError(f"Expected fill of Hash to be int, str or bytes, got {self.fill!r}")


@hinted()
@dataclass(frozen=True, slots=True)
class Codes:
    """A column of strings, binary, integers or decimals of scale 0 as indices into a vocabulary.

    Lists take the same form as with `Column`, and hold the codes of their elements.

    Example:
        columns = {"country": Codes("country", [None, "de", "fr", "us"], unknown=0)}
        ds = FastParquetDataset("train", columns=columns)

    Args:
        name: name of the column in the files, as for `Column`.
        vocabulary: known values, each once: all str, all bytes or all int, as the column holds.
            The code of a value is its index. The first may be None, if `unknown` is 0.
        unknown: code of every other value and of nulls. It may not be the code of a value of the
            vocabulary; but 0 may, if None, "" or b"" comes first. A null list becomes empty.

    Raises:
        TypeError, ValueError: an argument has the wrong type or an invalid value.
    """

    name: str
    vocabulary: Sequence[str | None] | Sequence[bytes | None] | Sequence[int | None] = field(
        repr=False
    )
    unknown: int = -1

    def __post_init__(self) -> None:
        check_name("Codes", self.name)
        check_int("unknown of Codes", self.unknown, -(2**63), 2**63 - 1)
        object.__setattr__(self, "vocabulary", _checked_vocabulary(self.vocabulary, self.unknown))


LeafSpec = Column | Hash | Codes
"""A spec of one leaf column; `Pad`, `Fixed` and `Pack` also take one for the elements of lists."""


@hinted()
@dataclass(frozen=True, slots=True)
class Pad:
    """A column of lists as one tensor of shape (B, length), each list cut off or padded.

    A second output `<output>__length`, an int64 tensor of shape (B,), holds the number of
    elements of each row that come from its list: at most `length`. Lists of lists of a fixed size
    n become a tensor of shape (B, length, n). If all lists have one length, use `Fixed`.

    Example:
        columns = {"history": Pad("input_ids", 50, keep="last", mask=True)}
        ds = FastParquetDataset("tokens", columns=columns)

    Args:
        name: name of the column in the files, or a `Column`, `Hash` or `Codes` that names the
            column and decides the form of its elements.
        length: number of elements kept of each list, at least 1.
        value: number written where a list is shorter than `length`. `value` does not replace
            nulls: for nulls, pass a `Column` with `fill` or `valid`.
        dtype: dtype of the tensor, as for `Column`.
        side: the side on which a short list is padded: "right" or "left".
        keep: the elements that a long list keeps: the "first" or the "last".
        mask: add the output `<output>__mask`, a bool tensor of shape (B, length) that is True
            where an element stands, and False where `value` does.

    Raises:
        TypeError, ValueError: an argument has the wrong type or an invalid value.
    """

    name: str | Column | Hash | Codes
    length: int
    value: bool | int | float = 0
    dtype: DType | None = None
    side: Literal["right", "left"] = field(default="right", kw_only=True)
    keep: Literal["first", "last"] = field(default="first", kw_only=True)
    mask: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_elements("Pad", self.name)
        check_int("length of Pad", self.length, 1, 2**31 - 1)
        _check_fill("Pad", self.value, text=False, what="value")
        if self.value is None:
            raise TypeError("Expected value of Pad to be an int or float, got None")
        _set_dtype(self, "Pad")
        if self.side not in ("right", "left"):
            raise ValueError(f"Expected side of Pad to be 'right' or 'left', got {self.side!r}")
        if self.keep not in ("first", "last"):
            raise ValueError(f"Expected keep of Pad to be 'first' or 'last', got {self.keep!r}")
        if not isinstance(self.mask, bool):
            raise TypeError(f"Expected mask of Pad to be a bool, got {self.mask!r}")

    @property
    def elements(self) -> Column | Hash | Codes:
        """Column spec of the elements of the lists."""
        return Column(self.name, self.dtype) if isinstance(self.name, str) else self.name


@hinted()
@dataclass(frozen=True, slots=True)
class Fixed:
    """A column of lists that all have `size` elements, as one tensor of shape (B, size).

    Embeddings are often stored as lists without a fixed size in the schema. A list of another
    length raises `ValueError` while iterating, with its file, row group and row. Lists of lists
    of a fixed size n become a tensor of shape (B, size, n).

    Example:
        columns = {"x": Fixed("embedding", 64)}
        ds = FastParquetDataset("embeddings", columns=columns)

    Args:
        name: name of the column in the files, or a `Column`, `Hash` or `Codes` that names the
            column and decides the form of its elements. Where nulls are accepted, a null list
            becomes a row of `fill`. Without `fill` it becomes a row of 0.
        size: number of elements of every list, at least 1.
        dtype: dtype of the tensor, as for `Column`.

    Raises:
        TypeError, ValueError: an argument has the wrong type or an invalid value.
    """

    name: str | Column | Hash | Codes
    size: int
    dtype: DType | None = None

    def __post_init__(self) -> None:
        check_elements("Fixed", self.name)
        check_int("size of Fixed", self.size, 1, 2**31 - 1)
        _set_dtype(self, "Fixed")

    @property
    def elements(self) -> Column | Hash | Codes:
        """Column spec of the elements of the lists."""
        return Column(self.name, self.dtype) if isinstance(self.name, str) else self.name


Spec = LeafSpec | Stack | Pad | Fixed | Image
"""Every column spec that a dataset takes."""


def column_name(spec: LeafSpec | Pad | Fixed | Image) -> str:
    """Return the name of the column in the files that a spec reads."""
    return column_name(spec.elements) if isinstance(spec, (Pad, Fixed)) else spec.name


def torch_dtype(dtype: DType | None) -> torch.dtype | None:
    """Return the torch.dtype that a user means; None if there is no such dtype."""
    if isinstance(dtype, torch.dtype):
        return dtype
    if isinstance(dtype, str) and dtype.removeprefix("torch.") in _BY_NAME:
        return _BY_NAME[dtype.removeprefix("torch.")]
    if not isinstance(dtype, (str, np.dtype, type)):
        return None
    try:
        return _BY_NAME.get(np.dtype(dtype).name)
    except TypeError:
        return None


def check_elements(owner: str, elements: object) -> None:
    """Raise TypeError or ValueError unless `elements` is a name, or the spec of a leaf column.

    Args:
        owner: the class that takes `elements`, for messages.
        elements: the argument.
    """
    if not isinstance(elements, (str, LeafSpec)):
        raise TypeError(
            f"Expected a name, Column, Hash or Codes as the column of {owner}, got {elements!r}"
        )
    if isinstance(elements, str):
        check_name(owner, elements)


def _set_dtype(spec: Column | Stack | Pad | Fixed, owner: str) -> None:
    """Check the dtype of a spec, and replace the dtype by its torch.dtype."""
    if spec.dtype is None:
        return
    dtype = torch_dtype(spec.dtype)
    if dtype is None and not isinstance(spec.dtype, (str, np.dtype)):
        raise TypeError(
            f"Expected dtype of {owner} to be a torch.dtype such as torch.int64, got {spec.dtype!r}"
        )
    if dtype not in DTYPES:
        raise ValueError(
            f"Expected dtype of {owner} to be one of {', '.join(DTYPES.values())}, got {spec.dtype}"
        )
    if isinstance(spec, (Pad, Fixed)) and not isinstance(spec.name, str):
        raise ValueError(  # noqa: TRY004  the type is right, but there are two dtypes
            f"Expected no dtype of {owner} beside that of its {type(spec.name).__name__}, got "
            f"{dtype}"
        )
    object.__setattr__(spec, "dtype", dtype)


def _check_fill(owner: str, fill: object, *, text: bool, what: str = "fill") -> None:
    if fill is None or isinstance(fill, (bool, int, float)):
        return
    if text and isinstance(fill, (str, bytes)):
        return
    wanted = "an int, float, str or bytes" if text else "an int or float"
    advice = ""
    # Real numbers of other classes, as of numpy; Decimal is registered as a Number alone.
    if isinstance(fill, (Real, Decimal)):
        advice = f": write {'int' if isinstance(fill, Integral) else 'float'}({fill!r})"
    raise TypeError(f"Expected {what} of {owner} to be {wanted}, got {fill!r}{advice}")


def _checked_fills(stack: Stack) -> StackFill:
    """Check the `fill` of a Stack, and return it; a mapping is copied."""
    fill = stack.fill
    if isinstance(fill, Sequence):
        raise TypeError(
            f"Expected fill of Stack to be a number or a mapping from column to number, got "
            f"{fill!r}: write fill={{{stack.names[0]!r}: 0}}"
        )
    if not isinstance(fill, Mapping):
        _check_fill("Stack", fill, text=False)
        return fill
    for name, value in fill.items():
        if name not in stack.names:
            raise ValueError(
                f"Expected fill of Stack for columns among {', '.join(stack.names)}, got one for "
                f"{name!r}"
            )
        if value is None:
            raise TypeError(
                f"Expected fill of Stack to hold a number for {name!r}, got None: leave {name!r} "
                "out"
            )
        _check_fill("Stack", value, text=False, what=f"fill for {name!r}")
    return dict(fill)


def _as_list(vocabulary: object) -> str:
    """Return the call that makes a list of a vocabulary of another class."""
    if isinstance(vocabulary, Mapping):
        return "sorted(vocabulary, key=vocabulary.get)"
    if isinstance(vocabulary, AbstractSet):  # strings have another order in each process
        return "sorted(vocabulary)"
    listing = next((name for name in ("tolist", "to_list") if hasattr(vocabulary, name)), None)
    return f"vocabulary.{listing}()" if listing else "list(vocabulary)"


_Vocabulary: TypeAlias = tuple[str | None, ...] | tuple[bytes | None, ...] | tuple[int | None, ...]


def _checked_vocabulary(vocabulary: object, unknown: int) -> _Vocabulary:
    if isinstance(vocabulary, (str, bytes)) or not isinstance(vocabulary, Sequence):
        raise TypeError(
            "Expected vocabulary of Codes to be a list of str, bytes or int, got "
            f"{type(vocabulary).__name__}: write {_as_list(vocabulary)}, whose order gives the "
            "codes"
        )
    # None stands for nulls and all values that are not listed.
    leads = len(vocabulary) > 0 and vocabulary[0] is None
    values = _checked_values(vocabulary[1:] if leads else vocabulary)
    if leads and unknown != 0:
        raise ValueError(
            f"Expected unknown=0 of Codes with None as the first value, got {unknown}: nulls and "
            "unknown values have the code of None"
        )
    if not leads and 0 <= unknown < len(values) and (unknown or values[0] not in ("", b"")):
        raise ValueError(
            f"Expected unknown of Codes to be the code of no value, got {unknown}, the code of "
            f"{values[unknown]!r}: put None first, [None, {values[0]!r}, ...], with unknown=0, or "
            f"pass unknown=-1 or unknown={len(values)}"
        )
    return (None, *values) if leads else values


def _checked_values(
    vocabulary: Sequence[Any],
) -> tuple[str, ...] | tuple[bytes, ...] | tuple[int, ...]:
    if not vocabulary:
        raise ValueError("Expected vocabulary of Codes to hold at least one value, got none")
    for value in vocabulary:
        if value is None or (isinstance(value, float) and math.isnan(value)):  # null, in pandas
            raise TypeError(
                f"Expected vocabulary of Codes to hold str, bytes or int, got {value!r}: leave "
                f"{value!r} out, because nulls get unknown=, or put None first with unknown=0"
            )
    kind = type(vocabulary[0])
    if kind not in (str, bytes, int):
        raise TypeError(
            "Expected vocabulary of Codes to hold str, bytes or int, got "
            f"{vocabulary[0]!r} of type {kind.__name__}"
            f"{': write array.tolist()' if hasattr(vocabulary[0], 'item') else ''}"
            f"{': write array.to_pylist()' if hasattr(vocabulary[0], 'as_py') else ''}"
        )
    # A tuple keeps the checked values from changing, and makes the spec hashable.
    values = tuple(vocabulary)
    for value in values:
        if type(value) is not kind:
            raise TypeError(
                f"Expected vocabulary of Codes to hold values of one kind, got {values[0]!r} and "
                f"{value!r}"
            )
    if len(set(values)) < len(values):
        repeated, _ = Counter(values).most_common(1)[0]
        raise ValueError(f"Value {repeated!r} is used twice in vocabulary of Codes")
    if kind is int:
        check_int("values of vocabulary of Codes", min(values), -(2**63), 2**64 - 1)
        check_int("values of vocabulary of Codes", max(values), -(2**63), 2**64 - 1)
    return values
