"""Passes: one iteration over a dataset each, and the feeds that a pass takes its batches from.

A feed wraps the next one; each but the core's scan is there only where a dataset asks for it:

    EpochIterator <- BlockFeed <- SteppedFeed <- ScanFeed or SkippingFeed <- the core's scan
                     cache=       preprocess=,   in plan order, or with
                                  augment=       on_error="skip"

`BlockFeed` goes on with the files once a row group can't be cached. `SkippingFeed` starts the
core's scan again behind a row group that can't be read.

In: the position where the pass begins. Out: batches in plan order, each with its position.
"""
