"""fastload-bench: contenders that read the same rows, checked first and then timed.

sample, survey   the rows to read: a click-log sample, or the user's files, with links to small ones
peers            the contenders, a file for each library
check            the rows that a contender gives, compared with the rows that pyarrow reads
child            each measurement in a process of its own
roof             the limit of the machine
profile          fastload in a loop with simulated steps
machine          its cores and versions; what such a process and other processes use
session          the order of the measurements; medians
report           the record (JSON), and what is made of it: text, picture, page

Note: docs/notes/tools-bench.md.
"""
