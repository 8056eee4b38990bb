"""Passes: the iterator of one pass, and the feeds that it takes batches from.

A pass needs some of these feeds. Each takes its batches from the feed below:

    EpochIterator    counts the batches that it hands out, and gives each its position
         ^
    RereadFeed       only with files in stores: opens the pass again at a corrupt row group,
         ^           which is read once more
    PreparedFeed     only with prepared rows: once a file of them is damaged or gone, has the
         ^           file written again, and opens the feeds below again for the rest of the pass
    SteppedFeed      only with steps: calls `preprocess`, then `augment`; on prepared rows,
         ^           `augment` alone
    ScanFeed         hands out the batches of one scan of the core
      or
    SkippingFeed     with on_error="skip": after a corrupt row group, starts a new scan without it
         ^
    Engine           scans the files
      or
    PreparedEngine   scans the files of prepared rows

    In a mix:  EpochIterator <- MixedFeed <- a SourceFeed for each source <- the feeds above, opened
                                             anew for each repetition of the source

`FeedFactory` opens the feeds. While a pass ends, `NextPass` plans the next pass in steps and opens
the feeds of that pass; `PreparedPass` holds these feeds until iter() takes them.

In: the position where the pass begins. Out: batches in plan order, each with its position.

Note: docs/notes/dataset.md.
"""
