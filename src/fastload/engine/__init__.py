"""Engine, one process's pipeline: the core's threads and memory, and the division of the budget.

In: a source, a projection, steps, a budget and a number of threads.
Out: scans that deliver the batches of a read plan, and statistics of each stage. The folder
`cache/` keeps row groups that were decoded before.

Note: docs/notes/engine.md.
"""
