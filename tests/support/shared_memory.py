"""Files in /dev/shm, and the files among them that belong to other programs."""

import multiprocessing
import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path


def semaphore_prefix() -> str:
    """Return the prefix of names for semaphores of this process and the processes it starts.

    Python's own prefix, "/mp", is the same in every program.
    """
    return f"/fastload-{os.getpid()}"


def name_semaphores() -> None:
    """Give semaphores of this process, and of the processes it starts, a prefix of their own."""
    multiprocessing.process.current_process()._config["semprefix"] = semaphore_prefix()


def own_files(files: Iterable[Path], program: int, processes: Collection[int]) -> set[Path]:
    """Return the files without those that are known to belong to another program.

    Args:
        files: files of /dev/shm.
        program: pid of the process that called `name_semaphores`.
        processes: pids of the program's living processes.
    """
    return {file for file in files if not _is_foreign(file.name, program, processes)}


def _is_foreign(name: str, program: int, processes: Collection[int]) -> bool:
    if name.startswith(("sem.mp-", "fastload-fuzz-")):
        return True
    if re.fullmatch(r"sem\.\w{6}", name):  # glibc renames a new semaphore at once
        return True
    if name.startswith("sem.fastload-"):
        return not name.startswith(f"sem.fastload-{program}-")
    if name.startswith("torch_"):  # torch_PID_...
        pid = int(name.split("_")[1])
        return pid not in processes and Path("/proc", str(pid)).exists()
    return False
