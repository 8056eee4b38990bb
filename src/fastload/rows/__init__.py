"""Filters and splits: which rows of the files stay.

In: an expression, a split, and the footers.
Out: a bitmap of the rows that stay for each row group, with counts, kept on disk. The core tests
single columns; pyarrow evaluates every other expression.
"""
