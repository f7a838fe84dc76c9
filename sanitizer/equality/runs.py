"""One run of a kernel over `Numbers`, or in its own types on inputs that were made up."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kerncap.sanitizer.concrete import formats
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.run import Limits, Outcome, Track, evaluate
from kerncap.sanitizer.equality.float_memory import FloatMemory
from kerncap.sanitizer.equality.numbers import Array, Ints, NotModelled, Numbers, named
from kerncap.sanitizer.equality.operations import ExactPlan
from kerncap.sanitizer.launch import Contents, Launch, Unwritten
from kerncap.sanitizer.paged_bytes import Bytes, PagedBytes, Run
from kerncap.sanitizer.ttir.ir import FloatType, Module


@dataclass(frozen=True)
class Kernel:
    """A launch, read. ``names``: of its storages; those of one name in two launches are the same memory."""

    launch: Launch
    module: Module
    names: tuple[str, ...]


class CannotRun(Exception):
    """A run that did not come to its end, and why."""


class Budget:
    """What all runs of one proof may take together in seconds, and each in operations on elements."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._end = time.monotonic() + limits.seconds

    def left(self) -> Limits:
        """For the next run. Raises CannotRun if nothing is left."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise CannotRun(f"too large: more than {self._limits.seconds:g} s")
        return replace(self._limits, seconds=seconds)


@dataclass
class Ran:
    plan: ExactPlan
    outcome: Outcome

    @property
    def floats(self) -> FloatMemory:
        return self.plan.floats


def run(kernel: Kernel, numbers: Numbers, budget: Budget, filler: Array | None = None) -> Ran:
    """All programs. ``filler``: in lanes that a load leaves out, instead of zero. Raises CannotRun."""
    plan = ExactPlan(kernel.module, kernel.module.kernel, kernel.launch, numbers, kernel.names, filler)
    outcome = evaluate(
        kernel.module,
        kernel.module.kernel,
        kernel.launch,
        plan.memory,
        limits=budget.left(),
        track=Track(left_out=False),
        plan=plan,
    )
    if not outcome.complete:
        budget.left()
        raise CannotRun(outcome.reason or "it did not end")
    if outcome.unknown_contents:
        raise CannotRun(outcome.unknown_contents[0][1])
    return Ran(plan, outcome)


def run_in_own_types(kernel: Kernel, numbers: Numbers, like: FloatMemory, budget: Budget) -> Memory:
    """The kernel as the sanitizer runs it, on what ``numbers`` draws for the storages of ``like``.

    Raises CannotRun.
    """
    contents = _Drawn(kernel, numbers, {index: held.element for index, held in like.storages.items()})
    launch = replace(kernel.launch, contents=contents)
    memory = Memory(launch)
    outcome = evaluate(
        kernel.module, kernel.module.kernel, launch, memory, limits=budget.left(), track=Track(left_out=False)
    )
    if not outcome.complete or outcome.unknown_contents:
        raise CannotRun(outcome.reason or outcome.unknown_contents[0][1])
    return memory


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


def floats_of(memory: Memory, storage: int, element: FloatType, places: Ints) -> Array:
    """What a run in the kernel's own types left at these elements, as float64."""
    width = element.width // 8
    held = memory.storage(storage)
    held.need(places * width, width)
    return formats.decode(held.view(width)[places], element.name).astype(np.float64)


def pairs(first: Kernel, second: Kernel) -> list[tuple[int, int]]:
    """Storages that are the same memory."""
    there = {name: index for index, name in enumerate(second.names)}
    return [(index, there[name]) for index, name in enumerate(first.names) if name in there]


def check_types(first: Kernel, second: Kernel, a: Ran, b: Ran) -> None:
    """Raise NotModelled if two kernels take the same memory for elements of two types."""
    for one, other in pairs(first, second):
        held, against = a.floats.storages.get(one), b.floats.storages.get(other)
        mixed = one in a.floats.integers and against or other in b.floats.integers and held
        if mixed or held and against and held.element != against.element:
            raise NotModelled(f"they take {first.names[one]} for different types")


def written(a: Ran, b: Ran, pair: tuple[int, int]) -> Ints:
    """Elements of a storage that either stored floats to; both take it for one type."""
    flags = [
        ran.floats.storages[index].written
        for ran, index in zip((a, b), pair, strict=True)
        if index in ran.floats.storages
    ]
    return np.flatnonzero(np.logical_or.reduce(flags)) if flags else np.zeros(0, dtype=np.int64)


def integers_that_differ(
    a: Ran, b: Ran, same: Sequence[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int], int]]:
    """Storages, and the first byte, where what was stored of integers differs."""
    changed = [ran.plan.memory.changed() for ran in (a, b)]
    for pair in same:
        runs = {
            (start, start + len(after))
            for stored, index in zip(changed, pair, strict=True)
            for start, _, after in stored.get(index, [])
        }
        for start, end in sorted(runs):
            here, there = (
                _bytes(ran.plan.memory, index, start, end) for ran, index in zip((a, b), pair, strict=True)
            )
            unlike = np.flatnonzero(here != there)
            if unlike.size:
                yield pair, start + int(unlike[0])
                break


def _bytes(memory: Memory, storage: int, start: int, end: int) -> Bytes:
    held = memory.storage(storage)
    held.need(np.arange(start, end, dtype=np.int64), 1)
    return held.bytes[start:end]
