"""Units: what a batch counts, and what ranks and workers share out. Pure.

In: the row groups, the options, and the lengths or weights of rows.
Out: the number of units of an epoch, and the read plan of any share of them. A unit is a row, a
row as often as its weight says, a packed row of documents, a batch by tokens, or a step that all
ranks deliver together.

Note: docs/notes/plan.md.
"""
