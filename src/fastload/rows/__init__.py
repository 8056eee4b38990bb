"""Filters, splits and deleted rows, which decide the rows of the files that stay.

In: an expression, a split, and the files with their footers.
Out: for each row group a bitmap of the rows that stay, and their number, kept on disk.
The core evaluates tests of single columns that "and" and "or" join, and pyarrow every other
expression. `tables/` finds the rows that a table deletes, and `values/` the lengths of lists and
the weights.

Note: docs/notes/rows.md.
"""
