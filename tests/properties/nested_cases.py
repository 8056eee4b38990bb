"""Random columns of lists, structs and maps, two levels deep."""

import numpy as np
import pyarrow as pa

SHARES = (0, 0, 0.1, 0.6)


class Shape:
    """The type of a nested column, drawn once, and arrays of it.

    seed: of the type; equal seeds give equal types.
    makers: of flat columns; the leaves are some of them.
    """

    def __init__(self, seed, makers):
        self._rng = np.random.default_rng(seed)
        self._makers = makers
        self._make = self._draw(2)

    def array(self, rng, rows):
        return self._make(rng, rows)

    def _draw(self, depth):
        kinds = ["list", "large_list", "fixed", "struct", "map", "tensor"]
        kind = kinds[self._rng.integers(len(kinds))]
        share = SHARES[self._rng.integers(len(SHARES))]
        if kind == "struct":
            return self._struct(depth, share)
        if kind == "map":
            return self._map(depth, share)
        if kind == "tensor":
            return self._tensor(share)
        items = self._inner(depth)
        if kind == "fixed":
            size = int(self._rng.integers(1, 5))
            return lambda rng, n: pa.FixedSizeListArray.from_arrays(
                items(rng, n * size), size, mask=nulls_of(rng, n, share)
            )
        cls, width = (
            (pa.ListArray, pa.int32()) if kind == "list" else (pa.LargeListArray, pa.int64())
        )

        def lists(rng, n):
            offsets, mask = offsets_of(rng, n, share)
            return cls.from_arrays(pa.array(offsets, width), items(rng, offsets[-1]), mask=mask)

        return lists

    def _inner(self, depth):
        """What makes the items of a list, or the fields of a struct."""
        if depth > 1 and self._rng.random() < 0.5:
            return self._draw(depth - 1)
        maker = self._makers[self._rng.integers(len(self._makers))]
        share = SHARES[self._rng.integers(len(SHARES))]
        return lambda rng, n: with_nulls(rng, maker(rng, n), share)

    def _struct(self, depth, share):
        fields = [self._inner(depth) for _ in range(int(self._rng.integers(1, 4)))]
        names = ["a", "b", "c"][: len(fields)]

        def structs(rng, n):
            arrays = [make(rng, n) for make in fields]
            return pa.StructArray.from_arrays(arrays, names, mask=nulls_of(rng, n, share))

        return structs

    def _map(self, depth, share):
        items = self._inner(depth)

        def maps(rng, n):
            offsets, mask = offsets_of(rng, n, share)
            keys = pa.array([f"k{k}" for k in rng.integers(0, 9, offsets[-1])], pa.string())
            values = items(rng, offsets[-1])
            return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, values, mask=mask)

        return maps

    def _tensor(self, share):
        shape = [int(self._rng.integers(1, 4)) for _ in range(2)]
        order = None if self._rng.random() < 0.5 else [1, 0]
        kind = pa.fixed_shape_tensor(pa.int16(), shape, permutation=order)
        size = shape[0] * shape[1]

        def tensors(rng, n):
            values = pa.array(rng.integers(-(2**15), 2**15, n * size).astype(np.int16))
            mask = nulls_of(rng, n, share)
            storage = pa.FixedSizeListArray.from_arrays(values, size, mask=mask)
            return pa.ExtensionArray.from_storage(kind, storage.cast(kind.storage_type))

        return tensors


def nulls_of(rng, n, share):
    """Which of n items are null."""
    return pa.array(rng.random(n) < share) if share else None


def offsets_of(rng, n, share):
    """Where each of n lists begins and the last ends, and which of them are null."""
    mask = nulls_of(rng, n, share)
    lengths = rng.integers(0, 5, n)
    if rng.random() < 0.3:
        lengths[: n // 2] = 0
    # What lies in a null list is not written.
    return np.concatenate([[0], np.cumsum(lengths)]), mask


def with_nulls(rng, column, share):
    """The column with nulls in place of a share of its values."""
    if not share:
        return column
    rows = pa.array(np.arange(len(column)), mask=rng.random(len(column)) < share)
    if column.type == pa.string_view():  # of which pyarrow takes no rows
        return column.cast(pa.string()).take(rows).cast(column.type)
    return column.take(rows)
