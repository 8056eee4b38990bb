"""Deletion vectors of Iceberg, which lie in Puffin files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["puffin_positions"]


def puffin_positions(data: bytes) -> dict[str, NDArray[np.int64]]:
    """Return the deleted positions that a Puffin file lists, by the path of the data file.

    Args:
        data: the bytes of the file.

    Raises:
        ValueError: the file is damaged.
    """
    from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
    from pyiceberg.table.puffin import PuffinFile

    return {
        vector.referenced_data_file: np.asarray(vector.to_vector(), np.int64)
        for vector in deletion_vectors_from_puffin_file(PuffinFile(data))
    }
