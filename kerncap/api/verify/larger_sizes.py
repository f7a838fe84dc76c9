"""Larger sizes of a captured launch, in separate memory, with the captured contents repeated.

Whether the application launches them is not known, so a difference decides nothing. They are tried only if
one kernel has a condition on a place, and on a number that it was compiled for, that went one way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from kerncap.api.replay import load_candidate
from kerncap.api.verify.derived_launch import MOST_BYTES, STRIDE_NAME, Layout, NotDerivable, blocks, derive
from kerncap.api.verify.other_sizes import grid_of, size_arguments
from kerncap.api.verify.own_engine import engine_of
from kerncap.api.verify.verify_result import Case
from kerncap.errors import KerncapError
from kerncap.format import schema
from kerncap.replay.engine import ORIGINAL
from kerncap.replay.measure_write_set import measure
from kerncap.replay.other_contents import Differential, Shown

_MOST_SIZES = 3


def on_larger_sizes(case: Case, conditions: Sequence[str], number: int) -> Shown:
    """Both kernels on launches with one size raised to more than ``number``, the largest of the conditions'.

    ``conditions``: what was found of them, for people.
    """
    found = Shown(remedy="a capture of that size would decide it")
    problems: list[str] = []
    if case.engine.choice.compiles:
        sizes = list(size_arguments(case.engine.manifest).items())[:_MOST_SIZES]
        problems += [] if sizes else ["no integer argument is the size of a tensor"]
    else:
        sizes = []
        problems.append(f"the {case.engine.choice.name} engine runs what was compiled for these sizes")
    for value, names in sizes:
        raised = 2 * max(value, number) + 1
        what = ", ".join(f"{name} = {raised}" for name in names)
        try:
            shown = _of_size(case, larger(case.reproducer.manifest, value, raised, names), what)
        except KerncapError as error:
            problems.append(f"{what}: {str(error).splitlines()[0]}")
            continue
        found.open += [
            f"{said}, and {reason}" for said in conditions for reason in shown.reasons + shown.open
        ]
        found.shown += shown.shown
        problems += shown.not_shown
    if not found.open and not found.shown:
        why = "; ".join(problems)
        found.not_shown += [f"larger sizes, on which it may matter that {one} ({why})" for one in conditions]
    return found


def _of_size(case: Case, layout: Layout, what: str) -> Shown:
    """Raises KerncapError for a launch that can't be made."""
    path = derive(case.reproducer, case.folder, layout)
    with engine_of(case, path) as engine:
        engine.restore()
        outcome = engine.launch(ORIGINAL)
        if not outcome.ok:
            return Shown(not_shown=[f"{what}: the captured kernel fails there ({outcome.message})"])
        measured = measure(engine, ORIGINAL)
        if (refused := load_candidate(engine, case.options.candidate)) is not None:
            return Shown(not_shown=[f"{what}: {refused.summary}"])
        shown = Differential(engine, measured, case.options.tolerance, what, []).judge()
        shown.contents = []  # of memory that is gone
        return shown


def larger(manifest: schema.Manifest, value: int, raised: int, names: Sequence[str]) -> Layout:
    """Tensors that have the size, raised, with rows as far apart as that takes. Raises NotDerivable."""
    layout = Layout(arguments=dict.fromkeys(names, raised))
    layout.grid = grid_of(manifest, value, raised, layout.arguments)
    if layout.grid is None:
        raise NotDerivable("its grid is not known")
    strides = dict(_stride_arguments(manifest))
    changed = {value: raised}  # of numbers that may be strides
    kept: set[int] = set()
    size = 0
    for number, view, shared in _views(manifest):
        shape = _raised_shape(view, value, raised)
        if shape == view.shape:
            kept.update(stride for stride, length in zip(view.strides, view.shape, strict=True) if length > 1)
            continue
        if shared or 0 in view.shape:
            raise NotDerivable(f"{view.name} shares its memory, or has none")
        layout.shapes[number] = shape
        layout.strides[number] = _wider(view, shape)
        size += view.itemsize * (shape[0] * layout.strides[number][0] if shape else 0)
        for old, new, length in zip(view.strides, layout.strides[number], view.shape, strict=True):
            if old == new or length == 1:
                continue
            if changed.setdefault(old, new) != new or old not in {value, *strides.values()}:
                raise NotDerivable(
                    f"its stride {old} of {view.name} is not an argument, or is that of several tensors"
                )
    if size > MOST_BYTES:
        raise NotDerivable(f"it takes more than {MOST_BYTES >> 20} MiB of memory")
    for name, stride in strides.items():
        if stride in changed and stride in kept:
            raise NotDerivable(f"{name} may be of a tensor that stays as it is")
        layout.arguments[name] = changed.get(stride, stride)
    return layout


def _stride_arguments(manifest: schema.Manifest) -> Iterator[tuple[str, int]]:
    for argument in manifest.arguments:
        value = argument.value
        if isinstance(value, schema.IntValue) and STRIDE_NAME.search(argument.name):
            if argument.role != "runtime" and int(value.value) != 1:
                raise NotDerivable(f"it is compiled for {argument.name} = {value.value}")
            yield argument.name, int(value.value)


def _views(manifest: schema.Manifest) -> Iterator[tuple[int, schema.View, bool]]:
    """Each tensor, and whether others or a descriptor have to do with its memory."""
    described = {
        argument.value.view
        for argument in manifest.arguments
        if isinstance(argument.value, schema.DescriptorValue)
    }
    for block in blocks(manifest):
        for number in block.views:
            yield number, manifest.views[number], len(block.views) > 1 or number in described


def _raised_shape(view: schema.View, value: int, raised: int) -> tuple[int, ...]:
    """Where a length is the size; or with more rows, if all elements together are."""
    if value in view.shape:
        return tuple(raised if length == value else length for length in view.shape)
    if view.shape and prod(view.shape) == value:
        rest = prod(view.shape[1:])
        return (-(-raised // rest), *view.shape[1:])
    return tuple(view.shape)


def _wider(view: schema.View, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides for a larger shape: as they are, unless rows would meet. Raises NotDerivable."""
    rows = zip(view.strides, view.strides[1:], view.shape[1:], strict=False)
    if view.strides[-1] != 1 or any(outer < inner * length for outer, inner, length in rows):
        raise NotDerivable(f"{view.name} is not stored row by row")
    strides = [1]
    for axis in range(len(shape) - 1, 0, -1):
        strides.insert(0, max(view.strides[axis - 1], strides[0] * shape[axis]))
    return tuple(strides)
