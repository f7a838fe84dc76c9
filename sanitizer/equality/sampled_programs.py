"""Some programs of two launches that are too large to run whole, with all that bears on what they store.

What those programs store is what the whole launches store there, so a difference is one of the launches.
Equal stores say nothing about the other programs: a sample is never a proof.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kerncap.sanitizer.concrete.dataflow import ATOMICS, MEMORY, WRITERS, Dataflow
from kerncap.sanitizer.concrete.events import AccessEvent
from kerncap.sanitizer.concrete.memory import NOWHERE, Memory
from kerncap.sanitizer.concrete.needed_operations import Slice, address_operands, addresses, needed
from kerncap.sanitizer.concrete.plan import Plan
from kerncap.sanitizer.concrete.run import Limits, Track, evaluate
from kerncap.sanitizer.concrete.values import Incomplete, where, width_bytes
from kerncap.sanitizer.equality.compared_memory import pairs
from kerncap.sanitizer.equality.kernel_runs import Budget, CannotRun, Kernel, Part, run
from kerncap.sanitizer.equality.numbers import Bools, Ints, NotModelled, Numbers
from kerncap.sanitizer.equality.plan_values import in_memory
from kerncap.sanitizer.equality.ptx import code
from kerncap.sanitizer.paged_bytes import zeros

_MOST_PROGRAMS = 64  # of each kernel, that are chosen
_WORK = 30_000_000  # operations on elements, of what is chosen of a kernel in one run
_RUNS = 5  # of the fields, that a proof costs at least, with the search for inputs
_FEW = 64  # programs that say what all cost
_TRACK = Track(left_out=False)


@dataclass(frozen=True)
class Sample:
    """``programs``: of each launch, how many are run, and of how many; ``kernels``: with those chosen."""

    kernels: tuple[Kernel, Kernel]
    programs: tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class Cost:
    """Of one program in one run: operations on elements, and seconds."""

    work: float
    seconds: float


def cost_of(kernel: Kernel, numbers: Numbers, budget: Budget) -> Cost | None:
    """None for what can't be run in part."""
    if len(kernel.launches) != 1 or isinstance(kernel.modules[0], code.Module):
        return None
    every = kernel.launch.program_count
    found = Cost(0.0, 0.0)
    for count in (1, min(_FEW, every)):
        start = time.thread_time()
        part = Part(np.linspace(0, every - 1, count).astype(np.int64), {}, 1)
        work = run(replace(kernel, part=part), numbers, budget).work
        found = Cost(work / count, (time.thread_time() - start) / count)
        if work > _WORK / _FEW:  # so much that it says enough
            break
    return found


def is_too_large(kernels: Sequence[Kernel], costs: Sequence[Cost], limits: Limits) -> bool:
    every = [(one.launch.program_count, cost) for one, cost in zip(kernels, costs, strict=True)]
    work = _RUNS * sum(count * cost.work for count, cost in every)
    seconds = _RUNS * sum(count * cost.seconds for count, cost in every)
    return work > limits.element_operations or seconds > limits.seconds


def take(first: Kernel, second: Kernel, costs: Sequence[Cost], budget: Budget, seed: int) -> Sample:
    """Programs chosen at random, of each kernel the first and the last too, and all that store there as well.

    Raises NotModelled and CannotRun: for programs that read what others store, among others.
    """
    same = pairs(first, second)
    sides = _Side(first, budget), _Side(second, budget)
    cell = min(one.cell for one in sides)
    stored: dict[int, Bools] = {}  # by the first's storages
    names = [{one: one for one, _ in same}, {other: one for one, other in same}]
    for side, name, cost in zip(sides, names, costs, strict=True):
        chosen = _chosen(side.kernel.launch.program_count, cost, seed)
        for storage, cells in side.accesses(chosen, cell, loads=False).items():
            if storage in name:
                held = stored.setdefault(name[storage], np.zeros_like(cells))
                if held.shape != cells.shape:
                    raise NotModelled("memory of two sizes")
                held |= cells
    there = dict(same)
    regions: list[Mapping[int, Bools]] = [stored, {there[one]: cells for one, cells in stored.items()}]
    kernels, programs = [], []
    for side, region, cost in zip(sides, regions, costs, strict=True):
        storing, known = side.storing_to(region, cell)
        if len(storing) * cost.work > _MOST_PROGRAMS * _WORK:
            raise NotModelled(f"{len(storing):,} programs store to the same places")
        reads = side.accesses(storing, cell, loads=True)
        shared = {one: cells for one, cells in reads.items() if one in known}
        if shared and np.setdiff1d(side.storing_to(shared, cell)[0], storing).size:
            raise NotModelled("programs that read what others store")
        kernels.append(replace(side.kernel, part=Part(storing, region, cell)))
        programs.append((len(storing), side.kernel.launch.program_count))
    return Sample((kernels[0], kernels[1]), (programs[0], programs[1]))


def _chosen(every: int, cost: Cost, seed: int) -> Ints:
    count = min(every, _MOST_PROGRAMS, max(1, int(_WORK / max(cost.work, 1.0))))
    generator = np.random.default_rng([seed, every])
    ends = np.array([0, every - 1][: min(count, every)])
    drawn = generator.choice(every, count, replace=False)
    return np.unique(np.concatenate([ends, drawn]))


class _Side:
    """A launch of which only addresses are evaluated. ``cell``: bytes of the smallest access."""

    def __init__(self, kernel: Kernel, budget: Budget) -> None:
        [module] = kernel.modules
        assert not isinstance(module, code.Module)
        self.kernel, self._module, self._budget = kernel, module, budget
        flow = Dataflow(module, module.kernel, kernel.launch)
        self._all = addresses(flow)
        self._check(flow)
        stores = [one for one in flow.operations if one.name in WRITERS]
        self._stores = needed(flow, stores, [value for one in stores for value in address_operands(one)])
        widths = [width_bytes(in_memory(one)) for one in flow.operations if one.name in MEMORY]
        self.cell = min(widths, default=1)

    def _check(self, flow: Dataflow) -> None:
        """Raise NotModelled if what other programs do may change where these go, or what atomics give."""
        used = {value for one in flow.operations for value in one.operands}
        for one, _ in flow.writers():
            if one in self._all.evaluated:
                raise NotModelled(f"{where(one)} decides which memory is accessed")
            if one.name not in WRITERS:
                raise NotModelled(f"{where(one)} may store anywhere")
        for one in flow.operations:
            adds = one.name == "tt.atomic_rmw" and used.isdisjoint(one.results)
            if one.name in ATOMICS and not adds:
                raise NotModelled(f"{where(one)} depends on other programs")

    def _evaluated(self, programs: Ints | None, sliced: Slice, observer: _Cells) -> None:
        launch, kernel = self.kernel.launch, self._module.kernel
        plan = Plan(self._module, kernel, launch, _TRACK, sliced, None)
        outcome = evaluate(
            self._module, kernel, launch, observer.memory, programs=programs, observer=observer,
            limits=self._budget.left(), track=_TRACK, plan=plan,
        )  # fmt: skip
        if not outcome.complete:
            raise CannotRun(outcome.reason or "it did not end")

    def accesses(self, programs: Ints, cell: int, *, loads: bool) -> dict[int, Bools]:
        """By storage, the cells that these programs load, or those that they store to."""
        observer = _Accessed(self.kernel, cell, loads)
        self._evaluated(programs, self._all, observer)
        return observer.found

    def storing_to(self, region: Mapping[int, Bools], cell: int) -> tuple[Ints, set[int]]:
        """Of all programs those that store to any of these cells; and all storages that are stored to."""
        observer = _Storing(self.kernel, cell, region)
        self._evaluated(None, self._stores, observer)
        return np.flatnonzero(observer.found), observer.storages


class _Cells:
    """Looks at accesses as cells of a storage."""

    def __init__(self, kernel: Kernel, cell: int) -> None:
        self._launch, self._cell = kernel.launch, cell
        self.memory = Memory(kernel.launch)

    def count(self, storage: int) -> int:
        return -(-self._launch.storages[storage].size_bytes // self._cell)

    def access(self, event: AccessEvent) -> None:
        raise NotImplementedError

    def _located(self, event: AccessEvent) -> Iterator[tuple[int, Ints, Bools]]:
        """By storage: cells, and which of them are accessed."""
        storage, inside = self.memory.locate(event.argument, event.offsets)
        for one in [storage] if isinstance(storage, int) else np.unique(storage):
            if one == NOWHERE:
                continue
            size = self._launch.storages[int(one)].size_bytes
            here = event.mask & (inside >= 0) & (inside <= size - event.width_bytes)
            here = here if isinstance(storage, int) else here & (storage == one)
            for part in range(0, event.width_bytes, self._cell):
                first = inside + part
                if (first[here] % self._cell).any():
                    raise Incomplete("an access between elements")
                yield int(one), np.where(here, first, 0) // self._cell, here


class _Accessed(_Cells):
    def __init__(self, kernel: Kernel, cell: int, loads: bool) -> None:
        super().__init__(kernel, cell)
        self._loads = loads
        self.found: dict[int, Bools] = {}

    def access(self, event: AccessEvent) -> None:
        if (event.kind == "load") != self._loads:
            return
        for storage, cells, here in self._located(event):
            if storage not in self.found:
                self.found[storage] = zeros(self.count(storage)).view(np.bool_)
            self.found[storage][cells[here]] = True


class _Storing(_Cells):
    def __init__(self, kernel: Kernel, cell: int, region: Mapping[int, Bools]) -> None:
        super().__init__(kernel, cell)
        self._region = region
        self.storages: set[int] = set()
        self.found: Bools = np.zeros(kernel.launch.program_count, dtype=np.bool_)

    def access(self, event: AccessEvent) -> None:
        if event.kind == "load":
            return
        for storage, cells, here in self._located(event):
            self.storages.add(storage)
            if storage in self._region:
                hit = self._region[storage][cells] & here
                self.found[event.programs[hit.reshape(len(hit), -1).any(axis=1)]] = True
