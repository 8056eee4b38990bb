"""Steps: the user's functions and kernels for `preprocess` (cached) and `augment` (never cached).

In: a batch or a block of rows from the core.
Out: the same rows, with the outputs that the steps added, replaced or removed. numba, which no
other folder imports, compiles kernels. The core calls the kernels before the first Python function;
Python calls the others. Python functions run on the thread that asks for a batch; those of
`per_row` and `per_block` run on separate threads.

Note: docs/notes/steps.md.
"""
