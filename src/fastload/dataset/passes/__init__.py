"""Passes: the iterator of one pass, and the feed that it takes batches from.

    Pass         counts the batches that it hands out, and gives each its position
     ^
    Feed         scan -> steps -> batch: reads the batches of one FeedPlan by scans of the core, and
     ^           calls `preprocess` and `augment`; on prepared rows, `augment` alone
    Engine       scans the files
      or
    PreparedEngine   scans the files of prepared rows

    In a mix:  Pass <- MixedFeed <- a SourceFeed for each source <- a Feed for each repetition of
                                    the source

A `FeedPlan` says which batches a feed delivers. The feed holds the one batch that Ctrl-C left. When
a scan fails and another scan can go on, the feed begins a scan over the batches that are left;
`SkippingReads` are the reads without unreadable row groups. While a pass ends, `NextPass` plans
the next pass in steps, and opens the feed of that pass until iter() takes the feed.

In: the position where the pass begins. Out: batches in plan order, each with its position.

Note: docs/notes/dataset.md.
"""
