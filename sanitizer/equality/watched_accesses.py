"""Accesses that no proof rests on: outside of memory, by integers without a value, of lanes that meet."""

from __future__ import annotations

import numpy as np

from kerncap.sanitizer.concrete.dataflow import LOADS, STORES, Dataflow
from kerncap.sanitizer.concrete.machine import Machine, Step
from kerncap.sanitizer.concrete.memory import NOWHERE, Memory
from kerncap.sanitizer.concrete.ops_memory import Access, locator, stored_operand
from kerncap.sanitizer.concrete.values import Pointers, Tile, either, shape_of, to_bits, width_bytes
from kerncap.sanitizer.equality.float_memory import FloatMemory
from kerncap.sanitizer.equality.numbers import Array, Bools, Ints, NotModelled
from kerncap.sanitizer.equality.plan_values import spread
from kerncap.sanitizer.equality.program_races import ProgramRaces
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.ttir.any_order import users
from kerncap.sanitizer.ttir.ir import FloatType, Operation, Type

_READS = LOADS | {"tt.atomic_load"}
_IN_ANY_ORDER = frozenset(("add", "fadd", "max", "min", "umax", "umin", "and", "or", "xor"))


class WatchedAccesses:
    """Of one launch. ``exact``: whether floats are exact numbers, so that equal ones are equal words."""

    def __init__(
        self, launch: Launch, memory: Memory, floats: FloatMemory, exact: bool, flow: Dataflow
    ) -> None:
        self._memory, self._floats, self._exact = memory, floats, exact
        self._sizes = np.array([one.size_bytes for one in launch.storages] + [0], dtype=np.int64)
        self._combined: dict[str, Ints] = {}  # by kind of atomics, the places that they changed
        self._races = ProgramRaces(flow)

    def step(self, operation: Operation, inner: Step) -> Step:
        """The access, and NotModelled if it is one of these."""
        name = operation.name
        reads, stores = name in _READS, name in STORES - {"tt.descriptor_reduce"}
        given = () if reads else operation.operands[1:]
        if name in STORES:
            given = (stored_operand(operation),)
        shape = shape_of((*given, *operation.results)[0].type)
        locate, element = locator(operation, shape)
        width = width_bytes(element)
        kind = atomic_kind(operation)
        gives_back = kind is not None and gives_back_what_was_there(operation)
        watched = self._exact and operation in self._races.watched

        def step(m: Machine) -> None:
            access = Access(m, *locate(m), shape)
            tiles = [one for one in (m.env.get(name) for name in given) if isinstance(one, Tile)]
            steered = None if access.steered is None else m.lanes(access.steered, len(shape))
            undefined = either(*(one.undefined for one in tiles))
            if undefined is not None and access.lanes is not None:
                undefined = undefined & access.lanes
            if any(flags is not None and flags.any() for flags in (steered, undefined)):
                raise NotModelled("it takes an integer that has no value")
            self._check_inside(access, element, width)
            if watched:
                self._check_programs(m, access, reads, width)
            if kind is not None:
                self._check_order(m, access, kind, gives_back)
            inner(m)
            if stores and self._exact and tiles and not isinstance(tiles[0], Pointers):
                self._check_kept(access, tiles[0], element)

        return step

    def _check_inside(self, access: Access, element: Type, width: int) -> None:
        """Of integers; that of floats is checked as they are moved."""
        if isinstance(element, FloatType):
            return
        argument, offsets, lanes = _spread(access)
        storage, inside = self._memory.locate(argument, offsets)
        outside = (inside < 0) | (inside + width > self._sizes[storage]) | (np.asarray(storage) == NOWHERE)
        if (outside if lanes is None else outside & lanes).any():
            raise NotModelled("an access outside of memory")

    def _check_programs(self, m: Machine, access: Access, reads: bool, width: int) -> None:
        argument, offsets, lanes = _spread(access, (m.count, *access.shape))
        storages, inside = self._memory.locate(argument, offsets)
        here = np.ones(offsets.shape, np.bool_) if lanes is None else lanes
        programs = np.broadcast_to(m.programs.reshape(-1, *(1,) * len(access.shape)), offsets.shape)
        for one in np.unique(storages):
            size = int(self._sizes[one])
            of_it = here & (np.asarray(storages) == one) & (inside >= 0) & (inside < size)
            places = inside[of_it] // width
            self._races.note(reads, int(one), width, -(-size // width), places, programs[of_it])

    def _check_order(self, m: Machine, access: Access, kind: str, gives_back: bool) -> None:
        """Raise NotModelled if something hangs on the order of lanes, or of atomics of two kinds."""
        argument, offsets, lanes = _spread(access, (m.count, *access.shape))
        places = self._memory.absolute(argument, offsets)
        if gives_back or kind not in _IN_ANY_ORDER:
            for program, of_lanes in enumerate(places):
                met = of_lanes[... if lanes is None else lanes[program]].reshape(-1)
                if len(np.unique(met)) < len(met):
                    raise NotModelled("lanes of one atomic meet in no order")
            return
        changed = np.unique(places if lanes is None else places[lanes])
        for other, there in self._combined.items():
            if other != kind and np.isin(changed, there, assume_unique=True).any():
                raise NotModelled("atomics of two kinds meet in no order")
        self._combined[kind] = np.union1d(self._combined.get(kind, changed), changed)

    def _check_kept(self, access: Access, value: Tile, element: Type) -> None:
        whole = access.spread(value.data)
        argument, offsets, lanes = _spread(access, whole)
        if isinstance(element, FloatType):
            found = self._floats.gather(argument, offsets, lanes, element)
            stored = value.data
        else:
            found = self._memory.gather(argument, offsets, lanes, width_bytes(element)).bits
            stored = to_bits(value.data, element)
        unlike = found != stored
        if (unlike if lanes is None else unlike & lanes).any():
            raise NotModelled("two lanes, or two programs, store different values at one address")


def atomic_kind(operation: Operation) -> str | None:
    """What it does to memory; None: it is no atomic that changes memory."""
    if operation.name == "tt.atomic_cas":
        return "cas"
    name = {"tt.atomic_rmw": "rmw_op", "tt.descriptor_reduce": "kind"}.get(operation.name)
    return None if name is None else str(operation.attributes[name])


def gives_back_what_was_there(operation: Operation) -> bool:
    """Whether something is made of what an atomic gives back."""
    return bool(operation.results) and bool(users(operation))


def _spread(access: Access, whole: tuple[int, ...] | None = None) -> tuple[int | Array, Ints, Bools | None]:
    whole = access.spread() if whole is None else whole
    offsets = np.broadcast_to(access.addresses.offsets, whole)
    lanes = None if access.lanes is None else np.broadcast_to(access.lanes, whole)
    return spread(access.addresses.argument, offsets), offsets, lanes
