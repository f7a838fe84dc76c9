"""Instructions of the threads of a warp together: shuffles, votes, matches and sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kerncap.sanitizer.equality.degrees import Degree
from kerncap.sanitizer.equality.numbers import Array, Bools, NotModelled
from kerncap.sanitizer.equality.ptx import bits
from kerncap.sanitizer.equality.ptx.code import Group, Instruction
from kerncap.sanitizer.equality.ptx.integers import fit, width_of
from kerncap.sanitizer.equality.ptx.machine import Machine
from kerncap.sanitizer.equality.ptx.values import INTEGER, PREDICATE, Value, as_integer, as_predicate

WARP = 32
_PLACES = np.uint64(1) << np.arange(WARP, dtype=np.uint64)


def _shuffle(m: Machine, one: Instruction) -> None:
    if len(one.parts) != 4 or one.parts[1] != "sync" or one.type != "b32":
        raise NotModelled("not modelled")
    target, source, *_ = one.operands
    by, clamp = (m.settled(operand).data.view(np.int64) for operand in one.operands[2:4])
    thread = np.arange(m.count) % m.threads
    lane, number = thread % WARP, by & 31
    segment, most = clamp >> 8 & 31, clamp & 31
    low, high = lane & segment, lane & segment | most & ~segment
    other = {
        "up": lane - number, "down": lane + number, "bfly": lane ^ number, "idx": low | number & ~segment,
    }.get(one.parts[2])  # fmt: skip
    if other is None:
        raise NotModelled("not modelled")
    inside = other >= high if one.parts[2] == "up" else other <= high
    other = np.where(inside, other, lane)
    place = thread - lane + other
    at = np.arange(m.count) - thread + np.minimum(place, m.threads - 1)
    if (place[m.active] >= m.threads).any() or not m.active[at[m.active]].all():
        raise NotModelled("a thread reads one that does not take part")
    targets = target.items if isinstance(target, Group) else (target,)
    m.write(targets[0], _taken(m.read(source), at))
    if len(targets) > 1:
        m.write(targets[1], Value(PREDICATE, inside))


def _taken(value: Value, at: Array) -> Value:
    if value.unknown:
        raise NotModelled(value.unknown)
    data = value.data if value.data.size == 1 else value.data[at]
    parts = tuple(_taken(one, at) for one in value.parts)
    return replace(value, data=data, parts=parts, defined=None, compared=None)


def _by_warp(m: Machine, data: Array) -> tuple[Array, Bools]:
    """A row for each warp, and which of its threads are there."""
    whole = np.broadcast_to(data, (m.count,))
    return m.padded(whole, WARP), m.padded(m.active, WARP)


def _to_threads(m: Machine, of_warp: Array) -> Array:
    return m.unpadded(np.repeat(of_warp[:, None], WARP, axis=1), WARP)


def _of_all(degree: Degree) -> Degree:
    return degree.times(WARP)


def _vote(m: Machine, one: Instruction) -> None:
    if len(one.parts) != 4 or one.parts[1] != "sync":
        raise NotModelled("not modelled")
    given = as_predicate(m.read(one.operands[1]))
    holds, there = _by_warp(m, given.data)
    degree, mode = _of_all(given.degree), one.parts[2]
    if mode == "ballot" and one.type == "b32":
        mask = np.where(holds & there, _PLACES, np.uint64(0)).sum(axis=1, dtype=np.uint64)
        m.write(one.operands[0], Value(INTEGER, _to_threads(m, mask), degree))
        return
    some, every = (holds & there).any(axis=1), (holds | ~there).all(axis=1)
    found = {"any": some, "all": every, "uni": every | ~some}.get(mode)
    if found is None or one.type != "pred":
        raise NotModelled("not modelled")
    m.write(one.operands[0], Value(PREDICATE, _to_threads(m, np.asarray(found)), degree))


def _match(m: Machine, one: Instruction) -> None:
    """Which threads have the same number; of all: those, or none."""
    if len(one.parts) != 4 or one.parts[2] != "sync" or one.type not in ("b32", "b64"):
        raise NotModelled("not modelled")
    given = as_integer(m.read(one.operands[1]))
    numbers, there = _by_warp(m, fit(given.data, width_of(one.type)))
    same = (numbers[:, :, None] == numbers[:, None, :]) & there[:, None, :]
    degree = _of_all(given.degree)
    if one.parts[1] == "any":
        mask = np.where(same, _PLACES, np.uint64(0)).sum(axis=2, dtype=np.uint64)
        m.write(one.operands[0], Value(INTEGER, m.unpadded(mask, WARP), degree))
        return
    if one.parts[1] != "all":
        raise NotModelled("not modelled")
    alike = (same | ~there[:, None, :] | ~there[:, :, None]).all(axis=(1, 2))
    members = np.where(there, _PLACES, np.uint64(0)).sum(axis=1, dtype=np.uint64)
    mask = _to_threads(m, np.where(alike, members, np.uint64(0)))
    target = one.operands[0]
    targets = target.items if isinstance(target, Group) else (target,)
    m.write(targets[0], Value(INTEGER, mask, degree))
    for predicate in targets[1:]:
        m.write(predicate, Value(PREDICATE, _to_threads(m, alike), degree))


def _reduce(m: Machine, one: Instruction) -> None:
    if len(one.parts) != 4 or one.parts[1] != "sync":
        raise NotModelled("not modelled")
    given = as_integer(m.read(one.operands[1]))
    numbers, there = _by_warp(m, given.data)
    found = bits.reduced(one.parts[2], one.type, numbers, 1, there)
    m.write(one.operands[0], Value(INTEGER, _to_threads(m, found), _of_all(given.degree)))


def _active(m: Machine, one: Instruction) -> None:
    """Where a warp has parted, a device may say something else each time."""
    _, there = _by_warp(m, m.active)
    alive = m.padded(m.alive, WARP)
    if (there.any(axis=1) & (there != alive).any(axis=1)).any():
        raise NotModelled("threads of a warp that has parted")
    mask = np.where(there, _PLACES, np.uint64(0)).sum(axis=1, dtype=np.uint64)
    m.write(one.operands[0], Value(INTEGER, _to_threads(m, mask)))


OF_WARPS: dict[str, Callable[[Machine, Instruction], None]] = {
    "shfl": _shuffle, "vote": _vote, "match": _match, "redux": _reduce, "activemask": _active,
}  # fmt: skip
