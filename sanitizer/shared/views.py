"""Memory descriptors (``!ttg.memdesc``) as boxes of the allocation that they are views of."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import prod

from kerncap.sanitizer.ttir.ir import OpaqueType, Operation, Type
from kerncap.sanitizer.ttir.type_text import SCALARS

Box = tuple[tuple[int, int], ...]  # per axis of the allocation: [from, to)
_MEMDESC = re.compile(r"!?(?:ttg\.memdesc)?<((?:\d{1,9}x)+)([\w:!.<>]+?)\s*,(.*)>$", re.DOTALL)
MAX_ELEMENTS = 1 << 24


@dataclass(frozen=True)
class MemoryType:
    shape: tuple[int, ...]
    element_bits: int  # 0: not known
    tensor_memory: bool

    @property
    def size_bytes(self) -> int:
        return prod(self.shape) * self.element_bits // 8

    @property
    def is_barrier(self) -> bool:
        """As every barrier's, among the operands of tensor cores: words of 64 bits."""
        return self.element_bits == 64


def memory_type(type_: Type) -> MemoryType | None:
    """The shape and place behind a memory descriptor's type; None for other types."""
    if not isinstance(type_, OpaqueType) or not type_.text.startswith("!ttg.memdesc<"):
        return None
    found = _MEMDESC.match(type_.text)
    if found is None:
        return None
    shape = tuple(int(size) for size in found[1].rstrip("x").split("x"))
    if prod(shape) > MAX_ELEMENTS or 0 in shape:
        return None
    element = SCALARS.get(found[2])
    bits = getattr(element, "width", 0)
    return MemoryType(shape, bits, "tensor_memory" in found[3])


@dataclass(frozen=True, eq=False)
class Allocation:
    """What one ``local_alloc`` or ``tmem_alloc`` gives; each time the same memory."""

    operation: Operation
    type: MemoryType

    @property
    def name(self) -> str:
        return self.operation.results[0].source_name


@dataclass(frozen=True)
class View:
    """``axes``: which of the allocation's axes each axis of the view is.

    None after a reshape or a new type: the view is still this box, and a part of it may be any part.
    """

    allocation: Allocation
    box: Box
    axes: tuple[int, ...] | None
    exact: bool = True  # the box is no larger than the view

    @classmethod
    def whole(cls, allocation: Allocation) -> View:
        shape = allocation.type.shape
        return cls(allocation, tuple((0, size) for size in shape), tuple(range(len(shape))))

    def part(self, axis: int, start: int, size: int) -> View:
        """``size`` elements of the view's axis, from ``start`` on."""
        if self.axes is None:
            return replace(self, exact=False)
        own = self.axes[axis]
        low = self.box[own][0] + start
        return replace(self, box=(*self.box[:own], (low, low + size), *self.box[own + 1 :]))

    def index(self, number: int) -> View:
        """One element of the first axis, without that axis."""
        taken = self.part(0, number, 1)
        return taken if taken.axes is None else replace(taken, axes=taken.axes[1:])

    def transposed(self, order: tuple[int, ...]) -> View:
        if self.axes is None or len(order) != len(self.axes):
            return self.reshaped()
        return replace(self, axes=tuple(self.axes[axis] for axis in order))

    def reshaped(self) -> View:
        return replace(self, axes=None)

    def __str__(self) -> str:
        """``x[2]``, of a buffer with several slots; else its name."""
        shape = self.allocation.type.shape
        low, high = self.box[0]
        if len(shape) > 1 and high - low == 1 and shape[0] > 1:
            return f"{self.allocation.name}[{low}]"
        return self.allocation.name


def overlap(a: Box, b: Box) -> bool:
    return all(low < high_b and low_b < high for (low, high), (low_b, high_b) in zip(a, b, strict=True))


def inside(a: Box, b: Box) -> bool:
    """Whether ``a`` has nothing outside of ``b``."""
    return all(low_b <= low and high <= high_b for (low, high), (low_b, high_b) in zip(a, b, strict=True))


def outside(box: Box, parts: list[Box]) -> Box | None:
    """A box of what ``parts`` leave of ``box``; None if they cover it."""
    for at, part in enumerate(parts):
        if not overlap(box, part):
            continue
        rest = parts[at + 1 :]
        for axis, ((low, high), (low_part, high_part)) in enumerate(zip(box, part, strict=True)):
            for one in ((low, low_part), (high_part, high)):
                if one[0] < one[1]:
                    found = outside((*box[:axis], one, *box[axis + 1 :]), rest)
                    if found is not None:
                        return found
            box = (*box[:axis], (max(low, low_part), min(high, high_part)), *box[axis + 1 :])
        return None
    return box
