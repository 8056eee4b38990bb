"""Engine, one process's pipeline: the core's threads and memory, and the division of the budget.

In: a source, a projection, the kernels that the core calls, and a budget of memory and threads.
Out: scans that deliver the batches of a read plan, rows by number, and statistics of each stage.
The folder `cache/` keeps row groups that were decoded and preprocessed. The steps that the core
does not call run in `cache/`, on row groups to be kept, and in `dataset/passes/`, on batches.

Note: docs/notes/engine.md.
"""
