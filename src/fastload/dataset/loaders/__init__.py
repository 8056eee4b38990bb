"""Loaders around a dataset: saved state behind workers, waiting times, copies to a device.

In: a DataLoader or any other iterable of batches. Out: the same batches. These loaders count the
batches that the consumer received; prefetched batches do not count.

Note: docs/notes/dataset-loaders.md.
"""
