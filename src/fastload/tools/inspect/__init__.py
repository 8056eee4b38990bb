"""What the footers of a dataset say of its layout, and what to change: `fastload-inspect`.

Note: docs/notes/tools-inspect.md.
"""
