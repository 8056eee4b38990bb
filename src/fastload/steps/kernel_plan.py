"""Which steps the core carries out, and what its batches hold then."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch

from fastload.schema.fields import Field
from fastload.schema.projection import OutputPlan
from fastload.steps.steps import RESERVED, check_inputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.steps.kernel import Kernel
    from fastload.steps.kernel_argument import Argument
    from fastload.steps.steps import Step, Steps

__all__ = ["CoreKernel", "KernelPlan", "extra_outputs", "plan_kernels"]


class CoreKernel(NamedTuple):
    """A kernel that the core calls on each batch.

    arguments: its inputs.
    inputs: of these, the numbers of the core's outputs.
    outputs: likewise, of those that it fills.
    step: its number in `augment`.
    """

    kernel: Kernel
    arguments: tuple[Argument, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    step: int


class KernelPlan(NamedTuple):
    """What the core does beside decoding.

    outputs: of the core, in the order of a batch.
    kernels: in the order in which they are called.
    """

    outputs: tuple[OutputPlan, ...]
    kernels: tuple[CoreKernel, ...]


def extra_outputs(*, provenance: bool, padded: bool) -> list[OutputPlan]:
    """The outputs that say where rows come from, and whether they count."""
    extra = []
    if provenance:
        extra.append(OutputPlan("__file__", "file", (), Field(torch.int32)))
        extra.append(OutputPlan("__row__", "row", (), Field(torch.int64)))
    if padded:
        extra.append(OutputPlan("__valid__", "real_row", (), Field(torch.bool)))
    return extra


def plan_kernels(
    steps: Steps, outputs: Sequence[OutputPlan], extra: Sequence[OutputPlan]
) -> KernelPlan:
    """Plans the kernels that no step of Python's comes before, and compiles them.

    Args:
        steps: of the dataset.
        outputs: of `columns`.
        extra: that say where rows come from, and whether they count.

    Raises:
        ValueError: an input is not there, or an output has a name of the dataset's own.
        TypeError: an input is nothing that a kernel takes, or numba can't compile it.
    """
    planner = _Planner([*outputs])
    for step in steps.preprocess[: steps.core_preprocess]:
        planner.add(step, 0)
    shown = {*steps.shown}
    for output in extra:
        planner.append(replace(output, hidden=output.name not in shown))
    for number, step in enumerate(steps.augment[: steps.core_augment]):
        planner.add(step, number)
    return KernelPlan(tuple(planner.outputs), tuple(planner.kernels))


class _Planner:
    """Outputs, as kernels add to them.

    Args:
        outputs: to begin with.
    """

    def __init__(self, outputs: list[OutputPlan]) -> None:
        self.outputs = outputs
        self.kernels: list[CoreKernel] = []
        self._numbers = {output.name: number for number, output in enumerate(outputs)}

    def append(self, output: OutputPlan) -> None:
        if not output.hidden:
            self._numbers[output.name] = len(self.outputs)
        self.outputs.append(output)

    def add(self, step: Step, number: int) -> None:
        kernel: Kernel = step.run
        check_inputs(step, self._numbers)
        for output in kernel.outputs:
            if output.name in RESERVED:
                raise ValueError(
                    f"Expected {step.label} to leave `{output.name}` to the dataset, got an output "
                    "of that name"
                )
        inputs = tuple(self._numbers[name] for name in kernel.inputs)
        arguments = tuple(
            kernel.argument(o.name, o.field, row_major=o.row_major)
            for o in (self.outputs[place] for place in inputs)
        )
        kernel.code(arguments)
        filled = tuple(map(self._filled, kernel.outputs))
        self.kernels.append(CoreKernel(kernel, arguments, inputs, filled, number))

    def _filled(self, argument: Argument) -> int:
        """The number of the output that a kernel fills, new or in place of one like it."""
        field = argument.field
        place = self._numbers.get(argument.name)
        if place is not None:
            old = self.outputs[place]
            alike = (old.field.dtype, old.field.shape) == (field.dtype, field.shape)
            if alike and not old.field.ragged and old.row_major:
                self.outputs[place] = replace(old, field=field)
                return place
            self.outputs[place] = replace(old, hidden=True)
        length = field.shape[0] if field.shape else 0
        self.append(OutputPlan(argument.name, "computed", (), field, length))
        return len(self.outputs) - 1
