"""A kernel made ready to run: for each block a list of Python functions, one per operation.

Looking up what an operation means, and which of its values are wanted, is done once here and not at
each execution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kerncap.sanitizer.concrete.machine import BlockPlan, Flow, Machine, Step, Track
from kerncap.sanitizer.concrete.needed_operations import Slice
from kerncap.sanitizer.concrete.values import (
    ABSOLUTE,
    Descriptor,
    Incomplete,
    Pointers,
    Tile,
    Unknown,
    Unsupported,
    Value,
    element_of,
    numpy_type,
    shape_of,
    where,
)
from kerncap.sanitizer.launch import DescriptorArgument, Launch, ScalarArgument
from kerncap.sanitizer.ttir.ir import (
    Block,
    DescriptorType,
    Function,
    IntType,
    Module,
    Operation,
    PointerType,
    TensorType,
)
from kerncap.sanitizer.ttir.ir import Value as Name

BuildStep = Callable[["Plan", Operation], Step]
BuildFlow = Callable[["Plan", Operation], Flow]

STEPS: dict[str, BuildStep] = {}
FLOWS: dict[str, BuildFlow] = {}

TERMINATORS = frozenset(
    (
        *("scf.yield", "scf.condition", "tt.return", "tt.reduce.return", "tt.scan.return"),
        *("tt.map_elementwise.return", "cf.br", "cf.cond_br", "cf.switch", "ub.unreachable"),
        *("func.return", "llvm.unreachable"),
    )
)
# Nothing that an address, a mask or memory depends on.
WITHOUT_EFFECT = frozenset(
    (
        *("tt.print", "tt.assert", "tt.debug_barrier", "llvm.intr.assume", "cf.assert", "gpu.barrier"),
        *("tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents", "ttg.local_barrier"),
        *("nvvm.barrier0", "ttg.barrier", "tt.experimental_tensormap_fenceproxy_acquire"),
    )
)


class Plan:
    """``sliced``: the operations that are wanted, None for all of them."""

    def __init__(
        self,
        module: Module,
        function: Function,
        launch: Launch,
        track: Track,
        sliced: Slice | None,
        overflow: Slice | None,
    ) -> None:
        self.module = module
        self.function = function
        self.launch = launch
        self.track = track
        self.sliced = sliced
        self._overflow = overflow
        self._blocks: dict[Block, BlockPlan] = {}

    # --- what is wanted ------------------------------------------------------------------------------

    def evaluated(self, operation: Operation) -> bool:
        """Whether an operation's results or its effect on memory are wanted."""
        return self.sliced is None or operation in self.sliced.evaluated

    def watches_overflow(self, operation: Operation) -> bool:
        return self.track.overflow and self._overflow is not None and operation in self._overflow.evaluated

    @property
    def tracking(self) -> bool:
        return self.track.undefined or self.track.overflow or self.track.rounding

    def argument(self, name: Name, index: int) -> Value:
        """One of the kernel's arguments, the same for all programs."""
        kind = element_of(name.type)
        given = self.launch.arguments[index]
        if isinstance(kind, PointerType):
            return Pointers(np.zeros(1, dtype=np.int64), index)
        if isinstance(kind, DescriptorType) and isinstance(given, DescriptorArgument):
            return Descriptor(
                Pointers(np.zeros(1, dtype=np.int64), index),
                tuple(Tile(np.array([extent], dtype=np.int64)) for extent in given.shape),
                tuple(Tile(np.array([stride], dtype=np.int64)) for stride in given.strides),
                kind.block.shape,
                kind.block.element,
                given.padding,
            )
        if isinstance(given, ScalarArgument):
            native = numpy_type(kind)
            value = given.value
            if isinstance(kind, IntType) and kind.width > 1:
                bits = int(value) & ((1 << kind.width) - 1)
                return Tile(np.array([bits], dtype=np.uint64).astype(native))
            return Tile(np.array([value]).astype(native))
        raise Incomplete(f"argument {name.source_name} is not described")

    # --- blocks --------------------------------------------------------------------------------------

    def block(self, block: Block) -> BlockPlan:
        found = self._blocks.get(block)
        if found is None:
            found = self._blocks[block] = self._build(block)
        return found

    def _build(self, block: Block) -> BlockPlan:
        steps: list[tuple[bool, Any]] = []
        terminator: Operation | None = None
        elements = 0
        for operation in block.operations:
            if operation.name in TERMINATORS:
                terminator = operation
                break
            if operation.name in WITHOUT_EFFECT:
                continue
            if self.sliced is not None and operation not in self.sliced.visited:
                continue
            elements += _elements(operation)
            if operation.name in FLOWS:
                steps.append((True, FLOWS[operation.name](self, operation)))
            else:
                steps.append((False, self._step(operation)))
        plain = None if any(flow for flow, _ in steps) else tuple(step for _, step in steps)
        return BlockPlan(tuple(steps), plain, terminator, max(1, elements))

    def _step(self, operation: Operation) -> Step:
        build = STEPS.get(operation.name)
        if build is None:
            return unknown_operation(operation, f"{where(operation)} has no semantics here")
        try:
            return build(self, operation)
        except KeyError as missing:
            reason = f"{where(operation)} lacks the attribute {missing}"
            return unknown_operation(operation, reason)
        except Unsupported as reason:
            return unknown_operation(operation, f"{where(operation)}: {reason} has no semantics here")


def unknown_operation(operation: Operation, reason: str) -> Step:
    """Its results are unknown, and so is all memory that it has a pointer to."""
    unknown = Unknown(reason)
    pointers = [v for v in operation.operands if _is_pointer(v.type)]

    def step(m: Machine) -> None:
        m.shared.notes[reason] = None
        for result in operation.results:
            m.env[result] = unknown
        memory = m.shared.memory
        for pointer in pointers:
            value: Value = m.env.get(pointer)
            argument = value.argument if isinstance(value, Pointers) else ABSOLUTE
            if isinstance(argument, int):
                memory.forget_storage(memory.storage_of(argument), reason)
            else:
                memory.forget_storage(ABSOLUTE, reason)

    return step


def _is_pointer(kind: object) -> bool:
    return isinstance(kind.element if isinstance(kind, TensorType) else kind, PointerType)


def _elements(operation: Operation) -> int:
    sizes = []
    for value in (*operation.results, *operation.operands):
        size = 1
        for extent in shape_of(value.type):
            size *= extent
        sizes.append(size)
    largest = max(sizes, default=1)
    if operation.name in ("tt.dot", "tt.dot_scaled"):
        # A multiplication is far cheaper than an element operation: count the depth by a sixteenth.
        depth = shape_of(operation.operands[0].type)[-1]
        return largest * max(1, depth // 16)
    return largest
