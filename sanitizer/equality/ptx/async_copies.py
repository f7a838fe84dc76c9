"""Copies from global to shared memory that go on while their thread runs (cp.async), until it waits.

What is copied may not change meanwhile, and where it goes to may not be accessed. Source: PTX ISA 9.0, "Data
Movement and Conversion Instructions: Asynchronous copy".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kerncap.sanitizer.equality.numbers import Array, NotModelled
from kerncap.sanitizer.equality.ptx.accesses import address_of
from kerncap.sanitizer.equality.ptx.code import Instruction, Integer
from kerncap.sanitizer.equality.ptx.copies_in_flight import Copy
from kerncap.sanitizer.equality.ptx.machine import Machine
from kerncap.sanitizer.equality.ptx.values import SHARED, Value, of_active

_WORDS = ("ca", "cg", "shared", "shared_cta", "global")


def _copy(m: Machine, one: Instruction) -> None:
    words = one.parts[2:]
    if words == ("commit_group",):
        m.copies.commit(m.active)
        return
    if words == ("wait_all",):
        m.copies.commit(m.active)
        _wait(m, 0)
        return
    if words == ("wait_group",):
        [count] = one.operands
        if not isinstance(count, Integer):
            raise NotModelled("not modelled")
        _wait(m, count.value)
        return
    known = all(word in _WORDS or word.startswith("L2_") and "hint" not in word for word in words)
    if one.parts[:2] != ("cp", "async") or not words or not known or len(one.operands) not in (3, 4):
        raise NotModelled("not modelled")
    _start(m, one)


def _start(m: Machine, one: Instruction) -> None:
    to, place, count = one.operands[:3]
    if not isinstance(count, Integer) or count.value not in (4, 8, 16):
        raise NotModelled("not modelled")
    size, lanes = count.value, m.lanes
    target, into = address_of(m, to, "shared", size)
    taken = np.full(len(lanes), size, dtype=np.uint64)
    if len(one.operands) == 4:
        given = m.settled(one.operands[3])
        taken = np.broadcast_to(of_active(m.active, given).data & np.uint64(0xFFFFFFFF), (len(lanes),))
    source, origin = m.address(place)
    if source <= SHARED or target > SHARED:
        raise NotModelled("an address in another memory")
    width = m.memory.word(source)
    if (origin[taken > 0] % np.uint64(size)).any():
        raise NotModelled("an address that is not a multiple of the access's size")
    if size % width or (taken > size).any() or (taken % width).any():
        raise NotModelled("a part of a number")
    for at in range(0, size, width):
        live = taken > at
        here, there = origin + np.uint64(at), into + np.uint64(at)
        value = _loaded(m, source, here, live, width)
        m.shared.copy_to(m.range_of(target), m.block[lanes], there, width, m.numbers[lanes])
        group = m.copies.group(lanes)
        m.copies.add(Copy(lanes, group, source, here, live, target, there, value, width))


def _loaded(m: Machine, source: int, places: Array, live: Array, width: int) -> Value:
    """Zeros where nothing is copied."""
    threads = m.numbers[m.active]
    if not live.any():
        return m.memory.zeros(source, len(live), width)
    found = m.memory.load(source, places[live], "b32", width, threads[live], constant=True)
    return _filled(found, live)


def _filled(value: Value, live: Array) -> Value:
    if live.all():
        return value
    data = np.zeros(len(live), dtype=value.data.dtype)
    data[live] = value.data
    return replace(value, data=data, parts=tuple(_filled(part, live) for part in value.parts))


def _wait(m: Machine, but: int) -> None:
    """For all groups that were committed, but for the last ones."""
    for one in m.copies.ended(m.active, but):
        threads = m.numbers[one.lanes]
        if one.live.any():  # what was copied is still there
            m.memory.read_again(one.source, one.origin[one.live], one.width, threads[one.live])
        m.shared.copied(m.range_of(one.target), m.block[one.lanes], one.into, one.value, one.width, threads)


COPIES: dict[str, Callable[[Machine, Instruction], None]] = {"cp": _copy}
