"""What every stage stands on: the compiled core, cores and processes, and how all of them end.

Nothing here knows what Parquet is.

In: the machine, the interpreter, the installed pyarrow.
Out: `native.core`, the numbers of cores to use, watched processes, records shared between
processes, progress on stderr. `disk/` is the part that keeps files.
"""
