"""Steps of a dataset: the arguments `preprocess` and `augment`, checked."""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import get_worker_info

from fastload.batch.batch import Batch
from fastload.runtime.cores import RankCores
from fastload.steps.block import Block
from fastload.steps.image_step import ImageStep
from fastload.steps.kernel import Kernel
from fastload.steps.per_row import PerBlock, PerRow, name_of
from fastload.steps.thread_pool import StepPool

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

__all__ = [
    "FILE",
    "RESERVED",
    "ROW",
    "Augment",
    "AugmentStep",
    "Preprocess",
    "Step",
    "Steps",
    "check_inputs",
    "refuse_reserved",
]

PreprocessStep: TypeAlias = Callable[[Block], Mapping[str, Any]] | PerBlock | PerRow | Kernel
AugmentStep: TypeAlias = Callable[[Batch, NDArray[np.uint64]], Mapping[str, Any]] | PerRow | Kernel
Preprocess: TypeAlias = "PreprocessStep | Sequence[PreprocessStep] | None"
Augment: TypeAlias = "AugmentStep | Sequence[AugmentStep] | None"

# Outputs that the dataset itself adds: the file and number of a row, and whether a row is real.
FILE, ROW = "__file__", "__row__"
RESERVED = (FILE, ROW, "__valid__")

# Batches whose rows are in work while the consumer uses one: two, so that a thread that finds no
# row left in a batch goes on with the next batch.
_BATCHES_OF_ROWS = 2


class Step(NamedTuple):
    """One step.

    Attributes:
        run: the function, `PerBlock`, `PerRow` or `Kernel`. The type names each kind, so that mypy
            finds the places that a new kind would reach as a function.
        label: the name of the step in messages.
        number: the number of a step of `augment`, of which the seeds of rows are made: its index
            in the user's list, or the number of an `ImageStep`.
    """

    run: Callable[..., Any] | PerBlock | PerRow | Kernel
    label: str
    number: int = 0

    @property
    def draws(self) -> bool:
        """True if the step takes the seeds of the rows, as a step of `augment`."""
        return not isinstance(self.run, Kernel) or self.run.random


class Steps:
    """The steps of a dataset, and the threads of the steps in this process.

    Args:
        preprocess: the dataset's argument `preprocess`.
        augment: the dataset's argument `augment`.
        provenance: batches contain `__file__` and `__row__`.
        images: the steps that decode images, which come before the others. Random ones come before
            those of `augment`.
        resizes: functions of blocks may return more or fewer rows than they got.

    Attributes:
        resizes: as the argument.
        preprocess: the steps of `preprocess`.
        augment: the steps of `augment`.
        core_preprocess: how many steps at the start of `preprocess` the core runs.
        core_augment: how many steps at the start of `augment` the core runs.
        seconds: the time that the consumer has waited for steps, in this process.

    Raises:
        TypeError: an argument holds an object that is no step.
    """

    def __init__(
        self,
        preprocess: Preprocess,
        augment: Augment,
        *,
        provenance: bool,
        images: Sequence[ImageStep] = (),
        resizes: bool = False,
    ) -> None:
        self.resizes = resizes
        fixed = [step for step in images if not step.seeds]
        drawn = [step for step in images if step.seeds]
        lasting = [*fixed, *_listed("preprocess", preprocess)]
        self.preprocess = [_preprocess_step(step) for step in lasting]
        self.augment = _numbered(map(_augment_step, [*drawn, *_listed("augment", augment)]))
        self.core_preprocess = _leading_kernels(self.preprocess)
        all_kernels = self.core_preprocess == len(self.preprocess)
        self.core_augment = _leading_kernels(self.augment) if all_kernels else 0
        self.seconds = 0.0
        self._provenance = provenance
        self._cores = RankCores()
        self._pools: dict[int, StepPool] = {}
        self._pid = os.getpid()

    def __bool__(self) -> bool:
        """Return True if Python runs at least one step."""
        return self.count > self.core_preprocess + self.core_augment

    @property
    def count(self) -> int:
        """Number of steps."""
        return len(self.preprocess) + len(self.augment)

    @property
    def images(self) -> list[ImageStep]:
        """The steps that decode images."""
        steps = (*self.preprocess, *self.augment)
        return [step.run for step in steps if isinstance(step.run, ImageStep)]

    @property
    def of_user(self) -> int:
        """Number of steps that are arguments of the dataset."""
        return self.count - len(self.images)

    @property
    def most_ahead(self) -> int:
        """Number of batches that have to be in work at a time to keep all threads busy."""
        most = 0
        for step in (*self.preprocess, *self.augment):
            if isinstance(step.run, PerBlock):
                most = max(most, self._threads_of(step.run))
            elif isinstance(step.run, PerRow) and self._threads_of(step.run):
                most = max(most, _BATCHES_OF_ROWS)
        return most

    @property
    def need_places(self) -> bool:
        """True if a step needs the file and number of each row (for seeds or messages)."""
        named = any(isinstance(step.run, PerRow) for step in self.preprocess)
        return named or any(step.draws for step in self.augment)

    @property
    def hidden(self) -> tuple[str, ...]:
        """Names of outputs that the steps need and that batches don't contain afterwards."""
        return (FILE, ROW) if self.need_places and not self._provenance else ()

    @property
    def shown(self) -> tuple[str, ...]:
        """Names among RESERVED that the core's batches may contain."""
        return tuple(name for name in RESERVED if self or name not in self.hidden)

    def check_inputs(self, outputs: Iterable[str], added: Iterable[str] = ()) -> None:
        """Raise ValueError if a step that Python runs takes an output that does not exist.

        Steps after the first function of blocks or batches are not checked, since such a function
        may add any output. `plan_kernels` checks the kernels that the core runs.

        Args:
            outputs: the names of the outputs before the steps.
            added: the names of the outputs that the dataset adds before `augment`.
        """
        known = set(outputs)
        of_core = self.core_preprocess + self.core_augment
        for number, step in enumerate((*self.preprocess, *self.augment)):
            if number == len(self.preprocess):
                known.update(added)
            if isinstance(step.run, PerRow):
                check_inputs(step.run, known, step.label)
                known.update(step.run.outputs)
            elif isinstance(step.run, Kernel):
                if number >= of_core:
                    check_inputs(step.run, known, step.label)
                known.update(output.name for output in step.run.outputs)
            else:
                return  # a function may add any output

    def resizing(self) -> Steps:
        """Return the steps of `preprocess`, whose functions may change the number of rows."""
        preprocess = [step.run for step in self.preprocess]
        return Steps(preprocess, None, provenance=self._provenance, resizes=True)

    def pool(self, step: PerBlock | PerRow) -> StepPool:
        """Return the threads of a step in this process."""
        if self._pid != os.getpid():
            # Threads don't survive a fork.
            self._pools, self._pid, self.seconds = {}, os.getpid(), 0.0
        if id(step) not in self._pools:
            self._pools[id(step)] = StepPool(self._threads_of(step))
        return self._pools[id(step)]

    def close(self) -> None:
        """End the threads. Idempotent."""
        if self._pid == os.getpid():
            for pool in self._pools.values():
                pool.close()

    def _threads_of(self, step: PerBlock | PerRow) -> int:
        if step.threads is not None:
            return step.threads
        info = get_worker_info()
        return self._cores.of_process(1 if info is None else info.num_workers)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pools": {}, "seconds": 0.0}


def check_inputs(step: PerRow | Kernel, outputs: Iterable[str], label: str) -> None:
    """Raise ValueError if a step takes an output that is not among `outputs`.

    Args:
        step: the step.
        outputs: the names of the outputs before the step.
        label: the name of the step, for messages.
    """
    known = sorted(outputs)
    for name in step.inputs:
        if name not in known:
            raise ValueError(
                f"Expected inputs of {label} among {', '.join(f'`{k}`' for k in known)}, got "
                f"`{name}`"
            )


def refuse_reserved(outputs: Container[str], label: str) -> None:
    """Raise ValueError if a step returns an output with a name that the dataset keeps for itself.

    Args:
        outputs: the names of the outputs.
        label: the name of the step, for messages.
    """
    for name in RESERVED:
        if name in outputs:
            raise ValueError(
                f"The name `{name}` is reserved for the dataset, but {label} returns an output of "
                "this name"
            )


def _listed(name: str, steps: Any) -> list[Any]:
    if steps is None:
        return []
    listed = list(steps) if isinstance(steps, (list, tuple)) else [steps]
    for step in listed:
        if not callable(step) and not isinstance(step, (PerBlock, PerRow)):
            raise TypeError(f"Expected {name} as a callable or a list of callables, got {step!r}")
    return listed


def _preprocess_step(step: Any) -> Step:
    if isinstance(step, PerRow):
        if step.seeds:
            raise TypeError(
                f"Expected per_row without seeds in preprocess, got {step!r}: preprocess computes "
                "the same in every epoch, and cache= keeps its result; pass random steps as "
                "augment="
            )
        return _row_step(step)
    if isinstance(step, PerBlock):
        _refuse_arrays(step.fn, "per_block as fn(block)")
        _check_parameters(step.fn, ("block",), "per_block")
        return Step(step, f"per_block step `{name_of(step.fn)}`")
    if isinstance(step, Kernel):
        if step.random:
            raise TypeError(f"Expected a random kernel in augment, got {step!r} in preprocess")
        return Step(step, step.label)
    _refuse_arrays(step, "preprocess as fn(block)")
    _check_parameters(step, ("block",), "preprocess")
    return Step(step, f"preprocess step `{name_of(step)}`")


def _augment_step(step: Any) -> Step:
    if isinstance(step, PerRow) and step.seeds:
        return _row_step(step)
    if isinstance(step, (PerBlock, PerRow)):
        raise TypeError(
            f"Expected a callable fn(batch, seeds) in augment, got {step!r}, whose function gets "
            "no seeds: pass it as preprocess=, which computes the same in every epoch, or write a "
            "function of the batch and one seed for each row, or per_row(..., seeds=True)"
        )
    if isinstance(step, Kernel):
        return Step(step, step.label)
    _refuse_arrays(step, "augment as fn(batch, seeds)")
    _check_parameters(step, ("batch", "seeds"), "augment")
    return Step(step, f"augment step `{name_of(step)}`")


def _row_step(step: PerRow) -> Step:
    if not isinstance(step, ImageStep):
        arguments = (*step.inputs, "seed") if step.seeds else step.inputs
        _check_parameters(step.fn, arguments, "per_row")
    return Step(step, step.label)


def _numbered(steps: Iterable[Step]) -> list[Step]:
    """Return the steps of `augment` with their numbers."""
    numbers = itertools.count()
    return [
        step._replace(number=step.run.number if isinstance(step.run, ImageStep) else next(numbers))
        for step in steps
    ]


def _check_parameters(fn: Any, arguments: Sequence[str], owner: str) -> None:
    """Raise TypeError for a function that can't be called with the arguments of its step."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # some builtins have no signature
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        advice = "; a step without seeds belongs to preprocess=" if owner == "augment" else ""
        raise TypeError(
            f"Expected {owner} as fn({', '.join(arguments)}), got `{name_of(fn)}` with the "
            f"parameters {signature}{advice}"
        ) from None


def _refuse_arrays(fn: Any, how: str) -> None:
    """Raise TypeError for a function that numba compiled, which takes arrays and no dict.

    Args:
        fn: the function.
        how: the argument and the call that a Python function has, for the message.
    """
    if hasattr(fn, "py_func"):
        raise TypeError(
            f"Expected a function of Python for {how}, got `{name_of(fn)}`, which numba compiles "
            "for arrays: make a step of it by fastload.kernel(inputs=..., outputs=...), or call "
            "it in such a function"
        )


def _leading_kernels(steps: list[Step]) -> int:
    """Return the number of kernels before the first step of another kind."""
    others = (n for n, step in enumerate(steps) if not isinstance(step.run, Kernel))
    return next(others, len(steps))
