"""The symbolic walk itself: one environment, one path, and a table of operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kerncap.sanitizer.launch import DescriptorArgument, Launch, PointerArgument, TensorArgument
from kerncap.sanitizer.shared.operations import known as known_to_shared
from kerncap.sanitizer.symbolic.expr import FALSE, TRUE, Expr, Variable, ite, lor, unknown, var
from kerncap.sanitizer.symbolic.solve import Solver
from kerncap.sanitizer.ttir.ir import (
    MEMORY,
    DescriptorType,
    FloatType,
    Function,
    IntType,
    Location,
    Module,
    OpaqueType,
    Operation,
    PointerType,
    Region,
    TensorType,
    Type,
    Value,
    walk,
)
from kerncap.sanitizer.walk.access import Access, Loop, Promise, Target
from kerncap.sanitizer.walk.plan import TERMINATORS, Plan, Steps
from kerncap.sanitizer.walk.symbols import Symbols
from kerncap.sanitizer.walk.values import BlockPointer, Pointers, SymbolicValue, Tile, lane_expressions

# What one walk may execute: unrolled loops and nested calls multiply the operations of the text.
MAX_OPERATIONS = 60_000

Handler = Callable[["Walker", Operation], None]


class Unsupported(Exception):
    """The walk can't go on: the kernel as a whole stays unproven. The text is the reason."""


@dataclass
class Walker:
    """What is known while the kernel is walked through. One for each walk."""

    module: Module
    function: Function
    launch: Launch
    solver: Solver
    programs: tuple[Variable, Variable, Variable]
    symbols: Symbols
    # Storages that the launch itself may write; None: any. Their contents are those before it only at first.
    written: frozenset[int] | None
    plan: Plan
    origins: dict[Value, frozenset[int | None]]  # arguments that an address may come from
    environment: dict[Value, SymbolicValue] = field(default_factory=dict)
    path: Expr = TRUE
    loops: tuple[Loop, ...] = ()
    counters: tuple[Variable, ...] = ()  # of loops, and what else tells one execution from another
    instance: tuple[int, ...] = ()  # calls and unrolled iterations around this place
    # A loop's body is walked to find its closed form before it is walked for good.
    recording: bool = True
    accesses: list[Access] = field(default_factory=list)
    promises: list[Promise] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    executed: int = 0

    # --- running ---------------------------------------------------------------------------------

    def run(self, steps: Steps) -> None:
        """Execute operations in order."""
        self.executed += len(steps)
        if self.executed > MAX_OPERATIONS:
            raise Unsupported(f"more than {MAX_OPERATIONS:,} operations once its loops are unrolled")
        for handler, operation in steps:
            if handler is None:
                self.unknown_operation(operation)
            else:
                handler(self, operation)

    def body(self, region: Region) -> tuple[Steps, Operation | None]:
        """What to execute of a region of one block, and the operation that ends it."""
        if not region.blocks:
            return (), None
        entry = region.blocks[0]
        last = entry.operations[-1] if entry.operations else None
        return self.plan.steps(entry), last if last is not None and last.name in TERMINATORS else None

    def unknown_operation(self, operation: Operation, why: str = "has no meaning here") -> None:
        """Its results are unconstrained; what depends on them says so.

        Raises Unsupported for one with a body: what is accessed in there would go unseen.
        """
        place = describe(operation.location)
        reason = f"{operation.name}{place} {why}"
        if any(inner.name in MEMORY for region in operation.regions for inner in walk(region)):
            raise Unsupported(reason)
        if not known_to_shared(operation):
            self.note(reason)
        for result in operation.results:
            self.environment[result] = self.fresh(operation, result, reason)

    def note(self, text: str) -> None:
        self.notes[text] = None

    # --- values ----------------------------------------------------------------------------------

    def __getitem__(self, value: Value) -> SymbolicValue:
        return self.environment[value]

    def tile(self, value: Value) -> Tile:
        """An operand that is known to be numbers."""
        found = self.environment[value]
        if isinstance(found, Tile):
            return found
        return Tile(shape_of(value.type), self.opaque_of(found, value), found.undefined)

    def pointers(self, value: Value) -> Pointers:
        found = self.environment[value]
        if isinstance(found, Pointers):
            return found
        if isinstance(found, BlockPointer):
            return found.base
        return Pointers(found.shape, (Target(TRUE, None, found.expr),), found.undefined)

    def opaque_of(self, found: SymbolicValue, value: Value) -> Expr:
        """A pointer where a number is expected: its absolute address."""
        if isinstance(found, Pointers):
            return self.address_of(found)
        raise Unsupported(f"{value.name} is used as a number")

    def address_of(self, pointers: Pointers) -> Expr:
        """The absolute address in bytes."""
        result: Expr | None = None
        for target in pointers.targets:
            address = self.base_address(target.argument) + target.offset_bytes
            result = address if result is None else ite(target.guard, address, result)
        assert result is not None
        return result

    def base_address(self, argument: int | None) -> int:
        """Of an argument's element [0, …, 0]; 0 for absolute offsets."""
        if argument is None:
            return 0
        found = self.launch.arguments[argument]
        if isinstance(found, DescriptorArgument):
            return found.tensor.address
        assert isinstance(found, TensorArgument | PointerArgument)
        return found.address

    def define(self, operation: Operation, *values: SymbolicValue) -> None:
        for result, value in zip(operation.results, values, strict=True):
            self.environment[result] = value

    def context_arguments(self, shape: tuple[int, ...]) -> tuple[Expr, ...]:
        """What a value of this shape may depend on here: programs, iterations, lanes."""
        programs = [var(v) for v in self.programs if v.low != v.high]
        return (*programs, *(var(counter) for counter in self.counters), *lane_expressions(shape))

    def fresh(
        self,
        operation: Operation,
        result: Value,
        reason: str,
        low: int | None = None,
        high: int | None = None,
        undefined: Expr = FALSE,
    ) -> SymbolicValue:
        """A value of ``result``'s type of which only the range is known."""
        position = operation.results.index(result) if result in operation.results else result.index
        key = ("value", operation.order, position, self.instance)
        return self.fresh_of_type(result.type, key, reason, low, high, undefined)

    def fresh_of_type(
        self,
        kind: Type,
        key: tuple[object, ...],
        reason: str,
        low: int | None = None,
        high: int | None = None,
        undefined: Expr = FALSE,
    ) -> SymbolicValue:
        shape, element = shape_of(kind), element_of(kind)
        arguments = self.context_arguments(shape)
        if isinstance(element, IntType):
            if element.width == 1:
                return Tile(shape, unknown(reason, key, arguments, sort="bool"), undefined)
            floor, ceiling = range_of(element.width)
            low = floor if low is None else max(low, floor)
            high = ceiling if high is None else min(high, ceiling)
            return Tile(shape, unknown(reason, key, arguments, low, high), undefined)
        if isinstance(element, PointerType) and isinstance(element.pointee, TensorType):
            return self._fresh_block(element.pointee, key, reason, arguments, undefined, False)
        if isinstance(element, DescriptorType):
            return self._fresh_block(element.block, key, reason, arguments, undefined, True)
        if isinstance(element, PointerType):
            address = unknown(reason, key, arguments, 0, 2**63 - 1)
            return Pointers(shape, (Target(TRUE, None, address),), undefined)
        return Tile(shape, unknown(reason, key, arguments), undefined)  # a float: told apart, never computed

    def _fresh_block(
        self,
        block: TensorType,
        key: tuple[object, ...],
        reason: str,
        arguments: tuple[Expr, ...],
        undefined: Expr,
        descriptor: bool,
    ) -> BlockPointer:
        def number(part: str, axis: int) -> Expr:
            return unknown(reason, (*key, part, axis), arguments, -(2**31), 2**31 - 1)

        axes = range(len(block.shape))
        address = unknown(reason, (*key, "base"), arguments, 0, 2**63 - 1)
        return BlockPointer(
            Pointers((), (Target(TRUE, None, address),), undefined),
            tuple(number("extent", axis) for axis in axes),
            tuple(number("stride", axis) for axis in axes),
            tuple(number("offset", axis) for axis in axes),
            block.shape,
            bytes_of(block.element),
            descriptor=descriptor,
            undefined=undefined,
        )

    def undefined_of(self, *values: SymbolicValue) -> Expr:
        return lor(*(value.undefined for value in values))


def shape_of(kind: Type) -> tuple[int, ...]:
    return kind.shape if isinstance(kind, TensorType) else ()


def element_of(kind: Type) -> Type:
    return kind.element if isinstance(kind, TensorType) else kind


def width_of(kind: Type) -> int:
    """Bits of an integer type, or of a tile of one."""
    element = element_of(kind)
    return element.width if isinstance(element, IntType) else 64


def range_of(bits: int) -> tuple[int, int]:
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def bytes_of(kind: Type) -> int:
    """Bytes that one element takes in memory."""
    element = element_of(kind)
    if isinstance(element, IntType | FloatType):
        return max(1, element.width // 8)
    if isinstance(element, OpaqueType):
        raise Unsupported(f"the size of {element.text} is not known")
    return 8


def describe(location: Location) -> str:
    """`` at kernel.py:12``, or nothing where the place is not known."""
    if not location.frames:
        return ""
    frame = location.frames[0]
    return f" at {frame.file.rsplit('/', 1)[-1]}:{frame.line}"


def with_undefined(value: SymbolicValue, undefined: Expr) -> SymbolicValue:
    return value if undefined is value.undefined else replace(value, undefined=undefined)
