"""One group of programs that take the same path, from the kernel's beginning to its end.

Partitions of warps run in turn, each until it has to wait. What a later operation may find in flight is
decided by clocks (`machine`), so the turns don't matter.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from kerncap.sanitizer.launch import ScalarArgument
from kerncap.sanitizer.shared.in_flight import Thread, Wait, merge
from kerncap.sanitizer.shared.needed_operations import FLOW, YIELDS, unmodelled
from kerncap.sanitizer.shared.program_run import Env, Later, Run, Stopped, named
from kerncap.sanitizer.shared.scalars import Tile, Unknown, computed, tile
from kerncap.sanitizer.ttir.ir import Block, Operation, Region, TensorType, Value

Steps = Generator[None, None, list[Any]]
MAX_CALLS = 16
ELEMENTS_A_STEP = 256  # of a tensor of indices: as much work as an operation on scalars


class Path(Run):
    """Raises Stopped and Diverged.

    ``late``: a wait, of another path like this one, that begins only once nothing else goes on.
    ``overrun``: waits that a later phase of their barrier does not wait for.
    """

    def __init__(self, *arguments: Any, late: Wait | None = None) -> None:
        super().__init__(*arguments)
        self.overrun: list[Wait] = []
        self._late = late
        self._held = False  # the late wait is next
        self._plans: dict[Block, list[tuple[Operation, int]]] = {}
        self._running: list[tuple[Thread, Steps]] = []
        self._waiting: set[Thread] = set()  # for another block to go on

    def follow(self) -> None:
        env: Env = {}
        for value, argument in zip(self.function.arguments, self.launch.arguments, strict=True):
            if isinstance(argument, ScalarArgument) and not isinstance(argument.value, float):
                env[value] = int(argument.value)
        body = self.function.body
        assert body is not None
        for block in range(self.blocks):
            main = Thread(self.of_block("the default warps", block), block=block)
            main.tick()
            self._running.append((main, self._region(body, dict(env), main)))
        while self._running:
            before = self.budget[0]
            for entry in list(self._running):
                thread, steps = entry
                if thread.blocked is not None and thread.blocked.barrier.phase <= thread.blocked.phase:
                    continue
                try:
                    next(steps)
                except StopIteration:
                    self._running.remove(entry)
                    self.budget[0] -= 1
            if self.budget[0] == before and not self._held:
                self._stuck()
            elif self.budget[0] == before:
                self._held = False
        for barrier in self.initialised:
            for wait in barrier.overrun:
                self.overrun.append(wait)
                self.leave_open(
                    wait.operation,
                    f"nothing shows that phase {wait.phase + 1} of {barrier.name} ends after this wait",
                )

    def _stuck(self) -> None:
        if self._waiting:
            raise Stopped("a block uses a barrier of another block that is not initialised")
        late = self._late
        for thread, _ in self._running:
            wait = thread.blocked
            if late is not None and wait is not None and self._is_late(wait.operation, thread):
                over = f"if it begins after phase {late.phase + 1} is over"
                message = f"the wait for phase {late.phase} of {wait.barrier.name} never ends {over}"
                self.violate(wait.operation, message, thread)
                raise Stopped("the kernel may never get past a wait")
        for thread, _ in self._running:
            wait = thread.blocked
            if wait is None:
                continue
            lacks = wait.barrier.lacks()
            self.violate(
                wait.operation,
                f"the wait for phase {wait.phase} of {wait.barrier.name} never ends: it lacks {lacks}",
                thread,
            )
        raise Stopped("the kernel never gets past a wait")

    def _is_late(self, operation: Operation, thread: Thread) -> bool:
        late = self._late
        return (
            late is not None
            and operation is late.operation
            and thread.name == late.thread.name
            and thread.iterations() == late.iterations
        )

    def _plan(self, block: Block) -> list[tuple[Operation, int]]:
        """What counts in the block: 0 flow, 1 an action, 2 a scalar, 3 a use of products, 4 not modelled,
        5 what may reach another block."""
        plan = self._plans.get(block)
        if plan is None:
            plan = self._plans[block] = []
            wanted = self.wanted
            for one in block.operations:
                results = any(result in wanted.values for result in one.results)
                if one.name in FLOW:
                    if one in wanted.touching or results or any(r in wanted.products for r in one.results):
                        plan.append((one, 0))
                elif one.name in self.actions:
                    plan.append((one, 5 if self.cluster.crossing(one, self.blocks) else 1))
                elif unmodelled(one, self.actions):
                    plan.append((one, 4 if self.cluster.blocks == 1 else 5))
                else:
                    if one.name not in YIELDS and any(v in wanted.products for v in one.operands):
                        plan.append((one, 3))
                    if results:
                        plan.append((one, 2))
        return plan

    def _region(self, region: Region, env: Env, thread: Thread) -> Steps:
        """Gives the terminator's operands, as far as they are known."""
        if len(region.blocks) != 1:
            raise Stopped("unstructured control flow is not followed")
        return self._block(region.entry, env, thread)

    def _block(self, block: Block, env: Env, thread: Thread) -> Steps:
        for operation, kind in self._plan(block):
            self.budget[0] -= 1
            if self.budget[0] < 0:
                raise Stopped("the kernel runs for more operations than are followed")
            if kind == 0:
                yield from self._flow(operation, env, thread)
            elif kind == 1:
                if self._late is not None and self._is_late(operation, thread):
                    self._held = True
                while self._held and self._is_late(operation, thread):
                    yield
                wait = yield from self._act(operation, env, thread)
                if wait is not None:
                    thread.blocked = wait
                    while wait.barrier.phase <= wait.phase:
                        yield
                    thread.blocked = None
                    self.passed(wait)
            elif kind == 2:
                env[operation.results[0]] = self._computed(operation, env)
            elif kind == 3:
                self.uses_products(operation, env, thread)
            elif kind == 5:
                reason = self.cluster.crossing(operation, self.blocks)
                raise Stopped(reason or f"{operation.name} is not modelled")
            else:
                self.unmodelled(operation, env, thread)
        end = block.operations[-1] if block.operations else None
        return [env.get(value) for value in end.operands] if end is not None else []

    def _act(self, operation: Operation, env: Env, thread: Thread) -> Generator[None, None, Wait | None]:
        while True:
            try:
                found = self.actions[operation.name](self, operation, env, thread)
            except Later:
                self._waiting.add(thread)
                yield
            else:
                self._waiting.discard(thread)
                return found

    def passed(self, wait: Wait) -> None:
        """The thread knows what the phase knows. Without a reason to know the phase before, the wait may have
        been for that one."""
        thread, barrier = wait.thread, wait.barrier
        if wait.phase >= 1 and thread.clock.get(barrier, -1) < wait.phase - 1:
            self.leave_open(
                wait.operation, f"nothing shows that phase {wait.phase - 1} of {barrier.name} is over before"
            )
        merge(thread.clock, barrier.ended.get(wait.phase, {}))
        wait.step = thread.tick()[1]
        if wait.phase >= 0 and barrier is not self.meeting:
            barrier.waits.append(wait)

    def _computed(self, operation: Operation, env: Env) -> Any:
        name = operation.name
        if isinstance(operation.results[0].type, TensorType):
            indices = tile(operation, [env.get(one) for one in operation.operands])
            if isinstance(indices, Tile):
                self.budget[0] -= indices.values.size // ELEMENTS_A_STEP
            return indices if indices is not None else Unknown(named(operation.results[0]))
        if name == "arith.constant":
            value = operation.attributes.get("value")
            return int(value) if isinstance(value, int) else Unknown("a constant that is not an integer")
        if name in ("tt.get_program_id", "tt.get_num_programs"):
            axis = operation.attributes.get("axis")
            if axis not in (0, 1, 2):
                return Unknown(name)
            x, y, _ = self.launch.grid
            if name == "tt.get_num_programs":
                return self.launch.grid[axis]
            part = (self.programs % x, self.programs // x % y, self.programs // (x * y))[axis]
            return int(part[0]) if part.size == 1 or bool((part == part[0]).all()) else part
        found = computed(operation, [self.scalar(env, one) for one in operation.operands])
        return found if found is not None else Unknown(named(operation.results[0]))

    def _flow(self, operation: Operation, env: Env, thread: Thread) -> Steps:
        name = operation.name
        if name == "scf.for":
            results = yield from self._for(operation, env, thread)
        elif name == "scf.if":
            results = yield from self._if(operation, env, thread)
        elif name == "scf.while":
            results = yield from self._while(operation, env, thread)
        elif name == "scf.execute_region":
            results = yield from self._region(operation.regions[0], env, thread)
        elif name == "tt.call":
            results = yield from self._call(operation, env, thread)
        else:
            results = yield from self._specialize(operation, env, thread)
        for result, value in zip(operation.results, results, strict=False):
            _set(env, result, value)
        return []

    def _for(self, operation: Operation, env: Env, thread: Thread) -> Steps:
        lower, upper, step = (self.scalar(env, one) for one in operation.operands[:3])
        carried: list[Any] = [env.get(one) for one in operation.operands[3:]]
        unknown = next((one for one in (lower, upper, step) if isinstance(one, Unknown)), None)
        if unknown is not None:
            if operation in self.wanted.touching:
                raise Stopped(f"how often a loop runs rests on {unknown.reason}")
            return [Unknown(unknown.reason)] * len(carried)
        if np.any(np.less_equal(step, 0)) or operation.attributes.get("unsigned"):
            raise Stopped("a loop's step or bounds are not positive")
        distance = upper - lower
        trips = self.decided(-(-distance // step), "how often a loop runs")
        (body,) = operation.regions
        counter, *arguments = body.entry.arguments
        place: list[object] = [counter.source_name, 0]
        thread.loops.append(place)
        for number in range(trips):
            at = lower + number * step
            env[counter] = at
            place[1] = int(at[0]) if isinstance(at, np.ndarray) else at
            for argument, value in zip(arguments, carried, strict=False):
                _set(env, argument, value)
            carried = yield from self._block(body.entry, env, thread)
        thread.loops.pop()
        return carried

    def _if(self, operation: Operation, env: Env, thread: Thread) -> Steps:
        condition = self.scalar(env, operation.operands[0])
        simple = operation not in self.wanted.touching
        if simple and isinstance(condition, Unknown):
            return [condition] * len(operation.results)
        if simple and isinstance(condition, np.ndarray) and len(operation.regions) == 2:
            sides = []
            for region in operation.regions:
                sides.append((yield from self._region(region, env, thread)))
            return [_either(condition, a, b) for a, b in zip(*sides, strict=True)]
        taken = self.decided(condition, "a branch")
        if taken or len(operation.regions) > 1:
            return (yield from self._region(operation.regions[0 if taken else 1], env, thread))
        return []

    def _while(self, operation: Operation, env: Env, thread: Thread) -> Steps:
        before, after = operation.regions
        carried = [env.get(one) for one in operation.operands]
        place: list[object] = ["iteration", 0]
        thread.loops.append(place)
        while True:
            for argument, value in zip(before.entry.arguments, carried, strict=False):
                _set(env, argument, value)
            condition, *passed = yield from self._region(before, env, thread)
            self.budget[0] -= 1
            known = condition if condition is not None else Unknown("a value that is not computed")
            if not self.decided(known, "how often a loop runs"):
                thread.loops.pop()
                return passed
            for argument, value in zip(after.entry.arguments, passed, strict=False):
                _set(env, argument, value)
            carried = yield from self._region(after, env, thread)
            place[1] = int(str(place[1])) + 1

    def _call(self, operation: Operation, env: Env, thread: Thread) -> Steps:
        callee = self.module.functions.get(str(operation.attributes.get("callee")))
        thread.calls += 1
        if callee is None or callee.body is None or thread.calls > MAX_CALLS:
            raise Stopped("a call of a function that is not here")
        own = {
            argument: env.get(one)
            for argument, one in zip(callee.arguments, operation.operands, strict=False)
        }
        results = yield from self._region(callee.body, own, thread)
        thread.calls -= 1
        return results

    def _specialize(self, operation: Operation, env: Env, thread: Thread) -> Steps:
        default, *partitions = operation.regions
        thread.tick()
        started = []
        for number, region in enumerate(partitions):
            name = self.of_block(f"partition {number}", thread.block)
            partition = Thread(name, dict(thread.clock), dict(thread.clock), block=thread.block)
            partition.tick()
            own = {
                argument: env.get(one)
                for argument, one in zip(region.entry.arguments, operation.operands, strict=False)
            }
            entry = (partition, self._region(region, own, partition))
            started.append(entry)
            self._running.append(entry)
        results = yield from self._region(default, env, thread)
        while any(entry in self._running for entry in started):
            yield
        for partition, _ in started:
            merge(thread.clock, partition.clock)
            partition.ended = True
        return results


def _set(env: Env, target: Value, value: Any) -> None:
    if value is None:
        env.pop(target, None)
    else:
        env[target] = value


def _either(condition: Any, a: Any, b: Any) -> Any:
    numbers = (int, np.ndarray)
    if isinstance(a, numbers) and isinstance(b, numbers):
        return np.where(condition != 0, a, b)
    return a if isinstance(a, Unknown) else b if isinstance(b, Unknown) else None
