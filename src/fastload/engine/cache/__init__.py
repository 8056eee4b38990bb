"""Row groups that were decoded and preprocessed before, kept on local disk as Arrow files.

In: a row group of a read plan. Out: its rows, mapped from the cache; on a miss they are decoded
once per node, written and published:

    row group -> key -> on disk? --yes--> map -> rows
                          |
                          no -> lock -> decode -> preprocess -> write -> publish -> map -> rows
                                 |
                                 held by another process -> wait for its entry
"""
