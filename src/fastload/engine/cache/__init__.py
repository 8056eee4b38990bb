"""Cached row groups: decoded, preprocessed and kept on local disk as Arrow files ("blocks").

In: a row group of a read plan. Out: the row group's rows, mapped from the cache. On a miss, one
process of the node decodes, writes and publishes them:

    row group -> key -> on disk? --yes--> map -> rows
                          |
                          no -> lock -> decode -> preprocess -> write -> publish -> map -> rows
                                 |
                                 held by another process -> wait for its entry

`BlockMaker` runs one task for each row group that a pass asks for. Whatever keeps a row group out
of the cache (a full disk, an entry that can't be opened, an output without an Arrow type) is an
`UncacheableError`: the process warns once, and its passes read the files from then on.

Note: docs/notes/engine-cache.md.
"""
