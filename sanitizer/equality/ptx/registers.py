"""What registers hold in the threads that run together, and what operands are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kerncap.sanitizer.equality.degrees import Degree
from kerncap.sanitizer.equality.numbers import Array, Bools, Ints, NotModelled
from kerncap.sanitizer.equality.ptx.code import (
    Address,
    Float,
    Integer,
    Module,
    Negated,
    Operand,
    Register,
    Symbol,
)
from kerncap.sanitizer.equality.ptx.floats import Floats
from kerncap.sanitizer.equality.ptx.launch import PtxLaunch
from kerncap.sanitizer.equality.ptx.memory import GlobalMemory
from kerncap.sanitizer.equality.ptx.values import (
    INTEGER,
    PREDICATE,
    SHARED,
    Value,
    as_integer,
    as_predicate,
    merged,
    uniform,
)


class Registers:
    """``variables``: in shared memory, where each begins and ends; ``special``: %tid.x and the like."""

    def __init__(
        self,
        module: Module,
        launch: PtxLaunch,
        floats: Floats,
        memory: GlobalMemory,
        variables: Mapping[str, tuple[int, int]],
        special: Mapping[str, Array],
        count: int,
    ) -> None:
        self.launch, self.floats, self.memory, self._variables = launch, floats, memory, variables
        self.count = count  # of threads
        self.registers: dict[str, Value] = {}
        self.parameters: dict[tuple[str, int], Value] = {}  # of calls
        self._offsets = module.offsets()
        self._special = special
        self.every: Bools = np.ones(count, dtype=np.bool_)
        self.active = self.every

    @property
    def lanes(self) -> Ints:
        """The active threads, of those that run together."""
        return np.flatnonzero(self.active)

    @property
    def all_active(self) -> bool:
        return self.active is self.every

    def read(self, operand: Operand, active: Bools | None = None) -> Value:
        """What an operand holds in the active threads. Raises NotModelled."""
        if isinstance(operand, Integer):
            return uniform(operand.value)
        if isinstance(operand, Float):
            return self.floats.constant(operand.value, operand.kind)
        if isinstance(operand, Symbol):
            return self._symbol(operand.name)
        if isinstance(operand, Negated):
            value = as_predicate(self.read(operand.register, active))
            return replace(value, data=~value.data, compared=None)
        if not isinstance(operand, Register):
            raise NotModelled("an operand of several parts")
        special = self._special.get(operand.name)
        if special is not None:
            return Value(INTEGER, special.astype(np.uint64))
        found = self.registers.get(operand.name)
        if found is None:
            raise NotModelled(f"{operand.name} is not set")
        if found.defined is not None and not found.defined[self.active if active is None else active].all():
            raise NotModelled(f"{operand.name} is not set in all threads")
        return found

    def settled(self, operand: Operand, active: Bools | None = None) -> Value:
        """An integer that no float decides."""
        value = as_integer(self.read(operand, active))
        if value.degree != Degree():
            raise NotModelled("what it does depends on floats")
        return value

    def _symbol(self, name: str) -> Value:
        if name == "WARP_SZ":
            return uniform(32)
        if name in self._variables:
            number = list(self._variables).index(name)
            return replace(uniform(self._variables[name][0]), base=SHARED - number, literal=False)
        if name.startswith("__local_depot"):
            raise NotModelled("local memory is not modelled")
        address = self.launch.symbols.get(name)
        base = None if address is None else self.memory.storage_at(address)
        if address is None or base is None:
            raise NotModelled(f"the variable {name} was not captured")
        return replace(uniform(address), base=base, literal=False)

    def write(self, operand: Operand, value: Value) -> None:
        if isinstance(operand, Symbol) and operand.name == "_":
            return
        if not isinstance(operand, Register):
            raise NotModelled("a result in several registers")
        whole = self.all_active
        self.registers[operand.name] = (
            value if whole else merged(self.active, value, self.registers.get(operand.name))
        )

    def range_of(self, base: int) -> tuple[int, int]:
        """Where a variable in shared memory begins and ends."""
        return list(self._variables.values())[SHARED - base]

    def parameter(self, name: str) -> int | None:
        return self._offsets.get(name)

    def address(self, operand: Operand) -> tuple[int, Array]:
        """What an address points into, and it, in the active threads."""
        if not isinstance(operand, Address):
            raise NotModelled("an access without an address")
        value = self.read(operand.base)
        if value.kind == PREDICATE or value.base is None:
            raise NotModelled("an address that is not one of an argument's memory")
        if value.degree != Degree():
            raise NotModelled("an address that depends on floats")
        data = np.broadcast_to(value.data, (self.count,))[self.lanes]
        return value.base, data + np.array(operand.offset, dtype=np.int64).view(np.uint64)
