"""Values of rows that decide batches: the lengths of lists, and weights.

In: the files, a column, and the rows that stay.
Out: a number for each row that stays, found once for each version of a file and kept on disk; and
the units that the plan forms from these numbers.

Note: docs/notes/rows.md.
"""
