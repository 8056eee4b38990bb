"""Preparing: the rows of a dataset after `preprocess`, written as Parquet files.

`Preparation` says which rows are written, `PartWriter` writes them, and `ArrowRows` turns batches
into Arrow tables. The files appear in a `Folder`, or in a `CacheFolder` of the dataset's cache. A
pass over the rows of a cache reads them by `PreparedRows`. If steps change the number of rows, the
prepared rows are the source of the dataset (`ComposedSource`).

Note: docs/notes/preparing.md.
"""
