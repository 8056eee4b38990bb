"""From paths to files and their footers.

In: paths, globs and URLs as the user gave them.
Out: a `Source`: files in canonical order, each with its size, version, footer and Hive keys, and
the fingerprint of them all. Footers are kept on disk. `stores/` brings the bytes of remote files.
"""
