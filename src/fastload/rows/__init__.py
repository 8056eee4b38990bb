"""Filters, splits and deleted rows, which decide the rows of the files that stay.

In: an expression, a split, and the files with their footers.
Out: for each row group a bitmap of the rows that stay, and their number, kept on disk.
The core evaluates tests of single columns that "and" and "or" join, and pyarrow every other
expression. `DeletedRows` are those of a table, and filters of a table have the names of its columns
(`table_scan.py`). `values/` finds the lengths of lists and the weights.

Note: docs/notes/rows.md.
"""
