"""Clients of object stores: how bytes that are not on a local disk are asked for.

In: byte ranges by file. Out: their bytes, or an error that names URL, range and cause.
A `Stores` object belongs to a dataset; one client reads for each process. Requests are
retried within a budget, connections are reused, and the raw tier keeps the ranges that were read.
"""
