"""What a session tells of the program that ran in the session."""

import sys

import pytest

from support.session import Session

# A process that ends without a word to multiprocessing's tracker, after it may have removed its
# semaphores: what the end of a program does to the threads that DataLoader leaves behind.
PROGRAM = """
import multiprocessing, os
import _multiprocessing
locks = [multiprocessing.get_context("spawn").Lock() for _ in range(2)]
for lock in locks[:REMOVED]:
    _multiprocessing.sem_unlink(lock._semlock.name)
print("rows", flush=True)
os._exit(0)
"""


@pytest.mark.parametrize(("removed", "is_told"), [(2, False), (1, True), (0, True)])
def test_leaked_semaphores_are_told_if_one_of_them_was_left(removed, is_told):
    program = PROGRAM.replace("REMOVED", str(removed))
    with Session([sys.executable, "-c", program]) as session:
        out, err = session.output(timeout_s=30)
    assert out == "rows\n"
    assert ("leaked semaphore" in err) == is_told
    assert bool(err) == is_told
