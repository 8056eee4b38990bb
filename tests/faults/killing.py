"""Processes that are killed and begun again, over and over."""

import argparse
import os
import random
import signal
import tempfile
import time


def begin(fill, wrong, *arguments):
    """A forked process that fills a cache until it is killed; tells in `wrong` of what it met."""
    child = os.fork()
    if child == 0:
        try:
            fill(wrong, *arguments)
        except BaseException as error:
            (wrong / f"{os.getpid()}").write_text(repr(error))
            raise
        finally:
            os._exit(1)
    return child


def kill_again_and_again(fill, wrong, kills, processes, pauses):
    """Kills one of so many processes after a pause, so many times, and all of them at last.

    fill: called as fill(wrong, seed), in each process; writes files to `wrong` of what is wrong.
    pauses: the shortest and the longest, in seconds.
    """
    wrong.mkdir()
    choice = random.Random(0)
    running = [begin(fill, wrong, i) for i in range(processes)]
    for kill in range(kills):
        time.sleep(choice.uniform(*pauses))
        victim = choice.randrange(processes)
        os.kill(running[victim], signal.SIGKILL)
        _, status = os.waitpid(running[victim], 0)
        assert os.WIFSIGNALED(status), f"a process ended by itself: {told(wrong)}"
        running[victim] = begin(fill, wrong, 1000 + kill)
    for child in running:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert not told(wrong), told(wrong)


def told(wrong):
    """What processes wrote there."""
    return [each.read_text() for each in wrong.iterdir()]


def run_command(run, kept):
    """Calls run(directory, kills, processes) as the command line says, and tells what it returns.

    kept: what is left of the kills, in a word.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--processes", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        left = run(place, options.kills, options.processes)
    print(f"{options.kills} kills, {left} {kept} left, all of them right")
