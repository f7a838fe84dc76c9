"""Where a kernel's values come from, through loops, branches and calls, and which memory they point into."""

from __future__ import annotations

from collections.abc import Iterator

from kerncap.sanitizer.launch import DescriptorArgument, Launch, TensorArgument
from kerncap.sanitizer.ttir.ir import (
    Block,
    DescriptorType,
    Function,
    Module,
    Operation,
    PointerType,
    Region,
    TensorType,
    Type,
    Value,
    walk,
)

ANYWHERE = -1  # in a set of storages: a pointer that may lead into any of them

ATOMICS = frozenset(("tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_load", "tt.atomic_store", "tt.atomic_poll"))
LOADS = frozenset(
    (
        *("tt.load", "tt.descriptor_load", "tt.descriptor_gather", "ttg.async_copy_global_to_local"),
        *("tt.experimental_descriptor_load", "tt.experimental_descriptor_gather"),
    )
)
STORES = frozenset(
    (
        *("tt.store", "tt.descriptor_store", "tt.descriptor_scatter", "tt.descriptor_reduce"),
        *("tt.experimental_descriptor_store", "tt.experimental_descriptor_scatter"),
    )
)
MEMORY = ATOMICS | LOADS | STORES
WRITERS = STORES | ATOMICS - {"tt.atomic_load", "tt.atomic_poll"}

_BRANCHES = ("cf.cond_br", "cf.switch")
# What takes pointers and leaves memory alone; anything else with a pointer may write through it.
HARMLESS = frozenset(
    (
        *("tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.view", "tt.trans"),
        *("tt.bitcast", "tt.ptr_to_int", "tt.int_to_ptr", "tt.unsplat", "tt.join", "tt.split", "tt.cat"),
        *("tt.gather", "tt.make_tensor_descriptor", "tt.make_tensor_ptr", "tt.advance", "tt.call"),
        *("arith.select", "tt.return", "tt.print"),
    )
)


def is_descriptor(name: str) -> bool:
    return "descriptor_" in name


def pointer_operand(operation: Operation) -> Value:
    """The pointer or the descriptor of a memory operation."""
    return operation.operands[0]


def points(kind: Type) -> bool:
    """Whether values of a type lead into memory."""
    element = kind.element if isinstance(kind, TensorType) else kind
    return isinstance(element, PointerType | DescriptorType)


def terminators(region: Region, *names: str) -> Iterator[Operation]:
    """The last operations of the region's blocks, those of these names."""
    for block in region.blocks:
        if block.operations and block.operations[-1].name in names:
            yield block.operations[-1]


class Dataflow:
    """``kernel`` is what the launch's arguments are bound to."""

    def __init__(self, module: Module, kernel: Function, launch: Launch) -> None:
        self.module = module
        self.kernel = kernel
        self.launch = launch
        self._entering: dict[Block, list[tuple[Operation, tuple[Value, ...]]]] = {}
        self.calls: dict[str, list[Operation]] = {}
        self.operations: list[Operation] = []
        for function in self._reachable():
            assert function.body is not None
            for operation in walk(function.body):
                self.operations.append(operation)
                for block, values in operation.successors:
                    self._entering.setdefault(block, []).append((operation, values))
                if operation.name == "tt.call":
                    self.calls.setdefault(str(operation.attributes["callee"]), []).append(operation)
        self._roots: dict[Value, frozenset[int]] = {}

    def _reachable(self) -> list[Function]:
        found, queue = [self.kernel], [self.kernel]
        while queue:
            body = queue.pop().body
            for operation in walk(body) if body is not None else ():
                if operation.name == "tt.call":
                    callee = self.module.functions.get(str(operation.attributes["callee"]))
                    if callee is not None and callee.body is not None and callee not in found:
                        found.append(callee)
                        queue.append(callee)
        return found

    def callee(self, call: Operation) -> Function | None:
        return self.module.functions.get(str(call.attributes["callee"]))

    # --- one step back -------------------------------------------------------------------------------

    def forwarded(self, value: Value) -> list[Value] | None:
        """The values one of which this one equals; None: an operation computes it, or the launch gives it."""
        owner = value.owner
        if isinstance(owner, Block):
            return self._argument(owner, value.index)
        if owner is None:
            return None
        if owner.name == "scf.if":
            return [y.operands[value.index] for r in owner.regions for y in terminators(r, "scf.yield")]
        if owner.name == "scf.for":
            yields = [y.operands[value.index] for y in terminators(owner.regions[0], "scf.yield")]
            return [owner.operands[3 + value.index], *yields]
        if owner.name == "scf.while":
            return [c.operands[1 + value.index] for c in terminators(owner.regions[0], "scf.condition")]
        if owner.name == "tt.call":
            callee = self.callee(owner)
            if callee is None or callee.body is None:
                return None
            return [r.operands[value.index] for r in terminators(callee.body, "tt.return")]
        if owner.name in ("scf.execute_region", "ttg.warp_specialize"):
            names = ("scf.yield", "ttg.warp_yield")
            return [y.operands[value.index] for y in terminators(owner.regions[0], *names)]
        return None

    def _argument(self, block: Block, index: int) -> list[Value] | None:
        region = block.parent
        assert region is not None
        if region.blocks[0] is not block:
            return [values[index] for _, values in self._entering.get(block, ())]
        parent = region.parent
        if isinstance(parent, Function):
            if parent is self.kernel:
                return None
            return [call.operands[index] for call in self.calls.get(parent.name, ())]
        if parent is None:
            return None
        if parent.name == "scf.for":
            if index == 0:
                return None
            yields = [y.operands[index - 1] for y in terminators(region, "scf.yield")]
            return [parent.operands[2 + index], *yields]
        if parent.name == "scf.while":
            if region is parent.regions[0]:
                yields = [y.operands[index] for y in terminators(parent.regions[1], "scf.yield")]
                return [parent.operands[index], *yields]
            return [c.operands[1 + index] for c in terminators(parent.regions[0], "scf.condition")]
        if parent.name == "ttg.warp_specialize":
            return [parent.operands[index]]
        return None

    def steering(self, value: Value) -> list[Value]:
        """The conditions and bounds that decide which of the forwarded values it is."""
        owner = value.owner
        if isinstance(owner, Operation):
            return controls(owner)
        if isinstance(owner, Block) and owner.parent is not None:
            parent = owner.parent.parent
            if owner.parent.blocks[0] is not owner:
                return [
                    branch.operands[0]
                    for branch, _ in self._entering.get(owner, ())
                    if branch.name in _BRANCHES
                ]
            if isinstance(parent, Operation) and parent.name.startswith("scf."):
                return controls(parent)
        return []

    def controls_of(self, operation: Operation) -> list[Value]:
        """The conditions and bounds that decide whether and how often an operation runs."""
        found: dict[Value, None] = {}
        seen: set[Operation] = set()
        queue = [operation]
        while queue:
            block = queue.pop().parent
            while block is not None and block.parent is not None:
                region = block.parent
                if len(region.blocks) > 1:
                    branches = (one.operations[-1] for one in region.blocks if one.operations)
                    found.update((one.operands[0], None) for one in branches if one.name in _BRANCHES)
                outer = region.parent
                if isinstance(outer, Operation):
                    found.update((one, None) for one in controls(outer))
                    block = outer.parent
                    continue
                calls = self.calls.get(outer.name, []) if isinstance(outer, Function) else []
                queue += [one for one in calls if one not in seen]
                seen.update(calls)
                break
        return list(found)

    # --- memory --------------------------------------------------------------------------------------

    def roots(self, pointer: Value) -> frozenset[int]:
        """The storages that a pointer or a descriptor may lead into; with ANYWHERE, any."""
        found = self._roots.get(pointer)
        if found is None:
            found = self._roots[pointer] = frozenset(self._find_roots(pointer))
        return found

    def _find_roots(self, pointer: Value) -> set[int]:
        storages: set[int] = set()
        seen = {pointer}
        queue = [pointer]
        while queue:
            value = queue.pop()
            before = self.forwarded(value)
            if before is None:
                owner = value.owner
                if isinstance(owner, Operation) and owner.name not in MEMORY:
                    before = [v for v in owner.operands if points(v.type)]
                if not before:
                    storages.add(self._bound(value))
                    continue
            for one in before:
                if one not in seen:
                    seen.add(one)
                    queue.append(one)
        return storages

    def _bound(self, value: Value) -> int:
        if value in self.kernel.arguments:
            argument = self.launch.arguments[self.kernel.arguments.index(value)]
            if isinstance(argument, TensorArgument):
                return argument.storage
            if isinstance(argument, DescriptorArgument):
                return argument.tensor.storage
        return ANYWHERE

    def writers(self) -> list[tuple[Operation, frozenset[int]]]:
        """What may write to memory, and to which storages."""
        found = []
        for operation in self.operations:
            name = operation.name
            if name in WRITERS:
                found.append((operation, self.roots(pointer_operand(operation))))
            elif name not in MEMORY and name not in HARMLESS and not name.startswith(("scf.", "cf.")):
                roots = [self.roots(value) for value in operation.operands if points(value.type)]
                if roots:
                    found.append((operation, frozenset().union(*roots)))
        return found


def controls(operation: Operation) -> list[Value]:
    """The values that decide what an operation with regions runs, and how often."""
    if operation.name == "scf.if":
        return [operation.operands[0]]
    if operation.name == "scf.for":
        return list(operation.operands[:3])
    if operation.name == "scf.while":
        return [c.operands[0] for c in terminators(operation.regions[0], "scf.condition")]
    return []


def alias(left: frozenset[int], right: frozenset[int]) -> bool:
    return ANYWHERE in left or ANYWHERE in right or not left.isdisjoint(right)


def around(operation: Operation) -> list[Operation]:
    """The operations in whose regions an operation is, innermost first."""
    found = []
    block = operation.parent
    while block is not None and block.parent is not None:
        parent = block.parent.parent
        if not isinstance(parent, Operation):
            break
        found.append(parent)
        block = parent.parent
    return found


def inside(operation: Operation, outer: Operation) -> bool:
    """Whether an operation is in one of the other's regions, at any depth."""
    return outer in around(operation)
