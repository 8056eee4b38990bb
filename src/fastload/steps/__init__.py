"""Steps: the user's functions and kernels for `preprocess` (cached) and `augment` (never cached).

In: a batch or a block of rows from the core.
Out: the same rows, with the outputs that the steps added or replaced. numba, which no other folder
imports, compiles kernels, and the core calls them. Python functions run on separate threads.

Note: docs/notes/steps.md.
"""
