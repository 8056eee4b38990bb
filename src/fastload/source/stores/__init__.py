"""Clients of object stores, web servers and fsspec's filesystems, which hold remote files.

In: URLs, directories and globs; byte ranges of files.
Out: the files that exist, with sizes and versions; the bytes, or an error that names URL, range and
cause. A `Stores` object belongs to a dataset; each process reads with clients of its own. A request
that failed for a cause that may pass is retried a limited number of times, and connections are
reused. If the dataset's cache has a raw tier, the tier keeps on local disk the byte ranges that
were read.

Note: docs/notes/source-stores.md.
"""
