"""Promises to the compiler and tensor descriptors of generated kernels, and what either breaks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.fuzz.sanitizer.tile import Undecidable, Value, lift, line_of_kernel

ALIGNMENT_BYTES = 16  # of a descriptor's base and of its rows


@dataclass
class Promise:
    """What one program promised of one value. ``amount`` 0: `tl.assume`."""

    kind: str
    line: int
    program: int
    value: Any
    amount: int


def broken(promises: Sequence[Promise]) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Line, program and lane of everything that does not hold."""
    by_line: dict[tuple[int, str], list[Promise]] = defaultdict(list)
    for one in promises:
        by_line[one.line, one.kind].append(one)
    for (line, kind), group in by_line.items():
        length = _group_of_multiples(group) if kind == "multiple_of" else 0
        for one in group:
            for lane in _broken_lanes(one, length):
                yield line, one.program, lane


def _broken_lanes(one: Promise, group: int) -> Iterator[tuple[int, ...]]:
    value = one.value
    if one.kind == "assume":
        yield from () if value else ((),)
        return
    if not isinstance(value, np.ndarray):
        yield from ((),) if one.kind == "multiple_of" and value % one.amount else ()
        return
    if one.kind == "multiple_of":
        bad = (value % one.amount != 0) & (np.arange(value.size) % group == 0)
    else:
        bad = _breaks(value, one.amount, 1 if one.kind == "max_contiguous" else 0)
    yield from ((int(lane),) for lane in np.flatnonzero(bad))


def _breaks(value: Any, group: int, step: int) -> Any:
    """Lanes whose next one is of the same group and not ``step`` more."""
    inside = (np.arange(value.size - 1) + 1) % min(group, value.size) != 0
    return inside & (np.diff(value) != step)


def _group_of_multiples(promises: list[Promise]) -> int:
    """Only the first of neighbours that count up by one has to be a multiple: the longest such groups."""
    values = [one.value for one in promises]
    if not isinstance(values[0], np.ndarray):
        return 1
    group = int(values[0].size)
    while group > 1 and any(_breaks(value, group, 1).any() for value in values):
        group //= 2
    return group


class Descriptor:
    """``tl.make_tensor_descriptor``: accesses leave out what lies outside of its shape."""

    def __init__(self, machine: Any, base: Value, shape: Any, strides: Any, block: Any) -> None:
        self._machine = machine
        self._base = base
        self._shape = [_number(one) for one in shape]
        self._strides = [_number(one) for one in strides]
        self._block = [_number(one) for one in block]
        self._line = line_of_kernel()

    def load(self, offsets: Any) -> Value:
        loaded: Value = self._machine.load(*self._place(offsets), 0)
        return loaded

    def store(self, offsets: Any, value: Value) -> None:
        pointers, mask = self._place(offsets)
        self._machine.store(pointers, value, mask)

    def _place(self, offsets: Any) -> tuple[Value, Value]:
        machine, argument, element = self._machine, *self._machine.located(self._base)
        itemsize = machine.stores[argument.store].contents.itemsize
        start = (element + argument.origin) * itemsize
        if start % ALIGNMENT_BYTES or self._strides[0] * itemsize % ALIGNMENT_BYTES or min(self._shape) < 0:
            machine.misused.append((self._line, argument.name, machine.number))
        address: Any = self._base.data
        inside: Any = True
        for axis, (offset, extent, stride, length) in enumerate(
            zip(offsets, self._shape, self._strides, self._block, strict=True)
        ):
            index = (_number(offset) + np.arange(length)).reshape(
                [-1 if at == axis else 1 for at in range(len(self._block))]
            )
            address = address + index * stride
            inside = inside & (index >= 0) & (index < extent)
        return Value(address, self._base.kind), Value(np.broadcast_to(inside, address.shape), "i1")


def _number(value: Any) -> int:
    one = lift(value)
    if np.any(one.undefined):
        raise Undecidable("a descriptor with undefined numbers")
    return int(one.data)
