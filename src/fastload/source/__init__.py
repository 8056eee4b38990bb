"""The source of a dataset: paths are resolved to files, and the footers of the files are read.

In: paths, globs and URLs as the user wrote them, or a table.
Out: a `Source`: files in canonical order, each with its size, version, footer and Hive keys, the
row groups of all files, and a fingerprint. The footers of remote files, and of many local files,
are kept on disk. `tables/` plans a version of a table; `stores/` lists and reads remote files.

Note: docs/notes/source.md.
"""
