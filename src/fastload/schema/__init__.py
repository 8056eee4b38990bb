"""The columns that the user asks for, turned into a plan of what the core decodes.

In: the schemas in the footers, column names and column specs.
Out: a `Projection`: the field of each output (dtype, shape, unit), and for each leaf column the way
the core reads, casts, fills and encodes its values, file by file. `Pack` adds outputs of packed
rows to the projection.

Note on lists, structs and maps: docs/notes/decode-lists.md.
"""
