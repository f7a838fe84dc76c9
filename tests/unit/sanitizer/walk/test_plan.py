"""What a walk leaves out for some checks changes nothing of what it keeps."""

from __future__ import annotations

from typing import Any

import pytest
import triton
import triton.language as tl

from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.symbolic.expr import Expr, render
from kerncap.sanitizer.symbolic.solve import Solver
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import MEMORY, Block, Module, Operation, Region
from kerncap.sanitizer.walk import walk
from kerncap.sanitizer.walk.access import Walked
from kerncap.sanitizer.walk.plan import Plan, plan_of
from tests.unit.sanitizer.compiled import launch_of

OOB = frozenset(("oob",))
POINTERS = {"x_ptr": "*fp32", "i_ptr": "*i32", "o_ptr": "*fp32", "n": "i32"}


@triton.jit
def accumulates(x_ptr, i_ptr, o_ptr, n, B: tl.constexpr):
    lanes = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    at = x_ptr + tl.program_id(0) * n + lanes
    for start in range(0, n, B):
        total += tl.exp(tl.load(at, mask=start + lanes < n, other=0.0))
        at += B
    tl.store(o_ptr + tl.program_id(0) * B + lanes, total / tl.sum(total, 0))


@triton.jit
def follows_a_loaded_index(x_ptr, i_ptr, o_ptr, n, B: tl.constexpr):
    lanes = tl.arange(0, B)
    row = 0
    for step in range(n):
        row = tl.load(i_ptr + row + step)
        tl.store(o_ptr + row * B + lanes, tl.load(x_ptr + row * B + lanes) * 2.0)


@triton.jit
def nested(x_ptr, i_ptr, o_ptr, n, B: tl.constexpr):
    lanes = tl.arange(0, B)
    at = x_ptr + lanes
    out = o_ptr + lanes
    for outer in range(n):
        total = tl.zeros((B,), tl.float32)
        for inner in range(outer, n):
            total += tl.sqrt(tl.load(at + inner * B))
            at += B
        if outer % 2 == 0:
            tl.store(out, total)
            step = 2 * B
        else:
            tl.store(out, -total)
            step = B
        out += step


@triton.jit
def until_it_is_small(x_ptr, i_ptr, o_ptr, n, B: tl.constexpr):
    left = n
    total = 0.0
    while left > 3:
        total += tl.load(x_ptr + left)
        tl.store(o_ptr + left, total)
        left = left // 2


@triton.jit
def _clamped(at, n, weight):
    if at >= n:
        return n - 1, weight
    return at, weight * 2.0


@triton.jit
def calls_and_returns_early(x_ptr, i_ptr, o_ptr, n, B: tl.constexpr):
    pid = tl.program_id(0)
    if pid * B >= n:
        return
    at, weight = _clamped(pid * B, n, 0.5)
    tl.store(o_ptr + at, tl.load(x_ptr + at) * weight)
    if tl.load(i_ptr + pid) > 0:
        tl.atomic_add(o_ptr + pid, weight)


@triton.jit
def through_descriptors(x_ptr, i_ptr, o_ptr, n, B: tl.constexpr):
    source = tl.make_tensor_descriptor(x_ptr, [n, B], [B, 1], [8, B])
    target = tl.make_tensor_descriptor(o_ptr, [n, B], [B, 1], [8, B])
    row = tl.program_id(0) * 8
    for _ in range(3):
        target.store([row, 0], tl.exp(source.load([row, 0])))
        row += 8


KERNELS = [
    accumulates, follows_a_loaded_index, nested, until_it_is_small, calls_and_returns_early,
    through_descriptors,
]  # fmt: skip


def launched(kernel: Any) -> tuple[Module, Launch]:
    launch = launch_of(kernel, (4,), POINTERS, {"B": 16}, x_ptr=(4096,), i_ptr=(64,), o_ptr=(4096,), n=40)
    return read_module(launch.ttir), launch


def text(e: Expr) -> list[str]:
    """The expression, whichever of its terms comes first."""
    return sorted(render(e).split())


def described(found: Walked) -> list[tuple[Any, ...]]:
    """Where the accesses go, for whom, and what is not known of it."""
    return [
        (
            one.kind,
            one.operation.order,
            one.width_bytes,
            one.shape,
            [(t.argument, text(t.guard), text(t.offset_bytes)) for t in one.targets],
            text(one.mask),
            text(one.path),
            [(loop.name, loop.counter.low, loop.counter.high, text(loop.induction)) for loop in one.loops],
            one.unknowns,
        )
        for one in found.accesses
    ]


def operations(plan: Plan, region: Region) -> list[Operation]:
    found: list[Operation] = []
    for block in region.blocks:
        for _, operation in plan.steps(block):
            found.append(operation)
            for inner in operation.regions:
                found += operations(plan, inner)
    return found


def _meaning(operation: Operation) -> Any:
    return lambda walker, one: None


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_accesses_are_the_same_whatever_is_asked_beyond_them(kernel: Any) -> None:
    module, launch = launched(kernel)
    everything = walk(module, module.kernel, launch, Solver())
    places = walk(module, module.kernel, launch, Solver(), OOB)
    assert everything.accesses
    assert described(places) == described(everything)
    assert places.promises == ()


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_every_memory_operation_is_in_every_plan(kernel: Any) -> None:
    module, _ = launched(kernel)

    def memory(region: Region) -> set[Operation]:
        blocks: list[Block] = region.blocks
        inside = {one for block in blocks for one in block.operations}
        below = [memory(inner) for one in inside for inner in one.regions]
        return {one for one in inside if one.name in MEMORY}.union(*below)

    for function in module.functions.values():
        assert function.body is not None
        for values in (False, True):
            plan = plan_of(module, module.kernel, _meaning, values, False)
            assert memory(function.body) <= set(operations(plan, function.body))


def test_what_is_only_stored_is_computed_only_where_it_is_asked_for() -> None:
    module, _ = launched(accumulates)
    body = module.kernel.body
    assert body is not None

    def names(values: bool) -> set[str]:
        plan = plan_of(module, module.kernel, _meaning, values, False)
        return {one.name for one in operations(plan, body)}

    assert {"math.exp", "tt.reduce", "arith.divf"} <= names(True)
    assert not {name for name in names(False) if name.startswith("math.") or name.endswith("f")}
    assert "tt.reduce" not in names(False)


def test_a_closing_walk_executes_what_the_carried_values_depend_on() -> None:
    module, _ = launched(accumulates)
    body = module.kernel.body
    assert body is not None
    plan = plan_of(module, module.kernel, _meaning, False, False)
    (loop,) = (one for one in operations(plan, body) if one.name == "scf.for")
    # The pointer matters, the sum does not; only the pointer's step is walked to close it.
    assert len(plan.carried(loop)) == 1
    assert [one.name for one in operations(plan.closing(loop), loop.regions[0])] == ["tt.addptr"]


def test_promises_are_kept_where_they_are_asked_for() -> None:
    module, launch = launched(accumulates)
    found = walk(module, module.kernel, launch, Solver(), frozenset(("promise",)))
    asked_all = walk(module, module.kernel, launch, Solver())
    assert [one.subject for one in found.promises] == [one.subject for one in asked_all.promises]
