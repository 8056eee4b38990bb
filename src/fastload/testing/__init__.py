"""Checks that you can run on your own datasets; fastload's own tests run them too.

Note on `shuffle_quality`: docs/notes/collate.md.
"""

from fastload.testing.quality import ShuffleQuality, shuffle_quality
from fastload.testing.ranks import assert_ranks_agree, assert_same_steps
from fastload.testing.resume import assert_resumes_exactly
from fastload.testing.rows import assert_same_batches, assert_same_rows

__all__ = [
    "ShuffleQuality",
    "assert_ranks_agree",
    "assert_resumes_exactly",
    "assert_same_batches",
    "assert_same_rows",
    "assert_same_steps",
    "shuffle_quality",
]
