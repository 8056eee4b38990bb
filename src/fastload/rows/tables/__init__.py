"""Rows of tables: pruning by the table's metadata, filters under its names, deleted rows.

In: a `Table` and the files of it whose footers were read.
Out: the files that filters may keep, and for each row group the rows that are not deleted.
"""
