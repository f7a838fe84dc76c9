"""One run of a kernel over `Numbers`, or in its own types on inputs that were made up.

A kernel is one launch, or several that run one after another on the same memory.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kerncap.sanitizer.concrete import formats
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.run import Limits, Outcome, Track, evaluate
from kerncap.sanitizer.equality.float_memory import FloatMemory
from kerncap.sanitizer.equality.float_operations import ExactPlan
from kerncap.sanitizer.equality.numbers import Array, Bools, Ints, NotModelled, Numbers, named
from kerncap.sanitizer.equality.plan_values import in_type
from kerncap.sanitizer.equality.ptx import code
from kerncap.sanitizer.equality.ptx.launch import PtxLaunch
from kerncap.sanitizer.equality.ptx.reader import read
from kerncap.sanitizer.equality.ptx.run import IN_A_STRUCTURE, PtxRun, scalars_of
from kerncap.sanitizer.equality.ptx.run_limits import TooMuch
from kerncap.sanitizer.launch import Contents, Launch, ScalarArgument, Unwritten
from kerncap.sanitizer.paged_bytes import Bytes, NotReadable, PagedBytes, Run
from kerncap.sanitizer.ttir.ir import Dense, FloatType, Module
from kerncap.sanitizer.ttir.tensors_only import left, tensors_only


@dataclass(frozen=True)
class Part:
    """Of a launch, the programs that run, and by storage what is compared of it, in cells of some bytes."""

    programs: Ints
    counted: Mapping[int, Bools]
    cell: int

    def counts(self, storage: int, bytes_: Ints) -> Bools:
        """Whether what is at these byte offsets is compared."""
        held = self.counted.get(storage)
        return np.zeros(len(bytes_), np.bool_) if held is None else held[bytes_ // self.cell]


@dataclass(frozen=True)
class Kernel:
    """Launches with one list of storages, read.

    ``names``: of the storages; those of one name in two kernels hold the same before.
    ``results``: the same of what they hold after, which is compared.
    ``part``: of its only launch what is run, if it is not run whole.
    """

    launches: tuple[Launch, ...]
    modules: tuple[Module | code.Module, ...]
    names: tuple[str, ...]
    results: tuple[str, ...]
    part: Part | None = None

    @property
    def programs(self) -> Ints | None:
        """That run, in their order; None: all."""
        return None if self.part is None else self.part.programs

    @property
    def launch(self) -> Launch:
        """The first; its storages and contents are those of all."""
        return self.launches[0]


def storage_names(launch: Launch) -> tuple[str, ...]:
    """Of each storage that of the first argument in it; each name once."""
    times = Counter(one.name for one in launch.storages)
    return tuple(
        one.name if one.name and times[one.name] == 1 else f"storage {index}"
        for index, one in enumerate(launch.storages)
    )


def kernel_of(*launches: Launch) -> Kernel:
    """Launches with one list of storages, read."""
    names = storage_names(launches[0])
    return Kernel(launches, tuple(map(_module, launches)), names, names)


def _module(launch: Launch) -> Module | code.Module:
    if isinstance(launch, PtxLaunch):
        return read(launch.ptx, launch.entry)
    return tensors_only(launch.ttir)


def scalars(*kernels: Kernel) -> dict[str, float]:
    """The floats that are passed, by name."""
    found: dict[str, float] = {}
    for kernel in kernels:
        for module, launch in zip(kernel.modules, kernel.launches, strict=True):
            if isinstance(module, code.Module):
                assert isinstance(launch, PtxLaunch)
                found = {**scalars_of(module, launch), **found}
                continue
            for name, given in zip(module.kernel.arguments, launch.arguments, strict=True):
                if isinstance(name.type, FloatType) and isinstance(given, ScalarArgument):
                    found.setdefault(given.name, in_type(float(given.value), name.type))
    return found


def varying(named: Mapping[str, float]) -> dict[str, float]:
    """Of floats that are passed, those that may be any other: all that are arguments."""
    return {name: value for name, value in named.items() if not name.startswith(IN_A_STRUCTURE)}


def makers(kernel: Kernel) -> list[str]:
    """What made the PTX of a CUDA kernel; nothing of others."""
    return [one.maker for one in kernel.launches if isinstance(one, PtxLaunch)]


def constants(kernel: Kernel) -> Iterator[float]:
    """The floats that its code has."""
    for module in kernel.modules:
        if isinstance(module, code.Module):
            yield from module.floats()
            continue
        for operation in module.operations():
            if operation.name == "arith.constant":
                value = operation.attributes["value"]
                for one in value.values if isinstance(value, Dense) else (value,):
                    if isinstance(one, float):
                        yield in_type(one, operation.results[0].type)


_PARTS = 8


@dataclass(frozen=True)
class Order:
    """Of a launch's programs: as they are numbered, in lockstep or in parts; or in parts ``backwards``.

    ``seed``: in parts by chance.
    """

    in_parts: bool = False
    backwards: bool = False
    seed: int | None = None

    def of(self, programs: Ints) -> tuple[Ints, int]:
        """And how many run in lockstep at most."""
        if not self.in_parts:
            return programs, len(programs)
        if self.backwards:
            programs = programs[::-1]
        elif self.seed is not None:
            programs = np.random.default_rng(self.seed).permutation(programs)
        return programs, -(-len(programs) // _PARTS)


IN_ORDER = Order()


class CannotRun(Exception):
    """A run that did not come to its end, and why."""


class Budget:
    """What all runs of one proof may take together in processor time, and each in operations on elements."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.most = limits.element_operations
        self._end = time.thread_time() + limits.seconds

    def left(self) -> Limits:
        """For the next run. Raises CannotRun if nothing is left."""
        seconds = self._end - time.thread_time()
        if seconds <= 0:
            raise CannotRun(f"too large: more than {self._limits.seconds:g} s")
        return replace(self._limits, seconds=seconds)


@dataclass
class Ran:
    """``plan``: of the last launch, with what all left; ``work``: operations on elements.

    ``part``: what was run, if not all.
    """

    plan: ExactPlan | PtxRun
    work: int
    part: Part | None = None

    @property
    def floats(self) -> FloatMemory:
        return self.plan.floats


def run(
    kernel: Kernel, numbers: Numbers, budget: Budget, filler: Array | None = None, order: Order = IN_ORDER
) -> Ran:
    """All programs, or those of its part. Raises CannotRun.

    ``filler``: in lanes that a load leaves out, instead of zero; ``order``: of Triton's programs.
    """
    plan: ExactPlan | PtxRun | None = None
    work = 0
    for launch, module in zip(kernel.launches, kernel.modules, strict=True):
        if isinstance(module, code.Module):
            plan = _ptx(launch, module, numbers, kernel, plan)
            work += _ended(plan, budget)
            continue
        if isinstance(plan, PtxRun):
            raise NotModelled("launches of CUDA and of Triton, one after another")
        for name in left(module):  # what it does to memory would be missing
            raise NotModelled(f"{name} is not modelled")
        plan = ExactPlan(module, module.kernel, launch, numbers, kernel.names, filler, plan)
        work += _evaluated(launch, module, plan.memory, budget, plan, kernel, order).element_operations
    assert plan is not None
    return Ran(plan, work, kernel.part)


def _ptx(
    launch: Launch,
    module: code.Module,
    numbers: Numbers,
    kernel: Kernel,
    before: ExactPlan | PtxRun | None,
    *,
    rounds: bool = False,
) -> PtxRun:
    assert isinstance(launch, PtxLaunch)
    if isinstance(before, ExactPlan):
        raise NotModelled("launches of CUDA and of Triton, one after another")
    return PtxRun(module, launch, numbers, kernel.names, before, rounds=rounds)


def _ended(plan: PtxRun, budget: Budget) -> int:
    try:
        work = plan.run(budget.left())
    except (TooMuch, MemoryError):
        budget.left()
        raise CannotRun("too large: more operations than there may be") from None
    except NotReadable as error:
        raise CannotRun(str(error)) from None
    unknown = plan.memory.unknown()
    if unknown:
        raise CannotRun(next(iter(unknown.values())))
    return work


def _evaluated(
    launch: Launch,
    module: Module,
    memory: Memory,
    budget: Budget,
    plan: ExactPlan | None,
    kernel: Kernel,
    order: Order,
) -> Outcome:
    programs = kernel.programs
    if programs is None:
        programs = np.arange(launch.program_count, dtype=np.int64)
    programs, at_once = order.of(programs)
    outcome = evaluate(
        module,
        module.kernel,
        launch,
        memory,
        programs=programs,
        limits=budget.left(),
        track=Track(left_out=False),
        plan=plan,
        at_once=at_once,
    )
    if not outcome.complete:
        budget.left()
        raise CannotRun(outcome.reason or "it did not end")
    if outcome.unknown_contents:
        raise CannotRun(outcome.unknown_contents[0][1])
    if outcome.forked and plan is not None:
        raise CannotRun("programs go by an integer that has no value")
    return outcome


@dataclass
class Left:
    """What a run in the kernel's own types left: bytes; of a CUDA kernel, floats apart."""

    memory: Memory
    floats: FloatMemory | None = None

    def floats_at(self, storage: int, element: FloatType, places: Ints) -> Array:
        """These elements, as float64."""
        if self.floats is not None and storage in self.floats.storages:
            return self.floats.storages[storage].read(places)
        width = element.width // 8
        held = self.memory.storage(storage)
        held.need(places * width, width)
        return formats.decode(held.view(width)[places], element.name).astype(np.float64)


def run_in_own_types(kernel: Kernel, numbers: Numbers, like: FloatMemory, budget: Budget) -> Left:
    """The kernel as the sanitizer runs it, on what ``numbers`` draws for the storages of ``like``.

    Raises CannotRun.
    """
    contents = _Drawn(kernel, numbers, {index: held.element for index, held in like.storages.items()})
    memory: Memory | None = None
    plan: PtxRun | None = None
    for launch, module in zip(kernel.launches, kernel.modules, strict=True):
        if isinstance(module, code.Module):
            plan = _ptx(launch, module, numbers, kernel, plan, rounds=True)
            _ended(plan, budget)
            continue
        launch = replace(launch, contents=contents)
        memory = Memory(launch, memory)
        _evaluated(launch, module, memory, budget, None, kernel, IN_ORDER)
    if plan is not None:
        return Left(plan.memory, plan.floats)
    assert memory is not None
    return Left(memory)


class _Drawn:
    """Float storages as they are drawn, the others as they are."""

    def __init__(self, kernel: Kernel, numbers: Numbers, elements: dict[int, FloatType]) -> None:
        self._kernel, self._numbers, self._elements = kernel, numbers, elements

    def read(self, storage: int) -> PagedBytes | None:
        element = self._elements.get(storage)
        contents: Contents = self._kernel.launch.contents
        if element is None:
            return contents.read(storage)
        size, width = self._kernel.launch.storages[storage].size_bytes, element.width // 8
        key = named(self._kernel.names[storage])

        def fetch(runs: Sequence[Run], data: Bytes) -> None:
            for start, end in runs:
                first, last = start // width, end // width
                drawn = self._numbers.drawn(key, np.arange(first, last), element.name)
                bits = formats.encode(formats.rounded(drawn, element.name), element.name)
                data[first * width : last * width] = np.ascontiguousarray(bits).view(np.uint8)

        return PagedBytes.fetched(size, fetch)

    def unwritten(self, storage: int) -> Unwritten | None:
        return None
