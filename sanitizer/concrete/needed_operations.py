"""Which operations matter: only for addresses, for the wrap-around of addresses, for a loop's condition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kerncap.sanitizer.concrete.dataflow import (
    ATOMICS,
    LOADS,
    MEMORY,
    STORES,
    Dataflow,
    alias,
    around,
    controls,
    inside,
    is_descriptor,
    pointer_operand,
)
from kerncap.sanitizer.ttir.ir import DIVISIONS, SHIFTS, Block, Function, Operation, Value, walk

# What comes out of these was meant to lose its upper bits (hashes, random numbers, swizzles): a number
# that wrapped around before is no mistake. The same as in `checks.overflow`.
MODULAR = frozenset(
    f"arith.{name}"
    for name in (
        *("remsi", "remui", "divui", "ceildivui", "andi", "ori", "xori", "shrsi", "shrui"),
        *("extui", "minui", "maxui", "uitofp", "fptosi", "fptoui", "bitcast"),
        *("mulsi_extended", "mului_extended", "addui_extended", "subui_extended"),
    )
) | {"tt.mulhiui"}


_INDEXED = frozenset(("tt.gather", "tt.histogram"))  # by their last operand


@dataclass(frozen=True)
class Slice:
    """``visited``: what must run at all, among them accesses of which only the address is wanted.

    ``wanted``: the values that are evaluated, a kernel's own arguments among them, where that is known.
    """

    evaluated: frozenset[Operation]
    visited: frozenset[Operation]
    wanted: frozenset[Value] = frozenset()


def address_operands(operation: Operation) -> list[Value]:
    """What decides which bytes a memory operation touches."""
    if is_descriptor(operation.name):
        if operation.name in STORES:
            return list(operation.operands[:-1])  # the stored tile, which comes last, says nothing
        return list(operation.operands)
    operands = [pointer_operand(operation)]
    if "operand_segments" in operation.attributes:
        mask = operation.segment("mask")
        if mask is not None:
            operands.append(mask)
    elif operation.name == "tt.store" and len(operation.operands) > 2:
        operands.append(operation.operands[2])
    return operands


def _function_of(operation: Operation) -> Function | None:
    outermost = ([operation] + around(operation))[-1]
    block = outermost.parent
    parent = block.parent.parent if block is not None and block.parent is not None else None
    return parent if isinstance(parent, Function) else None


class _Slicer:
    def __init__(self, flow: Dataflow) -> None:
        self.flow = flow
        self.evaluated: set[Operation] = set()
        self.visited: set[Operation] = set()
        self._wanted: set[Value] = set()
        self._queue: list[Value] = []
        self._reads: set[frozenset[int]] = set()
        self._functions: set[str] = set()

    def want(self, value: Value) -> None:
        if value not in self._wanted:
            self._wanted.add(value)
            self._queue.append(value)

    def wants(self, value: Value) -> bool:
        return value in self._wanted

    def reach(self, operation: Operation) -> None:
        """An operation must run: so must what is around it, and what decides whether it is come to."""
        if operation in self.visited:
            return
        self.visited.add(operation)
        for outer in around(operation):
            self.visited.add(outer)
            for value in controls(outer):
                self.want(value)
        function = _function_of(operation)
        if function is None or function.name in self._functions:
            return
        self._functions.add(function.name)
        if function.body is not None and len(function.body.blocks) > 1:
            for block in function.body.blocks:
                last = block.operations[-1] if block.operations else None
                if last is not None and last.name in ("cf.cond_br", "cf.switch"):
                    self.want(last.operands[0])
        for call in self.flow.calls.get(function.name, ()):
            self.reach(call)

    def evaluate(self, operation: Operation) -> None:
        """An operation's results or effect are wanted, and so is all that it is computed from."""
        if operation in self.evaluated:
            return
        self.evaluated.add(operation)
        self.reach(operation)
        if operation.name.startswith("scf.") or operation.name == "tt.call":
            return  # its results are forwarded one by one
        for value in operation.operands:
            self.want(value)
        for region in operation.regions:
            for inner in walk(region):
                self.evaluate(inner)
        if operation.name in LOADS or operation.name in ATOMICS:
            self._reads.add(self.flow.roots(pointer_operand(operation)))

    def run(self) -> Slice:
        writers = self.flow.writers()
        while True:
            while self._queue:
                self._follow(self._queue.pop())
            before = len(self.evaluated)
            for writer, roots in writers:
                if any(alias(roots, read) for read in self._reads):
                    self.evaluate(writer)
            if len(self.evaluated) == before and not self._queue:
                return Slice(frozenset(self.evaluated), frozenset(self.visited), frozenset(self._wanted))

    def _follow(self, value: Value) -> None:
        owner = value.owner
        for one in self.flow.forwarded(value) or ():
            self.want(one)
        for one in self.flow.steering(value):
            self.want(one)
        if isinstance(owner, Operation):
            self.evaluate(owner)
        elif isinstance(owner, Block) and owner.parent is not None:
            parent = owner.parent.parent
            if isinstance(parent, Operation):
                self.evaluate(parent)


def addresses(flow: Dataflow) -> Slice:
    """What decides the addresses and masks of all memory operations, with the stores that feed it."""
    slicer = _Slicer(flow)
    for operation in flow.operations:
        if operation.name in MEMORY:
            slicer.reach(operation)
            for value in address_operands(operation):
                slicer.want(value)
    return slicer.run()


def steering(flow: Dataflow) -> Slice:
    """What decides where memory is touched and how often anything runs, and is a divisor or an index."""
    slicer = _Slicer(flow)
    for operation in flow.operations:
        if operation.name in MEMORY:
            slicer.reach(operation)
            for value in address_operands(operation):
                slicer.want(value)
        elif operation.name in ("scf.for", "scf.while"):
            slicer.reach(operation)
            for value in controls(operation):
                slicer.want(value)
        elif operation.name in DIVISIONS | SHIFTS | _INDEXED:
            slicer.want(operation.operands[-1])
    return slicer.run()


def decided_by_order(flow: Dataflow, operation: Operation) -> frozenset[Operation]:
    """The atomics of which another order of the programs may change where one operation goes, or whether."""
    return ordering(flow, address_operands(operation), operation)


def ordering(
    flow: Dataflow, values: Iterable[Value], reached: Operation | None = None
) -> frozenset[Operation]:
    """The atomics of which another order of the programs may change these values, or whether one is reached.

    An atomic that gives nothing back leaves the same behind in any order, unless it replaces what is there.
    """
    slicer = _Slicer(flow)
    if reached is not None:
        slicer.reach(reached)
    for value in values:
        slicer.want(value)
    return frozenset(
        one
        for one in slicer.run().evaluated
        if one.name in ATOMICS and (_replaces(one) or any(slicer.wants(result) for result in one.results))
    )


def _replaces(operation: Operation) -> bool:
    if operation.name == "tt.atomic_rmw":
        return str(operation.attributes["rmw_op"]) in ("exch", "xchg")
    return operation.name in ("tt.atomic_cas", "tt.atomic_store")


def needed(flow: Dataflow, reached: Iterable[Operation], values: Iterable[Value]) -> Slice:
    """What decides how often ``reached`` run (they are visited), and what ``values`` are."""
    slicer = _Slicer(flow)
    for operation in reached:
        slicer.reach(operation)
    for value in values:
        slicer.want(value)
    return slicer.run()


def address_arithmetic(flow: Dataflow) -> Slice:
    """The operations whose values become addresses by arithmetic.

    No masks, no conditions, nothing behind a load or behind what takes a number modulo something.
    """
    seen: set[Value] = set()
    found: set[Operation] = set()
    queue: list[Value] = []
    for operation in flow.operations:
        if operation.name in MEMORY:
            operands = address_operands(operation)
            queue.extend(operands if is_descriptor(operation.name) else operands[:1])
    while queue:
        value = queue.pop()
        if value in seen:
            continue
        seen.add(value)
        before = flow.forwarded(value)
        if before is not None:
            queue.extend(before)
            continue
        owner = value.owner
        if isinstance(owner, Block) and owner.parent is not None:
            parent = owner.parent.parent
            if isinstance(parent, Operation) and parent.name == "scf.for":
                queue.extend(parent.operands[:3])  # the loop's own variable
        elif isinstance(owner, Operation) and owner.name not in MEMORY and owner.name not in MODULAR:
            found.add(owner)
            queue.extend(owner.operands[1:] if owner.name == "arith.select" else owner.operands)
            for region in owner.regions:
                found.update(walk(region))
    return Slice(frozenset(found), frozenset(found))


def waits(flow: Dataflow, loop: Operation) -> bool:
    """Whether a loop may go on until another program has written something."""
    written = [roots for _, roots in flow.writers()]
    seen: set[Value] = set()
    queue = controls(loop)
    while queue:
        value = queue.pop()
        if value in seen:
            continue
        seen.add(value)
        queue.extend(flow.steering(value))
        queue.extend(flow.forwarded(value) or ())
        owner = value.owner
        if not isinstance(owner, Operation) or owner.name == "tt.call":
            if isinstance(owner, Operation) and inside(owner, loop) and _callee_reads(flow, owner):
                return True
            continue
        if inside(owner, loop):
            if owner.name in ATOMICS or owner.attributes.get("isVolatile"):
                return True
            if owner.name in LOADS:
                roots = flow.roots(pointer_operand(owner))
                if any(alias(roots, other) for other in written):
                    return True
        if not owner.name.startswith("scf."):
            queue.extend(owner.operands)
    return False


def _callee_reads(flow: Dataflow, call: Operation) -> bool:
    callee = flow.callee(call)
    if callee is None or callee.body is None:
        return False
    return any(one.name in LOADS or one.name in ATOMICS for one in walk(callee.body))
