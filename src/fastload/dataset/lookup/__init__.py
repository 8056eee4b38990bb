"""The first rows, and rows by number, read beside the passes.

In: numbers of rows in canonical order. Out: one Batch with these rows, or a map-style view.
"""
