"""A mix of datasets: a dataset each of whose batches comes from one of its sources.

In: datasets and weights.
Out: batches that know their source, with the epochs, ranks and states of a dataset.

Note: docs/notes/dataset.md.
"""
