"""How fast is it here? Contenders that read the same rows, checked first and then timed.

sample, survey   what is read: a click-log sample of our own, or the user's files
peers            the contenders, a file for each library
check            what rows a contender gives, against what pyarrow reads
child, launch    each measurement in a process of its own
environments     which Python that is, for contenders that can't be installed beside fastload
usage            its CPU seconds and memory
session          which measurements, in which order; medians
report           the table, the sentences under it, and the JSON

Note: docs/notes/tools-bench.md.
"""
