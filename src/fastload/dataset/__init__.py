"""`FastParquetDataset` and `mix`: they compose the stages, and own epochs, ranks and saved state.

Read `dataset.py` first, top to bottom. An epoch's number lives in memory that all worker
processes share:

    set_epoch(e) -> epoch cell -> iter() in each worker takes the same epoch -> a pass
                        ^                                                       |
                        +---------- advanced by one when a pass begins ---------+
"""
