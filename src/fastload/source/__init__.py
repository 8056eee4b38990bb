"""The source of a dataset: paths are resolved to files, and the footers of the files are read.

In: paths, globs and URLs as the user wrote them.
Out: a `Source`: files in canonical order, each with its size, version, footer and Hive keys, and
a fingerprint of all files. Footers are kept on disk. `stores/` reads the bytes of remote files.

Note: docs/notes/source.md.
"""
