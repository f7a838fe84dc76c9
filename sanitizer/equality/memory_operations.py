"""Loads, stores and atomics of floats, over `FloatMemory`, and what the degrees of memory are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from kerncap.sanitizer.concrete.atomics import in_order
from kerncap.sanitizer.concrete.blocks import Addresses
from kerncap.sanitizer.concrete.dataflow import ATOMICS, LOADS, STORES, WRITERS, Dataflow
from kerncap.sanitizer.concrete.machine import Machine, Step, Track
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.ops_memory import Access, locator, stored_operand
from kerncap.sanitizer.concrete.plan import Plan, unknown_operation
from kerncap.sanitizer.concrete.values import (
    BlockPointer,
    Descriptor,
    Incomplete,
    Pointers,
    Tile,
    Unknown,
    Value,
    shape_of,
    where,
    width_bytes,
)
from kerncap.sanitizer.equality.degrees import VARIABLE, Degree, Degrees, degree_of, summed, widest
from kerncap.sanitizer.equality.float_memory import FloatMemory
from kerncap.sanitizer.equality.numbers import Array, Ints, Numbers
from kerncap.sanitizer.equality.plan_values import in_memory, spread, why_unknown
from kerncap.sanitizer.equality.watched_accesses import WatchedAccesses
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.ttir.ir import FloatType, Function, Module, Operation
from kerncap.sanitizer.ttir.ir import Value as Name

# What makes booleans of floats, and so integers that hang on comparisons.
_DECIDING = frozenset(("arith.cmpf", "math.isnan", "math.isinf", "math.isfinite"))
_FILLER = 77  # of integers that a load leaves out, if it is not zero
_ATOMICS = {"add": "add", "fadd": "add", "max": "maxnum", "min": "minnum"}


class MemoryPlan(Plan):
    """``names``: of the launch's storages, for what is drawn; ``filler``: in lanes that a load leaves out.

    ``before``: of the launch that ran before on the same storages; what it left is there.
    """

    def __init__(
        self,
        module: Module,
        function: Function,
        launch: Launch,
        numbers: Numbers,
        names: Sequence[str],
        filler: Array | None = None,
        before: MemoryPlan | None = None,
    ) -> None:
        super().__init__(module, function, launch, Track(undefined=True, left_out=False), None, None)
        self.numbers = numbers
        self.memory: Memory = Memory(launch, None if before is None else before.memory)
        self.floats: FloatMemory = FloatMemory(
            launch, self.memory, numbers, names, None if before is None else before.floats
        )
        flow = Dataflow(module, function, launch)
        self._accesses = WatchedAccesses(launch, self.memory, self.floats, numbers.dtype.kind == "i", flow)
        self.degrees = Degrees(flow)
        # Integers that a launch before left may be made of comparisons, too.
        self._decides: bool = before is not None and before._decides
        self._decides = self._decides or any(one.name in _DECIDING for one in flow.operations)
        stores = [one for one in flow.operations if one.name in WRITERS]
        self._controls_of_stores = [self._controls(one) for one in stores]
        self._decided = Degree()
        self._by_choice: Ints = np.zeros(0, np.int64)  # addresses to which comparisons decided what goes
        shared = [one for one in flow.operations if one.name == "ttg.local_store"]
        self._controls_of_shared = [name for one in shared for name in self._controls(one)]
        self._shared = Degree()  # of all that was stored to shared memory
        self.functions: set[str] = set()  # that were met
        self.stores_places = False  # whether the store that runs has a hash in place of integers
        self.left_out = False  # whether a load left out lanes, of which nothing is said
        if before is not None:
            before._decided_at_end()
            self.degrees.stored, self.degrees.steered = before.degrees.stored, before.degrees.steered
            self._decided, self.functions, self.left_out = before._decided, before.functions, before.left_out
            self._by_choice = before._by_choice
        self._filler = filler

    def hangs_on(self) -> Degree:
        """Of all that is stored; and of what decided that a store did not run."""
        self._decided_at_end()
        return widest([*self.degrees.stored.values(), self._decided])

    def _decided_at_end(self) -> None:
        every = (Degree().after(map(self.degrees.of, one)) for one in self._controls_of_stores)
        self._decided = widest([self._decided, *every])

    def _degree(self, function: str, given: list[Degree]) -> Degree:
        return degree_of(function, given, ordered=not self.numbers.free)

    def _memory_step(self, operation: Operation) -> Step:
        inner = self._moving(operation)
        return inner if operation.name == "tt.atomic_poll" else self._accesses.step(operation, inner)

    def _moving(self, operation: Operation) -> Step:
        element = in_memory(operation)
        if not isinstance(element, FloatType):
            return self._on_integers(operation, super()._step(operation))
        name = operation.name
        if name in LOADS:
            return self._load(operation, element)
        if name in STORES and name != "tt.descriptor_reduce":
            return self._store(operation, element)
        if name in ("tt.atomic_rmw", "tt.descriptor_reduce"):
            return self._atomic(operation, element)
        return unknown_operation(operation, f"{where(operation)}: not modelled, of floats")

    def _shared_step(self, operation: Operation, inner: Step) -> Step:
        """Shared memory, of floats or integers: a load may give anything that was stored, or was not."""
        stores = operation.name == "ttg.local_store"
        if not stores and operation.name != "ttg.local_load":
            return inner  # its degree is that of its operands

        def step(m: Machine) -> None:
            inner(m)
            if stores:
                self._shared = widest([self._shared, summed(map(self.degrees.of, operation.operands))])
                return
            steered = [*operation.operands, *self._controls_of_shared]
            self.degrees.put(operation.results[0], self._shared.after(map(self.degrees.of, steered)))

        return step

    def _on_integers(self, operation: Operation, inner: Step) -> Step:
        pointer = operation.operands[0]
        loads = operation.name in LOADS
        value = None
        if not loads and len(operation.operands) > 1:
            value = stored_operand(operation) if operation.name in STORES else operation.operands[1]
        controls = self._controls(operation)
        combines = operation.name in ATOMICS or operation.name == "tt.descriptor_reduce"
        shape = shape_of((operation.results[0] if value is None else value).type)
        mask = operation.segment("mask") if operation.name == "tt.load" else None
        segments = operation.attributes.get("operand_segments", {})
        other = operation.segment("other") if loads and "other" in segments else None
        locate, _ = locator(operation, shape)

        def step(m: Machine) -> None:
            at = m.env.get(pointer)
            base = at.base if isinstance(at, Descriptor | BlockPointer) else at
            inner(m)
            if not isinstance(base, Pointers):
                return
            arguments = [base.argument] if isinstance(base.argument, int) else np.unique(base.argument)
            storages = [self.memory.storage_of(int(one)) for one in arguments]
            self.floats.integers_at(storages)
            if loads or combines:
                self.floats.check_read(storages)
            else:
                self.floats.hashes_at(storages, width_bytes(in_memory(operation)), self.stores_places)
            steered = [*self._steered(operation), *map(self.degrees.of, controls)]
            stored = [self.degrees.stored.get(self.memory.storage_of(int(one))) for one in arguments]
            before = widest(one for one in stored if one is not None)
            given = [self.degrees.of(one) for one in (value, other) if one is not None]
            degree = widest(given)
            if combines:
                degree = summed([before, degree.times(m.count * math.prod(shape))])
            if not loads:
                self._stores(m, operation, locate(m)[0], shape, degree, steered)
            for result in operation.results:
                self.degrees.put(result, widest([degree, before]).after(steered))
            if mask is not None and other is None:
                lanes_of, found = m.env[mask], m.env[operation.results[0]]
                if isinstance(lanes_of, Tile) and isinstance(found, Tile):
                    filler = None if self._filler is None else np.array(_FILLER, dtype=found.data.dtype)
                    m.env[operation.results[0]] = Tile(self._filled(found.data, lanes_of.data, filler))

        return step

    def _load(self, operation: Operation, element: FloatType) -> Step:
        result = operation.results[0]
        shape = shape_of(result.type)
        locate, _ = locator(operation, shape)
        segments = operation.attributes.get("operand_segments", {})
        other = operation.segment("other") if "other" in segments else None
        pointer = operation.operands[0]

        def step(m: Machine) -> None:
            addresses, mask = locate(m)
            access = Access(m, addresses, mask, shape)
            offsets, lanes, argument = addresses.offsets, access.lanes, addresses.argument
            if lanes is not None and lanes.shape != offsets.shape:
                offsets, lanes = np.broadcast_arrays(offsets, lanes)
            data = self.floats.gather(spread(argument, offsets), offsets, lanes, element)
            if addresses.inside is not None and self._pads_nan(m.env[pointer], operation):
                data = np.where(addresses.inside, data, self.numbers.constant(np.nan))
            stored = self.floats.any_stored(spread(argument, offsets), offsets, lanes, element)
            before = self._stored_degree(argument) if stored else self._untouched(argument)
            if mask is not None and other is not None:
                filler = m.env[other]
                if isinstance(filler, Tile):
                    data = np.where(mask.data, data, filler.data)
                    before = widest([before, self.degrees.of(other)])
                elif not mask.data.all():
                    raise Incomplete(why_unknown(filler, operation))
            elif mask is not None:
                data = self._filled(data, mask.data, self._filler)
            m.env[result] = Tile(data)
            self.degrees.put(result, before.after(self._steered(operation)))

        return step

    def _filled(self, data: Array, mask: Array, filler: Array | None) -> Array:
        self.left_out = self.left_out or not mask.all()
        return data if filler is None else np.where(mask, data, filler)

    @staticmethod
    def _pads_nan(pointer: Value, operation: Operation) -> bool:
        padding = pointer.padding if isinstance(pointer, Descriptor) else operation.attributes.get("padding")
        return padding in ("nan", 2)

    def _stored_degree(self, argument: object) -> Degree:
        stored = self.degrees.stored
        if isinstance(argument, int):
            return widest([VARIABLE, stored.get(self.memory.storage_of(argument), VARIABLE)])
        return widest([VARIABLE, *stored.values()])

    def _untouched(self, argument: object) -> Degree:
        """Of an input, to which stores might have gone."""
        steered = self.degrees.steered
        if isinstance(argument, int):
            return VARIABLE.after([steered.get(self.memory.storage_of(argument), Degree())])
        return VARIABLE.after(steered.values())

    def _stores(
        self,
        m: Machine,
        operation: Operation,
        at: Addresses,
        shape: tuple[int, ...],
        degree: Degree,
        steered: Sequence[Degree],
    ) -> None:
        """``degree``: of what is stored; ``steered``: of what decides whether and where it goes."""
        placed, again = self._placed(m, operation, at, shape, steered)
        stored, of_places = self.degrees.stored, self.degrees.steered
        for one in [at.argument] if isinstance(at.argument, int) else np.unique(np.asarray(at.argument)):
            storage = self.memory.storage_of(int(one))
            before, by_choice = stored.get(storage, Degree()), of_places.get(storage, Degree())
            degrees = (
                [widest([degree, before]).after([placed])] if again else [degree.after([placed]), before]
            )
            stored[storage] = widest(degrees)
            of_places[storage] = placed.after([by_choice]) if again else widest([placed, by_choice])

    def _placed(
        self,
        m: Machine,
        operation: Operation,
        at: Addresses,
        shape: tuple[int, ...],
        steered: Sequence[Degree],
    ) -> tuple[Degree, bool]:
        """Of all that decides what one place gets; and whether comparisons did that before, too."""
        once = Degree().after(steered)
        if not (once.choices or once.signs):
            return once, False
        offsets = np.broadcast_to(at.offsets, (m.count, *shape))
        places, times = np.unique(
            self.memory.absolute(spread(at.argument, offsets), offsets), return_counts=True
        )
        most = int(times.max(initial=1))
        moves = Degree().after(self._steered(operation, "mask"))
        # Of programs that a branch left out it is not known where they would go.
        anywhere = bool(moves.choices or moves.signs)
        if anywhere or most > 1:
            most = max(most, self.launch.program_count * math.prod(shape))
        again = anywhere or bool(np.isin(places, self._by_choice, assume_unique=True).any())
        self._by_choice = np.union1d(self._by_choice, places)
        return once.times(most), again

    def _store(self, operation: Operation, element: FloatType) -> Step:
        name = stored_operand(operation)
        shape = shape_of(name.type)
        locate, _ = locator(operation, shape)
        controls = self._controls(operation)

        def step(m: Machine) -> None:
            addresses, mask = locate(m)
            access = Access(m, addresses, mask, shape)
            value = m.env[name]
            if not isinstance(value, Tile):
                raise Incomplete(why_unknown(value, operation))
            whole = access.spread(value.data)
            lanes = None if access.lanes is None else np.broadcast_to(access.lanes, whole)
            offsets = np.broadcast_to(addresses.offsets, whole)
            words = np.broadcast_to(value.data, whole)
            self.floats.scatter(spread(addresses.argument, offsets), offsets, lanes, words, element)
            steered = [*self._steered(operation), *map(self.degrees.of, controls)]
            self._stores(m, operation, addresses, shape, self.degrees.of(name), steered)

        return step

    def _combined(self, function: str, operands: Array, old: Array, lanes: Ints) -> Array:
        return self.numbers.apply(function, old, operands[lanes])

    def _controls(self, operation: Operation) -> list[Name]:
        """What decides whether a memory operation runs, if floats can."""
        return self.degrees.flow.controls_of(operation) if self._decides else []

    def _steered(self, operation: Operation, *but: str) -> list[Degree]:
        """What decides where a memory operation goes, ``but`` for some operands."""
        segments = operation.attributes.get("operand_segments", {})
        values = {segments.get(one) for one in ("value", "other", *but)}
        if operation.name in STORES and "value" not in segments:
            values.add(len(operation.operands) - 1)
        return [self.degrees.of(one) for at, one in enumerate(operation.operands) if at not in values]

    def _atomic(self, operation: Operation, element: FloatType) -> Step:
        kind = str(operation.attributes.get("rmw_op" if operation.name == "tt.atomic_rmw" else "kind"))
        function = _ATOMICS.get(kind)
        if function is None:
            return unknown_operation(operation, f"{where(operation)}: not modelled, {kind} of floats")
        name = operation.operands[1] if operation.name == "tt.atomic_rmw" else operation.operands[-1]
        shape = shape_of(name.type)
        locate, _ = locator(operation, shape)
        found = Unknown(f"{where(operation)} gives back what depends on the order of programs")
        self.functions.add(function)
        controls = self._controls(operation)

        def step(m: Machine) -> None:
            addresses, mask = locate(m)
            access = Access(m, addresses, mask, shape)
            value = m.env[name]
            if not isinstance(value, Tile):
                raise Incomplete(why_unknown(value, operation))
            whole = (m.count, *shape)
            offsets = np.broadcast_to(addresses.offsets, whole)
            lanes = None if access.lanes is None else np.broadcast_to(access.lanes, whole)
            words = np.broadcast_to(value.data, whole)
            argument = spread(addresses.argument, offsets)
            most = 1  # at one place
            for held, places, here in self.floats.located(argument, offsets, lanes, element):
                most = max(most, int(np.unique(places, return_counts=True)[1].max(initial=1)))
                mine = words.reshape(-1) if here is None else words[here]
                combine = partial(self._combined, function, mine)
                held.write(places, in_order(places, held.read(places), combine)[1])
            added = self.degrees.of(name)
            added = degree_of("sum", [added], terms=most) if function == "add" else added.times(most)
            given = [added, self._stored_degree(addresses.argument)]
            steered = [*self._steered(operation), *map(self.degrees.of, controls)]
            self._stores(m, operation, addresses, shape, self._degree(function, given), steered)
            for result in operation.results:
                m.env[result] = found

        return step
