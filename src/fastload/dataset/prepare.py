"""`fastload.prepare`: the rows of a dataset after `preprocess`, as Parquet files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fastload.dataset.dataset import FastParquetDataset
from fastload.dataset.preparing.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["prepare"]


def prepare(
    dataset: FastParquetDataset,
    path: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    progress: bool | Callable[[int, int], None] = True,
) -> str:
    """Write the rows of a dataset after `preprocess` as Parquet files, and return their folder.

    The files are ordinary Parquet, uncompressed, with the row groups of the source: fastload reads
    them at the speed of memory, as the same outputs, and other programs can open them. The rows
    are those that `filters` and `split` keep, in stored order; `shuffle`, `limit`, the ranks and
    `augment` play no part. With `pack`, the rows are documents. Functions of blocks may return more
    or fewer rows than they get: the rows are then those outputs alone that the function returns.

    A second call writes what is missing: after Ctrl-C or kill -9 the work goes on where it was, and
    calls in several processes share it. Until all rows are there, the folder is no source of a
    dataset.

    Example:
        raw = FastParquetDataset(
            "train", columns=["f1"], preprocess=lambda block: {"double": 2 * block["f1"]}
        )
        path = fastload.prepare(raw, "prepared", progress=False)
        ds = FastParquetDataset(path, shuffle=True)  # batches of f1 and double

    Args:
        dataset: The dataset. Its running pass stays as it is.
        path: Path of a local folder, which is made, or a URL that fsspec writes to, with the
            dataset's `storage_options`. The folder must be empty, or have been begun by `prepare`
            with the same rows and steps. Calls in several processes do not share the work on a URL.
        jobs: Number of processes that write; None means this process alone.
            Each has the dataset's threads and its share of the dataset's memory budget. More than
            1 are worth it where steps hold the GIL, and ask for steps that can be pickled.
        progress: True to show the progress on stderr, or a function to call with the number of
            rows written and the number of all rows.

    Raises:
        ValueError: The folder holds other files, or Parquet has no column for an output.
        TypeError: The code of a step has no digest.
        CorruptFileError: A row group can't be read, whatever `on_error` says.
        OSError: The folder can't be written to.
    """
    if not isinstance(dataset, FastParquetDataset):
        raise TypeError(f"Expected a FastParquetDataset to prepare, got {type(dataset).__name__}")
    jobs = 1 if jobs is None else jobs
    if type(jobs) is not int or jobs < 1:
        raise ValueError(f"Expected jobs as an int of at least 1, got {jobs!r}")
    path = os.fspath(path)
    preparation = dataset._preparation()  # noqa: SLF001 - of this package
    options = preparation.engines.source.storage.options
    folder = Folder(path, preparation.key(), options)
    preparation.write(folder, progress, jobs=jobs)
    return path
