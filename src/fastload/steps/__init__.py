"""The user's functions and kernels: `preprocess`, which is cached, and `augment`, which never is.

In: a batch or a block of rows from the core.
Out: the same rows with the outputs that the steps made. Kernels are compiled by numba (imported
nowhere else) and called by the core; Python functions run on threads of their own.
"""
