"""The gate that threads which fill the cache go through."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fastload.gate import Gate


@pytest.mark.parametrize("at_once", [1, 3])
def test_so_many_are_through_at_a_time(at_once):
    gate, through, most = Gate(at_once), [0], [0]

    def work(number):
        for _ in range(50):
            with gate.passed(number):
                through[0] += 1
                most[0] = max(most[0], through[0])
                time.sleep(0)
                through[0] -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert through == [0]
    assert most[0] <= at_once


def test_of_those_that_wait_the_least_number_goes_first():
    gate, order, waiting = Gate(1), [], []

    def work(number):
        with gate.passed(number):
            order.append(number)

    with gate.passed(0):
        for number in (5, 2, 9, 1):
            waiting.append(threading.Thread(target=work, args=(number,)))
            waiting[-1].start()
        while len(gate._waiting) < len(waiting):
            time.sleep(0.001)
    for thread in waiting:
        thread.join()
    assert order == [1, 2, 5, 9]


def test_who_raises_lets_the_next_one_through():
    gate = Gate(1)
    with pytest.raises(KeyError), gate.passed(0):
        raise KeyError
    with gate.passed(0):
        pass
