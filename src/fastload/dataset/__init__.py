"""`FastParquetDataset` and `mix`, which compose the stages and own epochs, ranks and saved state.

Read `dataset.py` first, top to bottom. The number of the next epoch lies in memory that all worker
processes share (module `epochs` has the details):

    set_epoch(e) -> epoch cell -> iter() in each worker takes the same epoch -> a pass
                        ^                                                       |
                        +---------- advanced by one when a pass begins ---------+

Note: docs/notes/dataset.md.
"""
