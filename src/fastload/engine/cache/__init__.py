"""Cached row groups: decoded, preprocessed and kept on local disk as Arrow files ("blocks").

In: a row group of a read plan. Out: the row group's rows, mapped from the cache. On a miss, one
process of the node decodes, writes and publishes them:

    row group -> key -> on disk? --yes--> map -> rows
                          |
                          no -> lock -> decode -> preprocess -> write -> publish -> map -> rows
                                 |
                                 held by another process -> wait for its entry

Note: docs/notes/engine-cache.md.
"""
