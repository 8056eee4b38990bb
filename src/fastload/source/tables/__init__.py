"""Tables of Delta and Iceberg: a version of a table becomes files, columns and deleted rows.

In: `Delta` or `Iceberg`, as the user wrote them.
Out: a `Table`: the files of one version with their partition values and bounds, the columns by
their names in the files or by their field ids, and where the deleted rows are listed. deltalake and
pyiceberg read the metadata; no other folder imports them.

Note: docs/notes/source.md.
"""
