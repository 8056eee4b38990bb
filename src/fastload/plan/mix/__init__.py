"""The plan of a mix of datasets: which batch comes from which source. Pure.

In: the sources' rows and options, weights, and the progress of a run.
Out: the source of each batch, and the share of each source that a worker delivers.

Note: docs/notes/plan.md.
"""
