"""Passes: one iteration over a dataset each, and what feeds a pass with batches.

    EpochIterator <- feed <- ...       what a feed takes from what:
        scan feed      core's scan of files
        step feed      another feed, then `preprocess` and `augment`
        block feed     cached row groups
        skipping feed  scan feeds, one after the other, around what can't be read

In: the position where the pass begins. Out: batches in plan order, each with its position.
"""
