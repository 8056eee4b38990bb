"""Plan of the kernels that the core calls, and of the outputs in the core's batches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch

from fastload.schema.fields import Field
from fastload.schema.projection import OutputPlan
from fastload.steps.kernel import Kernel
from fastload.steps.steps import FILE, ROW, check_inputs, refuse_reserved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.steps.kernel_entry import Argument
    from fastload.steps.steps import Step, Steps

__all__ = ["CoreKernel", "KernelPlan", "extra_outputs", "plan_kernels"]


class CoreKernel(NamedTuple):
    """A kernel that the core calls on each batch.

    Attributes:
        kernel: the kernel.
        arguments: the type of each input.
        inputs: for each input, its index among the core's outputs.
        outputs: for each output that the kernel fills, its index among the core's outputs.
        step: the index of the kernel's step in `augment`; 0 for `preprocess`.
        places: the indices of the outputs with each row's file and number, of which the seeds are
            made; (-1, -1) for a kernel without seeds.
    """

    kernel: Kernel
    arguments: tuple[Argument, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    step: int
    places: tuple[int, int]


class KernelPlan(NamedTuple):
    """The outputs and kernels of the core.

    Attributes:
        outputs: the core's outputs, in the order of a batch.
        kernels: the kernels, in the order in which the core calls them.
    """

    outputs: tuple[OutputPlan, ...]
    kernels: tuple[CoreKernel, ...]


def extra_outputs(*, provenance: bool, padded: bool) -> list[OutputPlan]:
    """Return the outputs that are not columns of the files.

    Args:
        provenance: include `__file__` and `__row__`, which say where a row comes from.
        padded: include `__valid__`, which is False for rows that pad a batch.
    """
    extra = []
    if provenance:
        extra.append(OutputPlan(FILE, "file", (), Field(torch.int32)))
        extra.append(OutputPlan(ROW, "row", (), Field(torch.int64)))
    if padded:
        extra.append(OutputPlan("__valid__", "real_row", (), Field(torch.bool)))
    return extra


def plan_kernels(
    steps: Steps, outputs: Sequence[OutputPlan], extra: Sequence[OutputPlan]
) -> KernelPlan:
    """Plan and compile the kernels that come before all Python functions.

    Args:
        steps: the steps of the dataset.
        outputs: the outputs of `columns`.
        extra: the outputs that `extra_outputs` returns.

    Raises:
        ValueError: an input does not exist, an output has a reserved name, or a column has the name
            of an extra output.
        TypeError: a kernel can't take an input, or numba can't compile the kernel.
    """
    planner = _Planner([*outputs])
    for step in steps.preprocess[: steps.core_preprocess]:
        planner.add(step, 0)
    shown = {*steps.shown}
    for output in extra:
        if output.name in shown and planner.has(output.name):
            raise ValueError(
                f"Output name `{output.name}` is used twice: by a column, and by fastload, which "
                f'adds it for provenance=True, uneven="pad", augment=, per_row or Image. '
                f'exclude=["{output.name}"] leaves the column out, and columns={{...}} can give it '
                "another name"
            )
        planner.append(replace(output, hidden=output.name not in shown))
    for number, step in enumerate(steps.augment[: steps.core_augment]):
        planner.add(step, number)
    return KernelPlan(tuple(planner.outputs), tuple(planner.kernels))


class _Planner:
    """A list of outputs to which kernels are added, one after the other.

    Args:
        outputs: the outputs before the first kernel.
    """

    def __init__(self, outputs: list[OutputPlan]) -> None:
        self.outputs = outputs
        self.kernels: list[CoreKernel] = []
        self._numbers = {output.name: number for number, output in enumerate(outputs)}

    def has(self, name: str) -> bool:
        """Return True if an output that is not hidden has the name."""
        return name in self._numbers

    def append(self, output: OutputPlan) -> None:
        if not output.hidden:
            self._numbers[output.name] = len(self.outputs)
        self.outputs.append(output)

    def add(self, step: Step, number: int) -> None:
        kernel = step.run
        assert isinstance(kernel, Kernel), "Expected a step that the core runs"
        check_inputs(kernel, self._numbers, step.label)
        refuse_reserved([output.name for output in kernel.outputs], step.label)
        inputs = tuple(self._numbers[name] for name in kernel.inputs)
        arguments = tuple(
            kernel.argument(o.name, o.field, row_major=o.row_major)
            for o in (self.outputs[index] for index in inputs)
        )
        kernel.code(arguments)
        filled = tuple(map(self._filled, kernel.outputs))
        places = self._places if kernel.random else (-1, -1)
        self.kernels.append(CoreKernel(kernel, arguments, inputs, filled, number, places))

    @property
    def _places(self) -> tuple[int, int]:
        names = [output.name for output in self.outputs]
        return names.index(FILE), names.index(ROW)

    def _filled(self, argument: Argument) -> int:
        """Return the index of the output that a kernel fills.

        An output of the same name, dtype and shape is overwritten. Otherwise the output is added,
        and an output of the same name is hidden.
        """
        field = argument.field
        index = self._numbers.get(argument.name)
        if index is not None:
            old = self.outputs[index]
            alike = (old.field.dtype, old.field.shape) == (field.dtype, field.shape)
            if alike and not old.field.ragged and old.row_major:
                self.outputs[index] = replace(old, field=field)
                return index
            self.outputs[index] = replace(old, hidden=True)
        length = field.shape[0] if field.shape else 0
        self.append(OutputPlan(argument.name, "computed", (), field, length))
        return len(self.outputs) - 1
