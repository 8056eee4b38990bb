"""fastload-inspect: the layout of a dataset, read from its footers, and what to change.

Note: docs/notes/tools-inspect.md.
"""
