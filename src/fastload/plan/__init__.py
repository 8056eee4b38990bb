"""The order of an epoch, as pure functions of row counts, seed, rank and progress.

This package reads no file and no clock, and imports neither torch nor pyarrow.

In: the row count of each row group, the seed, the epoch, ranks, workers, delivered batches.
Out: a `ReadPlan`: which rows of which row groups one worker delivers, window by window.

`position.py` begins with the four words for progress: Leg, WorkerTurn, WorkerSlot, BatchPosition.

Note: docs/notes/plan.md.
"""
