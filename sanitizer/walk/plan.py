"""What a walk has to execute: the operations that an access, a branch or a bound may depend on.

Found backwards from those, once for a text and a kind of question. A value that only ever is stored, and
all that is computed for it alone, steers nothing: for some checks it is left out. A loop has a plan
of its own, of what its carried values depend on, for the walks that look for their closed forms.

What is left out is pure: memory operations, and whatever has no meaning to the walk, are never.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from kerncap.sanitizer.ttir.ir import MEMORY, Block, Function, Module, Operation, Region, Value

TERMINATORS = frozenset(
    ("scf.yield", "scf.condition", "tt.return", "cf.br", "cf.cond_br", "tt.reduce.return", "tt.scan.return")
    + ("ub.unreachable",)
)
_BODIES = frozenset(("scf.for", "scf.if", "scf.while"))  # regions that run as a part of what is around them
_READ_MODIFY_WRITE = "tt.atomic"

# What executes an operation, given the walker; None where the walk knows no meaning for it.
Execute = Callable[[Any, Operation], None]
Meaning = Callable[[Operation], "Execute | None"]
Steps = tuple[tuple["Execute | None", Operation], ...]


class Plan:
    """The values and operations that matter; immutable, shared by all launches of one text."""

    def __init__(self, program: _Program, live: frozenset[Value], executed: frozenset[Operation]) -> None:
        self._program = program
        self._executed = executed
        self._steps: dict[Block, Steps] = {}
        self._closing: dict[Operation, Plan] = {}
        self.live = live
        # Values that something computes with; one that is only stored or yielded steers nothing.
        self.used = program.used
        # Whether what is stored, and what loads and atomics give, is asked for.
        self.values = program.values

    def steps(self, block: Block) -> Steps:
        """What to execute of a block, in order, without its terminator."""
        found = self._steps.get(block)
        if found is None:
            meaning = self._program.meaning
            found = tuple(
                (meaning(one), one)
                for one in block.operations
                if one in self._executed and one.name not in TERMINATORS
            )
            self._steps[block] = found
        return found

    def carried(self, loop: Operation) -> tuple[int, ...]:
        """Which of the values that an ``scf.for`` carries matter, inside or behind it."""
        arguments = loop.regions[0].entry.arguments
        return tuple(index for index, argument in enumerate(arguments[1:]) if argument in self.live)

    def closing(self, loop: Operation) -> Plan:
        """What those values become in one iteration of an ``scf.for``, and nothing else."""
        found = self._closing.get(loop)
        if found is None:
            search = _Search(self._program)
            yields = loop.regions[0].entry.operations[-1].operands
            search.need(*(yields[index] for index in self.carried(loop)))
            found = self._closing[loop] = search.plan()
        return found


@lru_cache(maxsize=128)
def plan_of(module: Module, function: Function, meaning: Meaning, values: bool, promises: bool) -> Plan:
    """The plan of a kernel.

    values: what is stored and what loads and atomics give is asked for, not only where they go.
    promises: promises of the text (``tl.multiple_of``, ``tl.assume``) are asked for.
    """
    program = _Program(module, function, meaning, values)
    search = _Search(program)
    for one in module.functions.values():
        if one.body is not None:
            _add_roots(search, one.body, promises)
    return search.plan()


PROMISES = ("tt.divisibility", "tt.contiguity", "tt.constancy")


def promising(operation: Operation) -> bool:
    """Whether a promise hangs on the operation's result."""
    return any(key in operation.attributes for key in PROMISES)


def _add_roots(search: _Search, region: Region, promises: bool) -> None:
    program = search.program
    for block in region.blocks:
        for operation in block.operations:
            name = operation.name
            if name in MEMORY:
                search.execute(operation)
                search.need(*program.steering(operation))
            elif name == "llvm.intr.assume":
                if promises:
                    search.execute(operation)
                    search.need(*operation.operands)
            elif name not in TERMINATORS and (
                program.meaning(operation) is None
                or (name == "tt.call" and program.callee(operation) is None)
            ):
                search.execute(operation)
            if promises and operation.results and promising(operation):
                search.need(operation.results[0])
            if name in _BODIES:
                for inner in operation.regions:
                    _add_roots(search, inner, promises)


class _Program:
    """What every search in a module needs: who calls whom, and what an operation's parts mean."""

    def __init__(self, module: Module, function: Function, meaning: Meaning, values: bool) -> None:
        self._module = module
        self.meaning = meaning
        self.values = values
        self.callers: dict[Function, list[Operation]] = {}
        for one in module.functions.values():
            if one.body is not None:
                self._find_calls(one.body)
        self.used = frozenset() if function.body is None else frozenset(_used(function.body))

    def _find_calls(self, region: Region) -> None:
        for block in region.blocks:
            for operation in block.operations:
                if operation.name == "tt.call":
                    callee = self.callee(operation)
                    if callee is not None:
                        self.callers.setdefault(callee, []).append(operation)
                for inner in operation.regions:
                    self._find_calls(inner)

    def callee(self, call: Operation) -> Function | None:
        found = self._module.functions.get(str(call.attributes["callee"]).lstrip("@"))
        return None if found is None or found.body is None else found

    def steering(self, operation: Operation) -> tuple[Value, ...]:
        """The operands of a memory operation that are looked at though nobody uses its result."""
        name = operation.name
        if self.values and name not in ("tt.load", "tt.descriptor_load", "tt.descriptor_gather"):
            return operation.operands
        if name in ("tt.load", "tt.store", "ttg.async_copy_global_to_local"):
            parts = (operation.segment("ptr"), operation.segment("mask"))
            return tuple(part for part in parts if part is not None)
        if name.startswith(_READ_MODIFY_WRITE):
            segments = operation.attributes.get("operand_segments", {})
            mask = operation.segment("mask") if "mask" in segments else None
            return operation.operands[:1] if mask is None else (operation.operands[0], mask)
        if name in ("tt.descriptor_store", "tt.descriptor_reduce"):
            return operation.operands[:-1]  # the last is what is stored
        if name == "tt.descriptor_scatter":
            return operation.operands[:3]
        return operation.operands


class _Search:
    """Backwards from what is needed to all that it depends on."""

    def __init__(self, program: _Program) -> None:
        self.program = program
        self._live: set[Value] = set()
        self._executed: set[Operation] = set()
        self._entered: set[Region] = set()
        self._pending: list[Value] = []

    def plan(self) -> Plan:
        while self._pending:
            self._trace(self._pending.pop())
        return Plan(self.program, frozenset(self._live), frozenset(self._executed))

    def need(self, *values: Value) -> None:
        for value in values:
            if value not in self._live:
                self._live.add(value)
                self._pending.append(value)

    def execute(self, operation: Operation) -> None:
        """The operation runs: so does what is around it, and what decides how often."""
        if operation in self._executed:
            return
        self._executed.add(operation)
        name = operation.name
        if name == "scf.if":
            self.need(operation.operands[0])
        elif name == "scf.for":
            self.need(*operation.operands[:3])
        elif name == "scf.while":
            before, after = (region.entry for region in operation.regions)
            self.need(*operation.operands, *before.operations[-1].operands, *after.operations[-1].operands)
            self.need(*before.arguments, *after.arguments)
        elif name == "tt.call":
            callee = self.program.callee(operation)
            if callee is not None and callee.body is not None:
                self._enter(callee.body)
                self.need(*operation.operands, *callee.arguments)
                for block in callee.body.blocks:
                    if block.operations and block.operations[-1].name == "tt.return":
                        self.need(*block.operations[-1].operands)
        if operation.parent is not None and operation.parent.parent is not None:
            self._enter(operation.parent.parent)

    def _enter(self, region: Region) -> None:
        if region in self._entered:
            return
        self._entered.add(region)
        if len(region.blocks) > 1:
            for block in region.blocks:
                for last in block.operations[-1:]:
                    self.need(*last.operands)
                    for _, values in last.successors:
                        self.need(*values)
        owner = region.parent
        if isinstance(owner, Operation):
            self.execute(owner)
        elif owner is not None:
            for call in self.program.callers.get(owner, ()):
                self.execute(call)

    def _trace(self, value: Value) -> None:
        owner = value.owner
        if isinstance(owner, Operation):
            self.execute(owner)
            if owner.name == "scf.for":
                self._carry(owner, value.index)
            elif owner.name == "scf.if":
                for region in owner.regions:
                    if region.blocks and region.entry.operations:
                        self.need(*region.entry.operations[-1].operands[value.index : value.index + 1])
            elif owner.name.startswith(_READ_MODIFY_WRITE):
                self.need(*self.program.steering(owner))
            elif owner.name not in ("scf.while", "tt.call"):
                self.need(*owner.operands)
        elif owner is not None and owner.parent is not None:
            self._enter(owner.parent)
            around = owner.parent.parent
            if isinstance(around, Operation) and around.name == "scf.for" and value.index:
                self._carry(around, value.index - 1)

    def _carry(self, loop: Operation, index: int) -> None:
        body = loop.regions[0].entry
        self.need(loop.operands[3 + index], body.arguments[1 + index], body.operations[-1].operands[index])


def _used(region: Region) -> set[Value]:
    found: set[Value] = set()
    for block in region.blocks:
        for operation in block.operations:
            stored = operation.segment("value") if operation.name == "tt.store" else None
            found.update(operand for operand in operation.operands if operand is not stored)
            for inner in operation.regions:
                found |= _used(inner)
    return found
