"""A point that the solver found, as a place in the launch that a reader can go to."""

from __future__ import annotations

from collections.abc import Mapping

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.findings import Place
from kerncap.sanitizer.launch import Argument, DescriptorArgument, Launch, ScalarArgument, TensorArgument
from kerncap.sanitizer.symbolic.expr import Expr, Unevaluable, Variable, evaluate
from kerncap.sanitizer.walk.access import Access, Target

Assignment = Mapping[Variable, int]


def place_of(
    analysis: Analysis, access: Access, assignment: Assignment, target: Target | None = None
) -> Place:
    """Program, lane, iterations and, with a target, where it leads.

    A variable that the point leaves open is at its least value: any would do.
    """
    x, y, z = (assignment.get(v, v.low) for v in analysis.walked.programs)
    lane = tuple(0 if v is None else assignment.get(v, v.low) for v in access.lanes)
    iterations = []
    for loop in access.loops:
        value = value_at(analysis, loop.induction, assignment)
        if value is None:
            value = assignment.get(loop.counter, loop.counter.low)
        iterations.append((loop.name, value))
    offset = None if target is None else value_at(analysis, target.offset_bytes, assignment)
    tensor = None if target is None else tensor_of(analysis.launch, target.argument)
    element = None
    if tensor is not None and offset is not None and offset % tensor.itemsize == 0:
        element = offset // tensor.itemsize
    mask = value_at(analysis, access.mask, assignment)
    return Place(
        program_id=(x, y, z),
        lane=lane,
        iterations=tuple(iterations),
        argument=None if target is None else argument_name(analysis.launch, target.argument),
        offset_bytes=offset,
        element=element,
        mask=None if mask is None else bool(mask),
    )


def value_at(analysis: Analysis, expression: Expr, assignment: Assignment) -> int | None:
    """An expression's value at a point (a boolean as 0 or 1); None if it is not known there."""
    point = {v: assignment.get(v, v.low) for v in expression.variables}
    try:
        (value,) = evaluate([expression], point, analysis.solver.memory)
    except (Unevaluable, LookupError):
        return None
    return int(value.reshape(-1)[0])


def linear_program(launch: Launch, program_id: tuple[int, int, int]) -> int:
    """The number of a program, x fastest."""
    x, y, z = program_id
    return x + launch.grid[0] * (y + launch.grid[1] * z)


def argument_name(launch: Launch, index: int | None) -> str | None:
    return None if index is None else launch.arguments[index].name


def tensor_of(launch: Launch, index: int | None) -> TensorArgument | None:
    """The tensor behind an argument, or None."""
    return None if index is None else tensor_behind(launch.arguments[index])


def tensor_behind(argument: Argument) -> TensorArgument | None:
    if isinstance(argument, DescriptorArgument):
        return argument.tensor
    return argument if isinstance(argument, TensorArgument) else None


def base_address(launch: Launch, index: int | None) -> int:
    """The address that a target's offset counts from; 0 if it is absolute."""
    if index is None:
        return 0
    argument = launch.arguments[index]
    tensor = tensor_behind(argument)
    if tensor is not None:
        return tensor.address
    if isinstance(argument, ScalarArgument):
        return int(argument.value)  # an address that was passed as an integer
    assert not isinstance(argument, TensorArgument | DescriptorArgument)
    return argument.address
