"""The base of every stage: the compiled core, CPU cores, processes, and how threads end.

No module of this folder knows about Parquet.

In: the machine, the interpreter, the installed pyarrow.
Out: `native.core`, the number of CPU cores to use, watched processes, records shared between
processes, progress on stderr, methods that torch.compile does not trace. The folder `disk/` keeps
files.

Note: docs/notes/runtime.md.
"""
