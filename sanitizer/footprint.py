"""The bytes that a strided view covers, as base + Σ i_d · stride_d: a few numbers, however large it is.

Axes are merged if they continue each other (a contiguous tensor becomes one run of bytes; the windows
of an unfold become what they cover), broadcast and single axes fall out, negative strides are turned
around. What is left is a mixed radix: sorted by stride, each axis steps over everything below it, so the
digits of a byte's offset say whether it belongs to the view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kerncap.sanitizer.symbolic.expr import FALSE, Expr

Remainder = Callable[[Expr, int], Expr]


@dataclass(frozen=True)
class Axis:
    """``count`` steps of ``stride_bytes``, both positive."""

    count: int
    stride_bytes: int

    @property
    def reach(self) -> int:
        return (self.count - 1) * self.stride_bytes


@dataclass(frozen=True)
class Footprint:
    """Bytes [first, first + size) at most, from element [0, …, 0]; inside that, only runs of ``run`` bytes.

    ``axes`` say where the runs begin, by ascending stride. ``tangled``: why membership inside the
    range can't be told by digits; None if it can.
    """

    first: int
    size: int
    run: int
    axes: tuple[Axis, ...] = ()
    tangled: str | None = None

    @property
    def end(self) -> int:
        return self.first + self.size

    @property
    def has_gaps(self) -> bool:
        """Whether some byte of the range is not the view's."""
        return bool(self.axes)

    def in_gap(self, offset: Expr, width: int, remainder: Remainder | None = None) -> Expr:
        """Where ``width`` bytes at ``offset`` touch a byte between the runs, if they are in the range.

        ``remainder(e, n)`` is e modulo n: a caller who knows more of ``e`` may give a simpler expression.
        """
        modulo = remainder or (lambda e, n: e % n)
        rest = offset - self.first
        leaves: Expr = FALSE
        for stride, below in self.levels:
            rest = modulo(rest, stride)
            leaves = leaves | (rest + width > below)
        return leaves

    @property
    def levels(self) -> list[tuple[int, int]]:
        """``(stride, bytes that the axes below reach over)`` of each axis, the outermost first."""
        reaches = [self.run]
        for axis in self.axes:
            reaches.append(reaches[-1] + axis.reach)
        return [(axis.stride_bytes, below) for axis, below in zip(self.axes, reaches, strict=False)][::-1]

    def contains(self, offset: int, width: int) -> bool:
        """The same for numbers. Raises ValueError where the view is tangled."""
        if offset < self.first or offset + width > self.end:
            return False
        if self.tangled is not None:
            raise ValueError(self.tangled)
        rest = offset - self.first
        for stride, below in self.levels:
            rest %= stride
            if rest + width > below:
                return False
        return True


def footprint(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> Footprint:
    """Of a tensor of ``shape`` with ``strides`` in elements of ``itemsize`` bytes."""
    if 0 in shape:
        return Footprint(0, 0, 0)
    steps = [(n, s * itemsize) for n, s in zip(shape, strides, strict=True) if n > 1 and s]
    first = sum((n - 1) * s for n, s in steps if s < 0)
    axes = [Axis(itemsize, 1)]
    for count, stride in sorted(((n, abs(s)) for n, s in steps), key=lambda step: step[1]):
        top = axes[-1]
        if stride % top.stride_bytes == 0 and stride <= top.count * top.stride_bytes:
            # It goes on where the axis below ends, or overlaps it: together one longer axis.
            longer = (count - 1) * (stride // top.stride_bytes) + top.count
            axes[-1] = Axis(longer, top.stride_bytes)
        else:
            axes.append(Axis(count, stride))
    run, outer = axes[0].count, tuple(axes[1:])
    size, tangled = run, None
    for axis in outer:
        if axis.stride_bytes < size:
            tangled = f"strides {tuple(strides)} of shape {tuple(shape)} overlap"
        size += axis.reach
    return Footprint(first, size, run, outer, tangled)
