"""From the columns that the user asks for to what the core decodes.

In: the schemas in the footers, names and column specs.
Out: a `Projection`: for each output its field (dtype, shape, unit), and for each leaf column how
the core reads, casts, fills and encodes it, file by file.
"""
