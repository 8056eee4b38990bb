"""Preparing: the rows of a dataset after `preprocess`, written as Parquet files.

`arrow_rows` turns batches into Arrow tables, `parts` says which rows each file holds, `folder` is
the place where the files appear, and `preparation` writes them.
"""
