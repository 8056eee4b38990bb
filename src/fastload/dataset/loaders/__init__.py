"""Loaders around a dataset: saved state behind worker processes, time spent waiting, Accelerate.

In: a DataLoader or any other iterable of batches. Out: the same batches. These loaders count
what the consumer received, not what was prefetched.
"""
