"""What one path of a kernel does to shared memory: its buffers and barriers, and what is wrong with a use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.shared.clusters import Cluster
from kerncap.sanitizer.shared.in_flight import Access, Barrier, Buffer, Thread, Wait
from kerncap.sanitizer.shared.needed_operations import Needed
from kerncap.sanitizer.shared.operands import flags_of
from kerncap.sanitizer.shared.scalars import Unknown
from kerncap.sanitizer.shared.views import Allocation, Box, View, memory_type, outside
from kerncap.sanitizer.ttir.ir import Function, Location, Module, Operation, Value

Env = dict[Value, Any]
Programs = npt.NDArray[np.int64]


class Stopped(Exception):
    """Why the rest of a path is not followed."""


class Later(Exception):
    """The operation can't run before another block of the cluster has gone on."""


class Diverged(Exception):
    """The programs take several paths from here."""

    def __init__(self, groups: list[Programs]) -> None:
        super().__init__()
        self.groups = groups


@dataclass(frozen=True)
class Violation:
    operation: Operation
    message: str
    view: View | None
    writes: bool | None  # None: no access
    program: int
    iterations: tuple[tuple[str, int], ...]
    other: Access | None = None


@dataclass
class Report:
    """Over all paths. ``open``: why an operation is not proved; ``stopped``: why none is."""

    violations: dict[tuple[Operation, Operation | None], Violation] = field(default_factory=dict)
    open: dict[Operation, str] = field(default_factory=dict)
    stopped: str = ""
    contents: bool = False


Action = Callable[["Run", Operation, Env, Thread], "Wait | None"]


@dataclass(frozen=True)
class Cancelled:
    """The answer to a path's ``number``-th request to take over another block's work."""

    number: int


@dataclass(frozen=True)
class Outside:
    """A slot that a buffer doesn't have. It is a mistake once something uses it: ``violate`` says so."""

    violate: Callable[[], None]


class Run:
    """``programs``: their numbers in the grid; ``blocks``: how many of a cluster's are followed;
    ``taken``: of how many others they take over the work."""

    def __init__(
        self,
        module: Module,
        function: Function,
        launch: Launch,
        programs: Programs,
        wanted: Needed,
        actions: dict[str, Action],
        report: Report,
        budget: list[int],
        blocks: int = 1,
        taken: int = 0,
    ) -> None:
        self.module = module
        self.cluster = Cluster.of(module)
        self.function = function
        self.launch = launch
        self.programs = programs
        self.wanted = wanted
        self.actions = actions
        self.report = report
        self.budget = budget
        self.blocks = blocks
        self.taken = taken
        self.asked = 0  # to take over work
        self.answers: dict[tuple[Operation, Box], Cancelled] = {}
        self.ends_by_answer = False  # what is done rests on a request that fails
        self.buffers: dict[tuple[Operation, int], Buffer] = {}
        self.allocated: set[tuple[Operation, int]] = set()
        self.barriers: dict[tuple[Operation, int, int], Barrier] = {}
        self.ended_barriers: set[tuple[Operation, int, int]] = set()
        self.meeting = Barrier("the cluster barrier", blocks, blocks)
        self.doubted_barriers: dict[Operation, str] = {}
        self.initialised: list[Barrier] = []

    # --- values --------------------------------------------------------------------------------

    def scalar(self, env: Env, value: Value) -> Any:
        found = env.get(value)
        return found if found is not None else Unknown(named(value))

    def decided(self, value: Any, what: str) -> int:
        """The number, if it is the same for all programs. Raises Stopped and Diverged."""
        if isinstance(value, Unknown):
            raise Stopped(f"{what} rests on {value.reason}")
        if isinstance(value, np.ndarray):
            kinds = np.unique(value)
            if kinds.size > 1:
                raise Diverged([self.programs[value == kind] for kind in kinds])
            return int(kinds[0])
        return int(value)

    def happens(self, env: Env, condition: Value, operation: Operation) -> bool:
        return self.decided(self.scalar(env, condition), f"whether {operation.name} runs") != 0

    def predicated(self, operation: Operation, env: Env) -> bool:
        """Whether it runs: by its last operand, if that is a flag."""
        flags = flags_of(operation)
        return not flags or self.happens(env, flags[-1], operation)

    def view(self, env: Env, value: Value, operation: Operation) -> View:
        found = env.get(value)
        if isinstance(found, Outside):
            found.violate()
            raise Stopped("the kernel uses an index out of bounds before")
        if not isinstance(found, View):
            reason = found.reason if isinstance(found, Unknown) else named(value)
            raise Stopped(f"the memory of {operation.name} rests on {reason}")
        return found

    # --- what is found -------------------------------------------------------------------------

    def violate(
        self,
        operation: Operation,
        message: str,
        thread: Thread,
        view: View | None = None,
        writes: bool | None = None,
        other: Access | None = None,
    ) -> None:
        key = (operation, other.operation if other is not None else None)
        if key not in self.report.violations:
            program = int(self.programs[0])
            self.report.violations[key] = Violation(
                operation, message, view, writes, program, thread.iterations(), other
            )

    def leave_open(self, operation: Operation, reason: str) -> None:
        self.report.open.setdefault(operation, reason)

    def doubt(self, reason: str) -> None:
        """The followed order is one of several: nothing is proved by it, and what is wrong in it is wrong."""
        if self.report.violations:
            raise Stopped(reason)
        self.report.stopped = self.report.stopped or reason

    # --- accesses ------------------------------------------------------------------------------

    def buffer(self, view: View, block: int) -> Buffer:
        """A block's part of the memory."""
        key = view.allocation.operation, block
        found = self.buffers.get(key)
        if found is None:
            found = self.buffers[key] = Buffer(view.allocation)
        return found

    def of_block(self, what: object, block: int) -> str:
        return str(what) if self.blocks == 1 else f"{what} of block {block}"

    def access(
        self,
        operation: Operation,
        view: View,
        thread: Thread,
        writes: bool,
        what: str,
        asynchronous: bool = False,
        in_order: str = "",
        proxy: bool = False,
        block: int | None = None,
    ) -> Access:
        """Judge an access by what is in flight; keep it. The caller gives an asynchronous one its ends.

        ``block``: in whose part of the buffer; the thread's own by default.
        """
        block = thread.block if block is None else block
        where = self.of_block(view, block)
        access = Access(
            operation, view, writes, what, thread, thread.iterations(), in_order=in_order, proxy=proxy
        )
        buffer = self.buffer(view, block)
        verb = "overwrites" if writes else "reads"
        if buffer.doubt:
            self.leave_open(operation, f"{buffer.doubt}, which uses the same memory, is not modelled")
        elif not writes and outside(view.box, buffer.filled) is not None:
            if view.exact:
                self.violate(
                    operation, f"{what} reads {where} before anything is written there", thread, view, writes
                )
            else:
                self.leave_open(operation, "which part of its buffer it reads is not known")
        for old in buffer.conflicts(access):
            if not (old.view.exact and view.exact):
                self.leave_open(operation, "which part of its buffer it uses is not known")
                continue
            if old.thread.block != thread.block and old.over_for({old.thread: old.thread.initialised}):
                # The compiler has all blocks meet once barriers are made, which orders no memory.
                self.leave_open(operation, f"{old.what} of another block comes before its barriers are made")
                continue
            still = "writing" if old.writes else "reading"
            message = f"{what} {verb} {where}, which {old.what} may still be {still}: {_missing(old, thread)}"
            self.violate(operation, message, thread, view, writes, old)
        for old in buffer.unfenced(access):
            # The compiler adds fences within the default warps and within a partition.
            if old.thread.ended or old.over_for(thread.inherited) or old.thread.block != thread.block:
                self.leave_open(operation, f"no fence_async_shared is between it and {old.what}")
                continue
            message = (
                f"{what} {verb} {where}, which {old.what} has written, without fence_async_shared between"
            )
            self.violate(operation, message, thread, view, writes, old)
        if not asynchronous:
            access.ends.append(thread.tick())
        buffer.add(access)
        return access

    def uses_products(self, operation: Operation, env: Env, thread: Thread) -> None:
        for value in operation.operands:
            product = env.get(value)
            if isinstance(product, Access) and not product.over_for(thread.clock):
                message = f"{operation.name} uses the result of {product.what}, which may not be there yet"
                self.violate(operation, f"{message}: {_missing(product, thread)}", thread, other=product)

    def unmodelled(self, operation: Operation, env: Env, thread: Thread) -> None:
        self.leave_open(operation, f"{operation.name} is not modelled")
        for value in operation.operands:
            found = env.get(value)
            if isinstance(found, View):
                self.buffer(found, thread.block).doubt = operation.name
                self.doubted_barriers[found.allocation.operation] = operation.name


def attribute(operation: Operation, name: str) -> int:
    value = operation.attributes.get(name)
    if not isinstance(value, int):
        raise Stopped(f"{operation.name} does not say how many it leaves in flight")
    return value


def named(value: Value) -> str:
    owner = value.owner
    if isinstance(owner, Operation):
        return f"{owner.name} ({_line(owner.location)})" if owner.location.frame else owner.name
    return f"{value.source_name}, which is not an integer of the launch"


def _line(location: Location) -> str:
    frame = location.frame
    return f"line {frame.line}" if frame is not None else "an unknown line"


def _missing(old: Access, thread: Thread) -> str:
    """What would have ordered a later access behind ``old``."""
    barrier = old.barrier
    if barrier is not None and old.ends:
        phase = old.ends[-1][1]
        seen = thread.clock.get(barrier, -1)
        had = f"phase {seen}" if seen >= 0 else "none"
        text = f"it ends with phase {phase} of {barrier.name}, and {thread.name} waited for {had}"
        if barrier.brought > barrier.announced and old.thread.block == thread.block:
            text += f"; {barrier.announced:,} bytes were announced and {barrier.brought:,} are copied"
        return text
    if not old.ends and old.thread.block == thread.block:
        return "no commit covers it"
    key = old.ends[-1][0] if old.ends else None
    kind = key[1] if isinstance(key, tuple) else ""
    words = {
        "copies": "no async_wait covers its group",
        "stores": "no wait for the store comes before",
        "products": "no wait for the product comes before",
    }
    return words.get(str(kind), f"nothing orders {old.thread.name} and {thread.name}")


def view_of_allocation(operation: Operation) -> View | None:
    type_ = memory_type(operation.results[0].type)
    return None if type_ is None else View.whole(Allocation(operation, type_))
