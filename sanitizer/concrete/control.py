"""Branches, loops and calls of programs in lockstep: who goes where is a mask over programs.

Everything here is a generator: it yields where the programs spin until others get on (see `run`).
"""

from __future__ import annotations

from collections.abc import Generator
from copy import copy

import numpy as np

from kerncap.sanitizer.concrete.dataflow import MEMORY
from kerncap.sanitizer.concrete.machine import Flow, LoopState, Machine, Progress
from kerncap.sanitizer.concrete.plan import FLOWS, Plan
from kerncap.sanitizer.concrete.values import (
    Bools,
    Incomplete,
    Ints,
    Tile,
    Unknown,
    Value,
    choose,
    either,
    lift,
    same,
    where,
)
from kerncap.sanitizer.ttir.ir import Block, Operation, Region, walk
from kerncap.sanitizer.ttir.ir import Value as Name

Values = list[Value]
_SPINS_BEFORE_YIELD = 64


def run_block(m: Machine, block: Block) -> Progress:
    plan = m.shared.plan.block(block)
    m.shared.spend(plan.work(m.count))
    if plan.plain is not None:
        for step in plan.plain:
            step(m)
        return
    for is_flow, run in plan.steps:
        if is_flow:
            yield from run(m)  # type: ignore[misc]
        else:
            run(m)


def run_region(m: Machine, region: Region) -> Generator[bool, None, Values]:
    """Runs it for the active programs; the operands of its last operation. Arguments are bound before."""
    if len(region.blocks) > 1:
        return (yield from _run_blocks(m, region))
    block = region.entry
    plan = m.shared.plan.block(block)
    if plan.plain is not None:
        m.shared.spend(plan.work(m.count))
        for step in plan.plain:
            step(m)
    else:
        yield from run_block(m, block)
    if plan.terminator is None:
        return []
    return [m.env.get(value) for value in plan.terminator.operands]


# --- who is here -------------------------------------------------------------------------------------


def _everybody(m: Machine) -> Bools:
    return np.ones(m.count, dtype=np.bool_) if m.active is None else m.active


def _narrowed(m: Machine, condition: Bools) -> Bools:
    return condition if m.active is None else condition & m.active


def _scalar(m: Machine, name: Name, what: str) -> Bools:
    return m.known(name, what).data.reshape(-1).astype(np.bool_)


def _decided(m: Machine, condition: Bools) -> bool | None:
    """The condition if all programs that are here agree on it."""
    here = condition if m.active is None or len(condition) == 1 else condition[m.active]
    if here.all():
        return True
    return None if here.any() else False


def _steer(m: Machine, condition: Value) -> None:
    """From here on the programs are where they are by this condition."""
    if isinstance(condition, Tile) and condition.undefined is not None:
        unsure = condition.undefined.reshape(-1)
        m.unsure = either(m.unsure, unsure)
        m.shared.forked |= bool((unsure if m.active is None else unsure & m.active).any())


# --- branches ----------------------------------------------------------------------------------------


def _if(plan: Plan, operation: Operation) -> Flow:
    condition = operation.operands[0]
    yes, no = operation.regions[0], operation.regions[1] if len(operation.regions) > 1 else None
    if no is not None and not no.blocks:
        no = None
    inside = {one.name for region in operation.regions for one in walk(region)}
    effects = not inside.isdisjoint((*MEMORY, "tt.call", "ttg.local_store"))
    what = f"the condition of {where(operation)}"

    def branch(m: Machine, region: Region | None) -> Generator[bool, None, Values]:
        if region is None:
            return []
        return (yield from run_region(m, region))

    def flow(m: Machine) -> Progress:
        value = m.env[condition]
        if isinstance(value, Unknown) and not effects:
            for result in operation.results:
                m.env[result] = value
            return
        chosen = _scalar(m, condition, what)
        decided = _decided(m, chosen)
        before, unsure = m.active, m.unsure
        _steer(m, value)
        if decided is not None:
            results = yield from branch(m, yes if decided else no)
        else:
            chosen = np.broadcast_to(chosen, (m.count,))
            m.active = _narrowed(m, chosen)
            first = yield from branch(m, yes)
            m.active = ~chosen if before is None else ~chosen & before
            second = yield from branch(m, no)
            m.active = before
            results = [choose(chosen, a, b) for a, b in zip(first, second)]  # noqa: B905
        for result, one in zip(operation.results, results):  # noqa: B905
            m.env[result] = one
        m.unsure = unsure
        _carry_undefined(m, operation, m.known(condition, what).undefined)

    return flow


def _carry_undefined(m: Machine, operation: Operation, condition: Bools | None) -> None:
    """What a branch or a loop on an undefined value came to is undefined."""
    if condition is None:
        return
    for result in operation.results:
        value = m.env[result]
        if isinstance(value, Tile):
            chosen = copy(value)
            flag = lift(condition.reshape(-1), value.data.ndim - 1)
            chosen.doubt(flag)
            m.env[result] = chosen


# --- loops -------------------------------------------------------------------------------------------


def _for(plan: Plan, operation: Operation) -> Flow:
    lower, upper, by = operation.operands[:3]
    initial = operation.operands[3:]
    region = operation.regions[0]
    variable, carried = region.entry.arguments[0], region.entry.arguments[1:]
    name = variable.source_name
    is_unsigned = bool(operation.attributes.get("unsigned"))
    what = f"a bound of {where(operation)}"

    def bound(m: Machine, value: Name) -> Ints:
        data = m.known(value, what).data
        if is_unsigned:
            data = data.view(np.dtype(f"u{data.itemsize}"))
        return data.reshape(-1).astype(np.int64)

    def flow(m: Machine) -> Progress:
        start, end, step = bound(m, lower), bound(m, upper), bound(m, by)
        native = m.known(lower, what).data.dtype
        trips = np.maximum(np.where(step > 0, -((start - end) // np.maximum(step, 1)), 0), 0)
        before, unsure = m.active, m.unsure
        # Python would not enter it; compiled code does, and counts until the number wraps.
        endless = (step <= 0) & (start < end)
        if np.any(endless if before is None else endless & before):
            raise Incomplete(
                f"the step of {where(operation)} is not positive, and its start is below its end"
            )
        for limit in (lower, upper, by):
            _steer(m, m.env[limit])
        inside = m.unsure
        here = trips if before is None or len(trips) == 1 else trips[before]
        most, least = (int(here.max()), int(here.min())) if here.size else (0, 0)
        values: Values = [m.env.get(value) for value in initial]
        state = LoopState(name, start, 0)
        m.loops.append(state)
        for trip in range(most):
            data = start + trip * step
            state.induction, state.trip = data, trip
            if trip >= least:
                m.active = _narrowed_by(before, trips > trip, m.count)
            m.env[variable] = Tile(data.astype(native))
            for argument, value in zip(carried, values, strict=True):
                m.env[argument] = value
            results = yield from run_region(m, region)
            if trip >= least and m.active is not None:
                mask = m.active
                values = [choose(mask, new, old) for new, old in zip(results, values, strict=True)]
            else:
                values = results
        m.active, m.unsure = before, unsure
        m.loops.pop()
        for result, one in zip(operation.results, values, strict=True):
            m.env[result] = one
        if inside is not unsure:
            _carry_undefined(m, operation, inside)

    return flow


def _narrowed_by(active: Bools | None, condition: Bools, count: int) -> Bools:
    condition = np.broadcast_to(condition, (count,))
    return condition if active is None else condition & active


def _while(plan: Plan, operation: Operation) -> Flow:
    test, body = operation.regions
    what = f"the condition of {where(operation)}"

    def flow(m: Machine) -> Progress:
        before, unsure = m.active, m.unsure
        values: Values = [m.env.get(value) for value in operation.operands]
        left: Values = []
        state = LoopState("while", np.zeros(1, dtype=np.int64), 0)
        m.loops.append(state)
        memory = m.shared.memory
        version, spins = memory.version, 0
        while True:
            state.induction = np.full(1, state.trip, dtype=np.int64)
            for argument, value in zip(test.entry.arguments, values, strict=True):
                m.env[argument] = value
            condition, *passed = yield from run_region(m, test)
            if not isinstance(condition, Tile):
                reason = condition.reason if isinstance(condition, Unknown) else "not evaluated"
                raise Incomplete(f"{what} depends on an unknown value: {reason}")
            chosen = condition.data.reshape(-1)
            _steer(m, condition)
            decided = _decided(m, chosen)
            if left and decided is not True:
                gone = ~np.broadcast_to(chosen, (m.count,))
                mask = gone if m.active is None else gone & m.active
                left = [choose(mask, new, old) for new, old in zip(passed, left, strict=True)]
            elif not left and decided is not True:
                left = passed
            if decided is False:
                break
            if decided is None:
                m.active = _narrowed(m, np.broadcast_to(chosen, (m.count,)))
            for argument, value in zip(body.entry.arguments, passed, strict=True):
                m.env[argument] = value
            results = yield from run_region(m, body)
            state.trip += 1
            if m.shared.cooperative:
                # Nothing changed, neither in memory nor in what the loop carries: it spins until
                # another program writes. A loop that counts its spins hands over now and then.
                spins = 0 if memory.version != version else spins + 1
                version = memory.version
                m.waiting = operation
                if spins and all(same(a, b) for a, b in zip(results, values, strict=True)):
                    yield False
                elif spins and spins % _SPINS_BEFORE_YIELD == 0:
                    yield True
            values = results
        inside = m.unsure
        m.active, m.unsure = before, unsure
        m.loops.pop()
        for result, value in zip(operation.results, left, strict=True):
            m.env[result] = value
        if inside is not unsure:
            _carry_undefined(m, operation, inside)

    return flow


# --- blocks that branch to each other ----------------------------------------------------------------


def _order(region: Region) -> tuple[dict[Block, int], bool]:
    """Reverse postorder, and whether there is a way back in it."""
    seen: set[Block] = set()
    finished: list[Block] = []
    stack: list[tuple[Block, int]] = [(region.entry, 0)]
    seen.add(region.entry)
    while stack:
        block, at = stack.pop()
        following = [b for b, _ in block.operations[-1].successors] if block.operations else []
        if at < len(following):
            stack.append((block, at + 1))
            if following[at] not in seen:
                seen.add(following[at])
                stack.append((following[at], 0))
        else:
            finished.append(block)
    place = {block: index for index, block in enumerate(reversed(finished))}
    cyclic = any(
        place[to] <= place[block]
        for block in place
        for last in block.operations[-1:]
        for to, _ in last.successors
    )
    return place, cyclic


def _run_blocks(m: Machine, region: Region) -> Generator[bool, None, Values]:
    place, cyclic = _order(region)
    before = m.active
    # Blocks that programs have arrived at: who, and with what arguments.
    arrived: dict[Block, tuple[Bools, Values]] = {}
    arrived[region.entry] = (_everybody(m), [m.env.get(v) for v in region.entry.arguments])
    results: Values = []
    returned: Bools | None = None

    def send(block: Block, mask: Bools, values: Values) -> None:
        if not mask.any():
            return
        if block in arrived:
            others, old = arrived[block]
            values = [choose(mask, new, one) for new, one in zip(values, old, strict=True)]
            mask = mask | others
        arrived[block] = (mask, values)

    try:
        while arrived:
            block = min(arrived, key=place.__getitem__)
            mask, values = arrived.pop(block)
            m.active = None if mask.all() else mask
            for argument, value in zip(block.arguments, values, strict=True):
                m.env[argument] = value
            # In a cycle, programs that have left a block still use its values: those stay theirs.
            kept = {v: m.env.get(v) for one in block.operations for v in one.results} if cyclic else {}
            yield from run_block(m, block)
            for name, old in kept.items():
                m.env[name] = choose(mask, m.env.get(name), old)
            last = block.operations[-1]
            if last.name == "cf.br":
                to, passed = last.successors[0]
                send(to, mask, [m.env.get(v) for v in passed])
            elif last.name == "cf.cond_br":
                condition = _scalar(m, last.operands[0], f"the condition of {where(last)}")
                _steer(m, m.env[last.operands[0]])
                chosen = np.broadcast_to(condition, (m.count,))
                for (to, passed), taken in zip(last.successors, (chosen, ~chosen), strict=True):
                    send(to, mask & taken, [m.env.get(v) for v in passed])
            elif last.successors:
                raise Incomplete(f"{where(last)} has no semantics here")
            else:
                found = [m.env.get(v) for v in last.operands]
                if returned is None:
                    results, returned = found, mask
                else:
                    results = [choose(mask, new, old) for new, old in zip(found, results, strict=True)]
                    returned = returned | mask
    finally:
        m.active = before
    return results


# --- calls -------------------------------------------------------------------------------------------


def _call(plan: Plan, operation: Operation) -> Flow:
    name = str(operation.attributes["callee"])
    callee = plan.module.functions.get(name)

    def flow(m: Machine) -> Progress:
        if callee is None or callee.body is None:
            raise Incomplete(f"{where(operation)} calls {name}, which has no body")
        for argument, value in zip(callee.arguments, operation.operands, strict=True):
            m.env[argument] = m.env.get(value)
        results = yield from run_region(m, callee.body)
        for result, one in zip(operation.results, results, strict=True):
            m.env[result] = one

    return flow


def _execute_region(plan: Plan, operation: Operation) -> Flow:
    def flow(m: Machine) -> Progress:
        results = yield from run_region(m, operation.regions[0])
        for result, one in zip(operation.results, results, strict=True):
            m.env[result] = one

    return flow


FLOWS["scf.if"] = _if
FLOWS["scf.for"] = _for
FLOWS["scf.while"] = _while
FLOWS["scf.execute_region"] = _execute_region
FLOWS["tt.call"] = _call
