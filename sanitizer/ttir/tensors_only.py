"""TTGIR for evaluation: what places values and what orders accesses is left out.

Memory that is written where it is allocated is the tensor that it holds. Other shared memory keeps
``ttg.local_alloc``, ``ttg.local_load``, ``ttg.local_store`` (value, view, and maybe a predicate),
``ttg.memdesc_index``, ``ttg.memdesc_subslice`` and ``ttg.memdesc_trans``; copies into it are loads and stores
that are over at once. Whether waits and barriers order them is another question, that of `sanitizer.shared`.
Source: Triton's TritonGPUOps.td and TritonNvidiaGPUOps.td.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from kerncap.sanitizer.ttir.ir import Module, OpaqueType, Operation, PointerType, Region, TensorType, Value
from kerncap.sanitizer.ttir.reader import read_module
from kerncap.sanitizer.ttir.type_text import SCALARS

_MEMORY = re.compile(r"!ttg\.memdesc<((?:\d{1,9}x)+)([\w!.:<>]+?), [^>]*?(, mutable)?(?:, [\dx]+)?>$")
VIEWS = ("ttg.memdesc_index", "ttg.memdesc_subslice", "ttg.memdesc_trans")
SHARED = frozenset(("ttg.local_alloc", "ttg.local_load", "ttg.local_store", *VIEWS))
_SAME = {"tt.approx_divf": "arith.divf"}  # but for rounding
_ASYNCHRONOUS = re.compile(r"\bttg\.async_|\bttng\.")
_ORDERING = frozenset(
    (
        *("ttg.local_dealloc", "ttg.async_commit_group", "ttg.async_wait", "ttng.fence_async_shared"),
        *("ttng.init_barrier", "ttng.inval_barrier", "ttng.barrier_expect", "ttng.wait_barrier"),
        *("ttng.arrive_barrier", "ttng.async_tma_store_wait"),
    )
)


@lru_cache(maxsize=64)
def tensors_only(text: str) -> Module:
    """The module of a text; what is not known here is left as it is. Raises TtirError."""
    module = read_module(text)
    if "ttg.num-warps" not in module.attributes:
        return module
    module = read_module.__wrapped__(text)  # not the one that others share
    for function in module.functions.values():
        if function.body is not None:
            _Rewriting().region(function.body)
    return module


def is_asynchronous(text: str) -> bool:
    """Whether it has copies or products that go on while the program does."""
    return _ASYNCHRONOUS.search(text) is not None


def left(module: Module) -> list[str]:
    """Operations of a GPU's that have no meaning here."""
    return [
        one.name
        for one in module.operations()
        if one.name.startswith(("ttg.", "ttng.", "nvg.", "nvws.", "amdg."))
        and one.name not in SHARED
        and one.name not in ("ttg.convert_layout", "ttg.barrier", "ttg.local_barrier")
    ]


class _Rewriting:
    def __init__(self) -> None:
        self._memory: set[Value] = set()  # that may be stored to again
        self._given: dict[Value, Value] = {}  # results that are one of their operation's operands
        self._made: dict[str, Callable[[Operation], list[Operation]]] = {
            "ttg.local_alloc": self._allocation,
            "ttg.local_load": self._load,
            "ttg.memdesc_trans": self._moved("tt.trans"),
            "ttg.memdesc_reshape": self._moved("tt.reshape"),
            "ttg.async_copy_global_to_local": self._copy,
            "ttng.async_tma_copy_global_to_local": self._fetch,
            "ttng.async_tma_copy_local_to_global": self._send,
            "ttng.warp_group_dot": self._product,
            "ttng.warp_group_dot_wait": self._wait,
        }

    def region(self, region: Region) -> None:
        for block in region.blocks:
            for argument in block.arguments:
                self._typed(argument)
            operations: list[Operation] = []
            for one in block.operations:
                one.operands = tuple(self._given.get(value, value) for value in one.operands)
                one.successors = tuple(
                    (to, tuple(self._given.get(value, value) for value in values))
                    for to, values in one.successors
                )
                for inner in one.regions:
                    self.region(inner)
                one.name = _SAME.get(one.name, one.name)
                if one.name in _ORDERING:
                    continue
                made = self._made.get(one.name)
                operations += [one] if made is None else made(one)
                for each in operations[-3:]:
                    each.parent = block
                for result in one.results:
                    self._typed(result)
            block.operations = operations

    def _typed(self, value: Value) -> None:
        """Memory has the shape of what it holds."""
        made = _tensor(value)
        if made is not None:
            value.type = made[0]
            self._memory.add(value)

    def _allocation(self, operation: Operation) -> list[Operation]:
        made = _tensor(operation.results[0])
        if not operation.operands or made is None:
            return [operation]
        type_, mutable = made
        if not mutable:
            operation.name, operation.results[0].type = "ttg.convert_layout", type_
            return [operation]
        stored = _after(operation, "ttg.local_store", (operation.operands[0], operation.results[0]))
        operation.operands = ()
        return [operation, stored]

    def _load(self, operation: Operation) -> list[Operation]:
        operation.operands = operation.operands[:1]  # a token may follow
        if operation.operands[0] not in self._memory:
            operation.name = "ttg.convert_layout"
        return [operation]

    def _moved(self, name: str) -> Callable[[Operation], list[Operation]]:
        def make(operation: Operation) -> list[Operation]:
            made = _tensor(operation.results[0])
            if operation.operands[0] not in self._memory and made is not None:
                operation.name, operation.results[0].type = name, made[0]
            return [operation]

        return make

    def _read(self, operation: Operation, view: Value) -> tuple[list[Operation], Value]:
        if view not in self._memory:
            return [], view
        value = Value(view.name, view.type, view.location)
        return [_after(operation, "ttg.local_load", (view,), (value,))], value

    def _copy(self, operation: Operation) -> list[Operation]:
        pointer, view = operation.segment("ptr"), operation.segment("memory")
        kind = pointer.type if pointer is not None else None
        if view is None or not isinstance(kind, TensorType) or not isinstance(kind.element, PointerType):
            return [operation]
        value = Value("%copied", TensorType(kind.shape, kind.element.pointee), operation.location)
        given = {name: operation.segment(name) for name in ("ptr", "mask", "other")}
        operands = tuple(one for one in given.values() if one is not None)
        places = {name: operands.index(one) for name, one in given.items() if one is not None}
        loaded = _after(operation, "tt.load", operands, (value,), {"operand_segments": places})
        return [loaded, _after(operation, "ttg.local_store", (value, view))]

    def _fetch(self, operation: Operation) -> list[Operation]:
        desc, *rest = operation.operands
        at = next((number for number, one in enumerate(rest) if one in self._memory), None)
        if at is None or len(rest) != at + 3 or {"multicast", "offsets"} & operation.attributes.keys():
            return [operation]
        view, predicate = rest[at], rest[-1]
        value = Value("%fetched", view.type, operation.location)
        loaded = _after(operation, "tt.descriptor_load", (desc, *rest[:at]), (value,))
        return [loaded, _after(operation, "ttg.local_store", (value, view, predicate))]

    def _send(self, operation: Operation) -> list[Operation]:
        *others, view = operation.operands
        loads, value = self._read(operation, view)
        return [*loads, _after(operation, "tt.descriptor_store", (*others, value))]

    def _product(self, operation: Operation) -> list[Operation]:
        if len(operation.operands) != 3:
            return [operation]
        before, operands = [], []
        for one in operation.operands:
            loads, value = self._read(operation, one)
            before += loads
            operands.append(value)
        operation.name, operation.operands = "tt.dot", tuple(operands)
        operation.attributes["inputPrecision"] = "ieee"
        return [*before, operation]

    def _wait(self, operation: Operation) -> list[Operation]:
        self._given.update(zip(operation.results, operation.operands, strict=True))
        return []


def _tensor(value: Value) -> tuple[TensorType, bool] | None:
    """What a memory descriptor's memory holds, and whether that may be stored to again."""
    found = _MEMORY.match(value.type.text) if isinstance(value.type, OpaqueType) else None
    if found is None or found[2] not in SCALARS:
        return None
    return TensorType(tuple(map(int, found[1].rstrip("x").split("x"))), SCALARS[found[2]]), bool(found[3])


def _after(
    operation: Operation,
    name: str,
    operands: tuple[Value, ...],
    results: tuple[Value, ...] = (),
    attributes: dict[str, object] | None = None,
) -> Operation:
    made = Operation(
        name, operands, results, attributes or {}, location=operation.location, order=operation.order
    )
    for index, result in enumerate(results):
        result.owner, result.index = made, index
    return made
