"""Which parts of which blocks' buffers an operation on registers uses: by its layouts, or by its indices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.shared.in_flight import Thread
from kerncap.sanitizer.shared.operands import memories_of, short
from kerncap.sanitizer.shared.program_run import Env, Run, Stopped
from kerncap.sanitizer.shared.scalars import Tile, Unknown
from kerncap.sanitizer.shared.views import Box, View, memory_type
from kerncap.sanitizer.ttir.ir import Operation, TensorType, Value

_MAX_BOXES = 64  # that the elements of one access are put together to


def use_own(run: Run, operation: Operation, view: View, value: Value, thread: Thread, writes: bool) -> None:
    """A load or a store of registers, whose layout may lead to other blocks. ``value``: the buffer."""
    for block, part, _ in routes(run, operation, view, value, thread):
        _started(run, operation, thread, block)
        run.access(operation, part, thread, writes, short(operation), block=block)


def routes(
    run: Run, operation: Operation, view: View, value: Value, thread: Thread
) -> list[tuple[int, View, int]]:
    """Blocks, what is used of their parts of the view, and how many elements."""
    values = (*operation.operands, *operation.results)
    registers = next((one.type for one in values if isinstance(one.type, TensorType)), None)
    kind = memory_type(value.type)
    if registers is None or kind is None or kind.tensor_memory:
        return [(thread.block, view, 0)]
    found = run.cluster.routes(registers, value.type, thread.block)
    return [(block, view if box is None else _within(view, box), count) for block, box, count in found]


def use_indexed(run: Run, operation: Operation, env: Env, thread: Thread) -> None:
    """A gather or a scatter: with the indices, just their elements."""
    memory = memories_of(operation)[0]
    view, writes = run.view(env, memory, operation), operation.name.endswith("scatter")
    for block, part in _indexed(run, operation, env, thread, view, memory):
        _started(run, operation, thread, block)
        run.access(operation, part, thread, writes, short(operation), block=block)


def _indexed(
    run: Run, operation: Operation, env: Env, thread: Thread, view: View, memory: Value
) -> list[tuple[int, View]]:
    kind, axis = memory_type(memory.type), operation.attributes.get("axis")
    indices = next(one for one in operation.operands if isinstance(one.type, TensorType))
    tile = env.get(indices)
    if kind is None or not isinstance(axis, int):
        raise Stopped(f"the operands of {operation.name} are not understood")
    crosses = run.blocks > 1 and bool(run.cluster.crossing(operation, 1))
    if not isinstance(tile, Tile):
        if crosses:
            reason = tile.reason if isinstance(tile, Unknown) else "indices that are not computed"
            raise Stopped(f"which blocks {short(operation)} reaches rests on {reason}")
        return [(thread.block, View(view.allocation, view.box, view.axes, False))]
    shape = tile.values.shape
    others = [(a, b) for at, (a, b) in enumerate(zip(shape, kind.shape, strict=False)) if at != axis]
    if len(shape) != len(kind.shape) or any(a > b for a, b in others) or not 0 <= axis < len(shape):
        raise Stopped(f"the operands of {operation.name} are not understood")
    size = kind.shape[axis]
    wrong = tile.values[(tile.values < 0) | (tile.values >= size)]
    if wrong.size:
        message = f"index {wrong[0]} of {view} is out of bounds: axis {axis} has {size} elements"
        run.violate(operation, message, thread, view)
        raise Stopped("the kernel uses an index out of bounds before")
    whole = tuple((0, one) for one in kind.shape)
    several = run.blocks > 1  # or else one block's part is as all have it
    mine = run.cluster.part(indices.type, thread.block) if several else tuple((0, one) for one in shape)
    found: list[tuple[int, View]] = []
    for block in range(run.blocks) if crosses else [thread.block]:
        part = run.cluster.part(memory.type, block) if several else whole
        if mine is None or part is None:
            return [(thread.block, View(view.allocation, view.box, view.axes, False))]
        used = _elements(tile.values, axis, kind.shape, mine)[tuple(slice(*one) for one in part)]
        boxes = [
            [(low + first, high + first) for (low, high), (first, _) in zip(box, part, strict=True)]
            for box in _boxes(used)
        ]
        filled = [run.cluster.filled_out(box, part, kind.shape) for box in boxes]
        found += ((block, one) for one in _views(view, filled))
    return found


def _elements(
    indices: npt.NDArray[np.int64], axis: int, shape: tuple[int, ...], part: Box
) -> npt.NDArray[np.bool_]:
    """Which of a buffer's elements the indices (of this part of their tensor) lead to."""
    chosen = tuple(slice(*one) for one in part)
    at = list(np.broadcast_arrays(*np.ogrid[chosen], indices[chosen]))
    at[axis] = at.pop()
    used = np.zeros(shape, np.bool_)
    used[tuple(at)] = True
    return used


def _boxes(used: npt.NDArray[np.bool_]) -> list[Box]:
    """Boxes that hold just the elements that are true."""
    if not used.any():
        return []
    if not used.ndim:
        return [()]
    changes = (used[1:] != used[:-1]).reshape(len(used) - 1, -1).any(1).nonzero()[0] + 1
    edges = [0, *changes.tolist(), len(used)]
    return [
        ((a, b), *rest)
        for a, b in zip(edges, edges[1:], strict=False)
        for rest in _boxes(used[a : a + 1].reshape(used.shape[1:]))
    ]


def _views(view: View, boxes: list[Box]) -> list[View]:
    if len(boxes) <= _MAX_BOXES:
        return [_within(view, one) for one in boxes]
    sides = [zip(*axis, strict=True) for axis in zip(*boxes, strict=True)]
    return [replace(_within(view, tuple((min(low), max(high)) for low, high in sides)), exact=False)]


def _within(view: View, box: Box) -> View:
    for axis, (low, high) in enumerate(box):
        view = view.part(axis, low, high - low)
    return view


def _started(run: Run, operation: Operation, thread: Thread, block: int) -> None:
    """A block's memory is there once the block has begun, which a wait for it shows."""
    known = thread.met or any(isinstance(one, Thread) and one.block == block for one in thread.clock)
    if block != thread.block and not known:
        run.leave_open(operation, f"nothing shows that block {block} has begun")
