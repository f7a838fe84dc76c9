"""One generated launch: source, tensors, numbers, grid. Run by brute force, or handed to the sanitizer."""

from __future__ import annotations

import linecache
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from tests.fuzz.sanitizer.judge import Verdict, judge
from tests.fuzz.sanitizer.language import Argument, Machine, Store, dtype_of
from tests.fuzz.sanitizer.tile import GENERATED, RUN, Value, distinct

Programs = list[tuple[int, int, int]]
ELASTIC = 4096  # elements that an elastic storage repeats


@dataclass(frozen=True)
class Tensor:
    """``size`` and ``origin`` count elements: the storage's extent, and where the argument begins in it.

    None: as large as the kernel asks for (`fitted` decides). ``same_as``: shares that argument's storage.
    """

    name: str
    kind: str
    contents: tuple[int, int] = (-8, 8)  # integers from low to high, high not among them
    rising: bool = False  # sorted contents: offsets of segments
    fresh: bool = False
    size: int | None = None
    origin: int = 0
    same_as: str | None = None
    length: int | None = None  # of the tensor itself (view bounds); None: the rest of the storage
    distinct: bool = False  # no number stands twice among the contents
    columns: int = 1  # with a pitch: rows of so many elements, so far apart
    pitch: int = 0

    def shape(self, elements: int) -> tuple[int, int]:
        """Of a tensor with a pitch, in so many elements of a storage."""
        columns = min(self.columns, elements)
        return (elements - columns) // self.pitch + 1, columns


@dataclass(frozen=True)
class Case:
    """``arguments`` are the numbers by name, constexprs as well, in no order."""

    seed: int
    source: str
    tensors: tuple[Tensor, ...]
    numbers: dict[str, int] = field(default_factory=dict)
    constexprs: frozenset[str] = frozenset()
    grid: tuple[int, int, int] = (1, 1, 1)
    view_bounds: bool = False
    steering: frozenset[str] = frozenset()  # tensors whose contents lead to addresses, masks or bounds
    any_order: bool = False  # what an atomic gave back leads to addresses: other orders of programs differ
    variant: int = 0  # of the launches of one kernel: other contents

    @property
    def name(self) -> str:
        """What `campaign --seed` takes."""
        return f"{self.seed}.{self.variant}" if self.variant else str(self.seed)

    @property
    def programs(self) -> list[tuple[int, int, int]]:
        """In the order in which they run."""
        return [(x, y, z) for z, y, x in product(*(range(n) for n in self.grid[::-1]))]

    @property
    def file(self) -> str:
        return f"{GENERATED}case_{self.seed}.py"

    def tensor(self, name: str) -> Tensor:
        return next(one for one in self.tensors if one.name == name)


def contents_of(case: Case, tensor: Tensor, size: int) -> Any:
    """Elements of a storage: the same for every size, up to it."""
    owner = case.tensor(tensor.same_as) if tensor.same_as else tensor
    names = [one.name for one in case.tensors]
    random = np.random.default_rng((case.seed, names.index(owner.name), case.variant))
    low, high = owner.contents
    values = random.integers(low, max(high, low + 1), max(size, ELASTIC))
    if owner.distinct:
        values = random.permutation(values.size)
    if owner.rising:
        values = np.cumsum(np.abs(values))
    return values[:size].astype(dtype_of(owner.kind))


ORDERS = 4  # of programs, that a launch is tried in whose result depends on it


def brute_force(case: Case) -> Verdict:
    """Every program and lane, and what that means. Raises Undecidable."""
    found = _judged(case, case.programs)
    if case.any_order:
        # What one order of programs does wrong is wrong; what others do right is not shown to be.
        found.any_order = True
        for order in _orders(case):
            found.add(_judged(case, order))
    if found.unwritten:
        found.settle_unwritten(_garbage_shows(case))
    return found


# All other bits, and numbers that are larger than any of the contents, of either sign.
_GARBAGE = (0xFF, 0x55, 0xAA)


def _garbage_shows(case: Case) -> bool:
    """Whether the launch does something else with other bits in memory that nobody wrote."""
    one = interpret(case)
    return any(_differ(one, interpret(case, garbled=bits)) for bits in _GARBAGE)


def _differ(one: Machine, other: Machine) -> bool:
    if len(one.events) != len(other.events) or one.steered != other.steered:
        return True
    for a, b in zip(one.events, other.events, strict=True):
        if (a.kind, a.line, a.program) != (b.kind, b.line, b.program):
            return True
        for mine, theirs in ((a.lanes, b.lanes), (a.region, b.region), (a.relative, b.relative)):
            if not np.array_equal(mine, theirs):
                return True
    return any(
        (a.contents != b.contents)[a.written].any() for a, b in zip(one.stores, other.stores, strict=True)
    )


def with_zeros(case: Case) -> Verdict:
    """Of one order of programs, if sums take left-out lanes for zeros and stores of these zeros are none."""
    return _judged(case, case.programs, zeros=True)


def _judged(case: Case, order: Programs, zeros: bool = False) -> Verdict:
    machine = interpret(case, order, zeros=zeros)
    if zeros and not machine.failed:
        for event in machine.events:
            if event.kind == "store":
                event.undefined_value = event.undefined_value & (event.values != 0)
    return judge(machine, order, _views(case, machine) if case.view_bounds else None)


def _orders(case: Case) -> Iterator[Programs]:
    yield case.programs[::-1]
    choose = random.Random(case.seed)
    for _ in range(ORDERS - 2):
        yield choose.sample(case.programs, len(case.programs))


def interpret(case: Case, order: Programs | None = None, garbled: int = 0, zeros: bool = False) -> Machine:
    """Runs every program, one after the other.

    ``garbled``: bits that are turned over in each byte that nobody wrote. ``zeros``: see `tile.Run`.
    """
    machine = Machine([], [], case.grid)
    by_name: dict[str, int] = {}
    for tensor in case.tensors:
        owner = case.tensor(tensor.same_as) if tensor.same_as else tensor
        if owner.name not in by_name:
            elastic = owner.size is None
            contents = contents_of(case, owner, ELASTIC if elastic else owner.size or 0)
            if garbled and owner.fresh:
                contents = (contents.view(np.uint8) ^ np.uint8(garbled)).view(contents.dtype)
            written = np.full(contents.size, not owner.fresh)
            by_name[owner.name] = len(machine.stores)
            machine.stores.append(Store(contents, written, elastic))
        machine.arguments.append(Argument(tensor.name, tensor.kind, by_name[owner.name], tensor.origin))
    scope = machine.namespace()
    exec(compile(case.source, case.file, "exec"), scope)
    given: dict[str, Any] = {one.name: machine.pointer(at) for at, one in enumerate(case.tensors)}
    for name, number in case.numbers.items():
        kind = "i32" if -(1 << 31) <= number < (1 << 31) else "i64"
        # Triton makes a constexpr of a 1.
        given[name] = number if name in case.constexprs or number == 1 else Value(number, kind)
    RUN.zeros, RUN.failed, RUN.settled = zeros, machine.failed, False
    with np.errstate(all="ignore"):
        for machine.number, machine.program in enumerate(order or case.programs):
            scope["kernel"](**given)
    machine.settled = RUN.settled
    return machine


def _views(case: Case, machine: Machine) -> list[Any]:
    views = []
    for tensor, argument in zip(case.tensors, machine.arguments, strict=True):
        view = np.zeros(machine.stores[argument.store].contents.size, np.bool_)
        end = None if tensor.length is None else tensor.origin + tensor.length
        view[tensor.origin : end] = True
        if tensor.pitch:
            rows, columns = tensor.shape(int(view.sum()))
            index = np.arange(view.size) - tensor.origin
            view &= (index % tensor.pitch < columns) & (index // tensor.pitch < rows)
        views.append(view)
    return views


def ranges(machine: Machine) -> dict[str, tuple[int, int]]:
    """By argument, the lowest and the highest element that was accessed, from the argument's first."""
    found: dict[str, tuple[int, int]] = {}
    for event in machine.events:
        for region in distinct(event.region):
            name = machine.arguments[region].name
            relative = event.relative[event.region == region]
            low, high = found.get(name, (0, 0))
            found[name] = min(low, int(relative.min())), max(high, int(relative.max()))
    return found


LARGEST = 1 << 16  # elements of a storage that is really allocated


def fitted(case: Case, machine: Machine, spare: dict[str, int]) -> Case:
    """With storages as large as the launch needs, and ``spare`` elements at the end (negative: fewer)."""
    asked = ranges(machine)
    origins: dict[str, int] = {}
    ends: dict[str, int] = {}
    for tensor in case.tensors:
        owner = tensor.same_as or tensor.name
        low, high = asked.get(tensor.name, (0, 0))
        origins[owner] = min(max(origins.get(owner, 0), -low - min(tensor.origin, 0)), LARGEST)
        ends[owner] = min(max(ends.get(owner, 1), high + 1 + max(tensor.origin, 0)), LARGEST)
    done = []
    for tensor in case.tensors:
        owner = tensor.same_as or tensor.name
        size = max(origins[owner] + ends[owner] + spare.get(owner, 0), 1)
        origin = min(origins[owner] + max(tensor.origin, 0), size - 1)
        done.append(replace(tensor, size=size, origin=origin))
    return replace(case, tensors=tuple(done))


# --- for the sanitizer ---------------------------------------------------------------------------------


class _Known:
    """Contents that say who wrote what."""

    def __init__(self, contents: Any, fresh: set[int]) -> None:
        self._contents = contents
        self._fresh = fresh

    def read(self, storage: int) -> Any:
        return self._contents.read(storage)

    def unwritten(self, storage: int) -> Any:
        from kerncap.sanitizer.launch import Unwritten

        return Unwritten.of(np.full(self._contents.read(storage).size, storage not in self._fresh))


@lru_cache(maxsize=1)
def jit_function(file: str, source: str, name: str = "kernel") -> Any:
    """A kernel under `triton.jit`; the source has a name but no file. Launches of one kernel share it."""
    linecache.clearcache()
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"__name__": "generated"}
    exec(compile("import triton\nimport triton.language as tl\n", file, "exec"), scope)
    exec(compile(source, file, "exec"), scope)
    return scope[name]


def launch_of(case: Case) -> Any:
    """The launch as the sanitizer's front end makes it. What fails in Triton's compiler is raised."""
    import torch

    from kerncap.sanitizer.launch import TensorArgument
    from kerncap.sanitizer.sources.triton_call import launches_of

    storages: dict[str, Any] = {}
    given: dict[str, Any] = dict(case.numbers)
    for tensor in case.tensors:
        owner = tensor.same_as or tensor.name
        if owner not in storages:
            storages[owner] = torch.from_numpy(contents_of(case, tensor, tensor.size or 0))
        view = storages[owner][tensor.origin :][: tensor.length]
        if tensor.pitch:
            view = view.as_strided(tensor.shape(view.numel()), (tensor.pitch, 1))
        given[tensor.name] = view
    kernel = jit_function(case.file, case.source)
    [launch] = launches_of(kernel, case.grid, (), given)
    fresh = {
        argument.storage
        for argument in launch.arguments
        if isinstance(argument, TensorArgument)
        and (case.tensor(argument.name).fresh or any(
            one.fresh and one.name == case.tensor(argument.name).same_as for one in case.tensors
        ))
    }  # fmt: skip
    return replace(launch, contents=_Known(launch.contents, fresh))
