"""Clients of object stores, which read bytes that are not on a local disk.

In: byte ranges of files. Out: the bytes, or an error that names URL, range and cause.
A `Stores` object belongs to a dataset; each process reads with a client of its own. A failed
request is retried a limited number of times, connections are reused, and the raw tier keeps the
byte ranges that were read on local disk.

Note: docs/notes/source-stores.md.
"""
