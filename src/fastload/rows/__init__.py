"""Filters and splits, which decide the rows of the files that stay.

In: an expression, a split, and the footers.
Out: for each row group a bitmap of the rows that stay, and their number, kept on disk. The core
tests single columns; pyarrow evaluates every other expression.

Note: docs/notes/rows.md.
"""
