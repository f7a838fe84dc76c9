"""A mask that would fix an out-of-bounds access, in the kernel's own names, if there is one.

Candidates are the named values that the address steps along an axis of the tensor with, each held below
that axis' extent (or not below zero). One is suggested only if the solver proves that with it added
no byte leaves the memory any more, and that something is left to access.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.diagnose.place import tensor_of
from kerncap.sanitizer.diagnose.render import mask_expression
from kerncap.sanitizer.diagnose.value_names import Named, named_values, scalar_name, variable_name
from kerncap.sanitizer.launch import TensorArgument
from kerncap.sanitizer.symbolic.expr import TRUE, Expr, land, linear, var
from kerncap.sanitizer.symbolic.solve import Sat, Unsat
from kerncap.sanitizer.walk.access import Access, Target

MAX_CANDIDATES = 12


@dataclass(frozen=True)
class _Candidate:
    condition: Expr
    text: str
    axis: int  # of the tensor
    likely: bool  # even if it masks out what is in bounds by chance: the next row's elements


def suggest(
    analysis: Analysis, access: Access, target: Target, given: Sequence[Expr], violation: Expr
) -> str | None:
    """``mask=offs < n``, or None.

    ``given``: where the access is performed; ``violation``: what is wrong there.
    """
    tensor = tensor_of(analysis.launch, target.argument)
    if tensor is None or access.descriptor is not None or access.pointer_operand is None:
        return None
    if 0 in tensor.shape:
        return None
    candidates = list(_candidates(analysis, access, target, tensor))[:MAX_CANDIDATES]
    useful = [one for one in candidates if _leaves_something(analysis, given, one.condition)]
    fixing = [one for one in useful if _fixes(analysis, given, violation, one.condition)]
    # One that takes nothing away that was in bounds, if there is one.
    exact = (one for one in fixing if _takes_nothing(analysis, given, violation, one.condition))
    best = next(exact, None) or next((one for one in fixing if one.likely), None)
    if best is not None:
        return _as_argument(analysis, access, [best])
    by_axis = {one.axis: one for one in reversed(useful) if one.likely}
    several = [by_axis[axis] for axis in sorted(by_axis)]
    together = land(*(one.condition for one in several))
    if len(several) < 2 or not _leaves_something(analysis, given, together):
        return None
    return _as_argument(analysis, access, several) if _fixes(analysis, given, violation, together) else None


def _candidates(
    analysis: Analysis, access: Access, target: Target, tensor: TensorArgument
) -> Iterator[_Candidate]:
    seen: set[Expr] = set()
    for named in named_values(analysis, access):
        index = named.expression
        if not any(variable.kind == "lane" for variable in index.variables):
            continue  # a mask on what a whole program shares is hardly ever what was forgotten
        for axis, (extent, stride) in enumerate(zip(tensor.shape, tensor.strides, strict=True)):
            stride_bytes = stride * tensor.itemsize
            if not _steps_along(target.offset_bytes, index, stride_bytes):
                continue
            held = list(_held(analysis, named, extent))
            held += _held_in_loop(analysis, access, target, named, tensor, axis)
            for condition, text in held:
                if condition is not TRUE and condition not in seen:
                    seen.add(condition)
                    yield _Candidate(condition, text, axis, _about(index, extent))


def _held(analysis: Analysis, named: Named, extent: int) -> Iterator[tuple[Expr, str]]:
    limit = scalar_name(analysis, extent) or str(extent)
    below = named.expression < extent
    above = named.expression >= 0
    yield below, f"{named.text} < {limit}"
    yield above, f"{named.text} >= 0"
    yield below & above, f"({named.text} >= 0) & ({named.text} < {limit})"


def _held_in_loop(
    analysis: Analysis, access: Access, target: Target, named: Named, tensor: TensorArgument, axis: int
) -> Iterator[tuple[Expr, str]]:
    """For a pointer that a loop moves along the same axis: ``offs_k < K - k * 32``."""
    form = linear(target.offset_bytes)
    limit = scalar_name(analysis, tensor.shape[axis]) or str(tensor.shape[axis])
    for loop in access.loops:
        if form is None or loop.counter in named.expression.variables:
            continue
        moved = form.coefficient(var(loop.counter))
        induction = linear(loop.induction)
        step = 0 if induction is None else induction.coefficient(var(loop.counter))
        if not moved or not step or loop.induction.variables != {loop.counter}:
            continue
        elements = moved // tensor.itemsize
        if max((s for s in tensor.strides if s > 0 and elements % s == 0), default=0) != tensor.strides[axis]:
            continue  # it moves along another axis
        factor, rest = divmod(elements // tensor.strides[axis], step)
        if rest:
            continue
        shift = loop.induction * factor
        text = loop.name if factor == 1 else f"{loop.name} * {factor}"
        yield named.expression + shift < tensor.shape[axis], f"{named.text} < {limit} - {text}"


def _about(index: Expr, extent: int) -> bool:
    """Whether the index leaves the axis by less than a tile: what rounding up to whole tiles does."""
    tile = prod(variable.points for variable in index.variables if variable.kind == "lane")
    return (
        index.low is not None and index.high is not None and -tile < index.low and index.high < extent + tile
    )


def _steps_along(offset: Expr, index: Expr, stride_bytes: int) -> bool:
    """Whether the address is the index times the stride plus something that the index has no part in."""
    rest = offset - index * stride_bytes
    return bool(stride_bytes) and not rest.variables & index.variables


def _fixes(analysis: Analysis, given: Sequence[Expr], violation: Expr, mask: Expr) -> bool:
    return isinstance(analysis.solver.satisfiable(*given, violation, mask), Unsat)


def _leaves_something(analysis: Analysis, given: Sequence[Expr], mask: Expr) -> bool:
    return isinstance(analysis.solver.satisfiable(*given, mask), Sat)


def _takes_nothing(analysis: Analysis, given: Sequence[Expr], violation: Expr, mask: Expr) -> bool:
    """No access that was in bounds is masked out."""
    return isinstance(analysis.solver.satisfiable(*given, ~violation, ~mask), Unsat)


def _as_argument(analysis: Analysis, access: Access, candidates: Sequence[_Candidate]) -> str:
    texts = [one.text for one in candidates]
    if access.mask_operand is not None and mask_expression(access.mask_operand) != "True":
        joined = " & ".join(text if text.startswith("(") else f"({text})" for text in texts)
        name = variable_name(analysis, access.mask_operand)
        if name:
            return f"mask={name} & {joined}"
        return f"add to the mask: {texts[0] if len(texts) == 1 else joined}"
    joined = texts[0] if len(texts) == 1 else " & ".join(f"({text})" for text in texts)
    return f"mask={joined}"
