"""The order of an epoch, as pure functions of row counts, seed, rank and progress.

Nothing here reads a file or a clock, or knows torch or pyarrow.

In: rows of each row group, the seed, the epoch, ranks, workers, what was delivered.
Out: a `ReadPlan`: which rows of which row groups one worker delivers, window by window.
"""
