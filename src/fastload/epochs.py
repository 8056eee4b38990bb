"""The epoch of the next pass, shared by a dataset and its copies in worker processes."""

from __future__ import annotations

import os
import threading
from hashlib import blake2b

import torch
from torch.utils.data import get_worker_info

__all__ = ["EpochCell"]

_EPOCH_BITS = 24
_MOST_EPOCHS = 1 << _EPOCH_BITS
# A pass is named by who began it and how many that has begun; epoch and name fit an int64.
_PASS_BITS = 12
_OWNER_BITS = 27
# The pass named by an explicit epoch rather than by a pass that has begun.
_SET = 0


class EpochCell:
    """A word of shared memory: the latest pass and its epoch.

    Each pass advances the epoch. All workers of a DataLoader take part in the same pass, and
    each finds that out by itself: the pass's name is what DataLoader gives all of them alike.
    Whoever comes first writes the next epoch, and whoever comes at the same moment writes the
    very same word, so no lock is needed.
    """

    def __init__(self) -> None:
        cell: torch.Tensor = torch.zeros(2, dtype=torch.int64)
        cell.share_memory_()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._word, self._by_worker = cell[:1], cell[1:]
        self._passes = 0

    def set(self, epoch: int) -> None:
        """The next pass is of this epoch.

        Raises:
            TypeError, ValueError: it is no integer in [0, 2**24).
        """
        if isinstance(epoch, bool) or not isinstance(epoch, int):
            raise TypeError(f"Expected an epoch as an int, got {epoch!r}")
        if not 0 <= epoch < _MOST_EPOCHS:
            raise ValueError(f"Expected an epoch in [0, {_MOST_EPOCHS}), got {epoch}")
        self._word[0] = epoch
        self._by_worker[0] = 0

    @property
    def begun(self) -> bool:
        """Whether a pass has begun since the last `set`, in whatever process."""
        return int(self._word[0]) >> _EPOCH_BITS != _SET

    @property
    def begun_by_worker(self) -> bool:
        """Whether the latest pass was begun by a worker process."""
        return bool(self._by_worker[0])

    @property
    def next(self) -> int:
        """The epoch of the next pass."""
        return _epoch_after(int(self._word[0]))

    def begin(self) -> int:
        """Begins a pass, or takes part in one that another worker began; returns its epoch."""
        self._passes += 1
        name = self._pass_name()
        # Read once: another worker of this pass may write it at any moment.
        word = int(self._word[0])
        latest, epoch = word >> _EPOCH_BITS, word % _MOST_EPOCHS
        if latest == name or _is_before(name, latest):
            return epoch
        epoch = _epoch_after(word)
        self._word[0] = name << _EPOCH_BITS | epoch
        self._by_worker[0] = get_worker_info() is not None
        return epoch

    def _pass_name(self) -> int:
        """A number in [1, 2**39) that every worker of this pass computes alike."""
        worker = get_worker_info()
        if worker is None:
            source = f"{os.getpid()} {threading.get_ident()}"
        else:
            # The seed is the loader's, drawn anew each time it starts workers; workers that
            # persist count their passes.
            source = f"workers {worker.seed - worker.id}"
        digest = blake2b(source.encode(), digest_size=8).digest()
        owner = int.from_bytes(digest, "little") % ((1 << _OWNER_BITS) - 1) + 1
        return owner << _PASS_BITS | self._passes % (1 << _PASS_BITS)


def _epoch_after(word: int) -> int:
    name, epoch = word >> _EPOCH_BITS, word % _MOST_EPOCHS
    return epoch if name == _SET else (epoch + 1) % _MOST_EPOCHS


def _is_before(name: int, latest: int) -> bool:
    """Whether `name` is an earlier pass of the same loader.

    So it is for a worker that comes to a pass that was abandoned in the meantime.
    """
    behind = (latest - name) % (1 << _PASS_BITS)
    return name >> _PASS_BITS == latest >> _PASS_BITS and 0 < behind < 1 << (_PASS_BITS - 1)
