"""Loads, stores and atomics of threads: global memory over `FloatMemory`, shared memory, and their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from kerncap.sanitizer.concrete.atomics import in_order
from kerncap.sanitizer.concrete.memory import ABSOLUTE, Memory
from kerncap.sanitizer.equality.degrees import VARIABLE, Degree, degree_of, summed, widest
from kerncap.sanitizer.equality.float_memory import FloatMemory
from kerncap.sanitizer.equality.numbers import Array, Ints, NotModelled, Numbers
from kerncap.sanitizer.equality.ptx.launch import PtxLaunch
from kerncap.sanitizer.equality.ptx.races import Order, Races, cells_of
from kerncap.sanitizer.equality.ptx.shared import SharedMemory
from kerncap.sanitizer.equality.ptx.values import FLOATS, INTEGER, Value, as_float, is_float, packed, split
from kerncap.sanitizer.launch import TensorArgument
from kerncap.sanitizer.ttir.ir import FloatType

_DTYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}


class GlobalMemory:
    """``order``: of threads, None if they are known not to race; ``cell``: bytes of the smallest access.

    ``kinds``: of the floats in storages whose arguments don't say it.
    """

    def __init__(
        self,
        launch: PtxLaunch,
        memory: Memory,
        floats: FloatMemory,
        numbers: Numbers,
        order: Order | None,
        cell: int,
        kinds: Mapping[int, str],
    ) -> None:
        self.stored: dict[int, Degree] = {}  # by storage
        self._launch, self._memory, self._floats, self._numbers = launch, memory, floats, numbers
        self._order, self._cell = order, cell
        self._races: dict[int, Races] = {}
        self._functions: dict[int, str] = {}  # of atomics, by storage
        self._kinds = dict(kinds)
        for one in launch.arguments:
            if isinstance(one, TensorArgument) and one.dtype in _DTYPES:
                self._kinds.setdefault(one.storage, _DTYPES[one.dtype])

    def storage_at(self, address: int) -> int | None:
        for number, one in enumerate(self._launch.storages):
            if one.address <= address < one.address + one.size_bytes:
                return number
        return None

    def _places(self, storage: int, addresses: Array, width: int) -> Ints:
        """Byte offsets in a storage."""
        held = self._launch.storages[storage]
        offsets: Ints = (addresses - np.uint64(held.address)).view(np.int64)
        if (offsets < 0).any() or (offsets > held.size_bytes - width).any():
            raise NotModelled(f"an access outside of {held.name or 'a tensor'}")
        if (offsets % width).any():
            raise NotModelled(f"an access to {held.name or 'a tensor'} between its elements")
        return offsets

    def _race(self, storage: int) -> Races | None:
        if self._order is None:
            return None
        found = self._races.get(storage)
        if found is None:
            held = self._launch.storages[storage]
            cells = -(-held.size_bytes // self._cell) + 1
            found = self._races[storage] = Races(held.name or "a tensor", cells, self._order)
        return found

    def _element_of(self, storage: int, type_: str) -> FloatType | None:
        known = self._floats.storages.get(storage)
        if known is not None:
            return known.element
        kind = type_ if type_ in FLOATS else self._kinds.get(storage)
        return None if kind is None else FLOATS[kind]

    def word(self, storage: int) -> int:
        """Bytes of what is copied at once."""
        element = self._element_of(storage, "")
        return 4 if element is None else max(4, element.width // 8)

    def zeros(self, storage: int, count: int, width: int) -> Value:
        element = self._element_of(storage, "")
        if element is None:
            loaded = storage if self._says_nothing(storage) else None
            return Value(INTEGER, np.zeros(count, np.uint64), loaded=loaded)
        parts = 8 * width // element.width
        one = Value(element.name, np.zeros(count, self._numbers.dtype))
        return one if parts == 1 else packed((one,) * parts)

    def read_again(self, storage: int, addresses: Array, width: int, threads: Ints) -> None:
        """Raises NotModelled if anything has been stored there since."""
        race = self._race(storage)
        if race is not None:
            for cells in cells_of(self._places(storage, addresses, width), width, self._cell):
                race.read(cells, threads, constant=True)

    def _says_nothing(self, storage: int) -> bool:
        """Whether no argument says what a storage holds."""
        tensors = (one for one in self._launch.arguments if isinstance(one, TensorArgument))
        return not any(one.dtype for one in tensors if one.storage == storage)

    def load(
        self, storage: int, addresses: Array, type_: str, width: int, threads: Ints, *, constant: bool
    ) -> Value:
        """``constant``: by an instruction for memory that the kernel does not store to."""
        offsets = self._places(storage, addresses, width)
        race = self._race(storage)
        if race is not None:
            for cells in cells_of(offsets, width, self._cell):
                race.read(cells, threads, constant=constant)
        element = self._element_of(storage, type_)
        degree = widest([VARIABLE, self.stored.get(storage, VARIABLE)])
        if element is None:
            self._floats.integers_at([storage])
            found = self._memory.gather(ABSOLUTE, addresses.view(np.int64), None, width)
            if found.unknown:
                raise NotModelled(found.unknown)
            before = self.stored.get(storage, Degree())
            loaded = storage if self._says_nothing(storage) else None
            return Value(INTEGER, found.bits.astype(np.uint64), before, loaded=loaded)
        held, size = self._floats.of(storage, element), element.width // 8
        if size > width:
            raise NotModelled(f"a part of a {element.name} of {held.name}")
        first = offsets // size
        parts = [Value(element.name, held.read(first + at), degree) for at in range(width // size)]
        return parts[0] if len(parts) == 1 else packed(tuple(parts))

    def store(self, storage: int, addresses: Array, value: Value, width: int, threads: Ints) -> None:
        offsets = self._places(storage, addresses, width)
        race = self._race(storage)
        if race is not None:
            for cells in cells_of(offsets, width, self._cell):
                race.write(cells, threads)
        for number, one in enumerate(self._as_stored(storage, value, width)):
            if one.kind == INTEGER:
                self._floats.integers_at([storage])
                bits = np.broadcast_to(one.data, addresses.shape).astype(np.dtype(f"u{width}"))
                self._memory.scatter(ABSOLUTE, addresses.view(np.int64), None, bits)
            else:
                element = FLOATS[one.kind]
                size = element.width // 8
                self._floats.of(storage, element).write(offsets // size + number, one.data)
            self._put(storage, one.degree)

    def _as_stored(self, storage: int, value: Value, width: int) -> tuple[Value, ...]:
        if value.kind == INTEGER:
            element = self._element_of(storage, "")
            if element is None or not value.literal:
                return (value,)
            count = 8 * width // element.width
            parts = split(value, count, element.width) if count > 1 else (value,)
            return tuple(as_float(one, element.name, self._numbers) for one in parts)
        parts = value.parts or (value,)
        if not all(map(is_float, parts)) or sum(FLOATS[one.kind].width for one in parts) != 8 * width:
            raise NotModelled(f"a store of {value.kind} in {width} bytes")
        return parts

    def _put(self, storage: int, degree: Degree) -> None:
        self.stored[storage] = widest([degree, self.stored.get(storage, Degree())])

    def combine(
        self, storage: int, addresses: Array, function: str, compute: Compute, value: Value, width: int,
        threads: Ints,
    ) -> None:  # fmt: skip
        """An atomic operation, in any order; ``compute``: what it leaves, of what is there and an operand."""
        offsets = self._places(storage, addresses, width)
        race = self._race(storage)
        if race is not None:
            for cells in cells_of(offsets, width, self._cell):
                race.add(cells, threads)
        if self._functions.setdefault(storage, function) != function:
            raise NotModelled("atomics of two kinds, which leave something else in another order")
        operands = np.broadcast_to(value.data, offsets.shape)
        before = self.stored.get(storage, Degree())
        if value.kind == INTEGER:
            self._floats.integers_at([storage])
            places = addresses.view(np.int64)
            found = self._memory.gather(ABSOLUTE, places, None, width)
            if found.unknown:
                raise NotModelled(found.unknown)
            bits = combined(offsets, found.bits.astype(np.uint64), operands, compute)
            self._memory.scatter(ABSOLUTE, places, None, bits.astype(np.dtype(f"u{width}")))
            self._put(storage, summed([value.degree.times(_most_at(offsets)), before]))
            return
        held, cells = self._floats.of(storage, FLOATS[value.kind]), offsets // width
        held.write(cells, combined(cells, held.read(cells), operands, compute))
        self._put(storage, self._degree(function, value.degree, widest([VARIABLE, before]), cells))

    def _degree(self, function: str, added: Degree, before: Degree, places: Ints) -> Degree:
        return combined_degree(function, added, before, _most_at(places), ordered=not self._numbers.free)


Compute = Callable[[Array, Array], Array]


def _most_at(places: Ints) -> int:
    return int(np.unique(places, return_counts=True)[1].max(initial=1))


def combined(places: Ints, old: Array, operands: Array, compute: Compute) -> Array:
    """What is at each place after all operands of it."""
    return in_order(places, old, lambda found, lanes: compute(found, operands[lanes]))[1]


def combined_degree(function: str, added: Degree, before: Degree, most: int, *, ordered: bool) -> Degree:
    added = degree_of("sum", [added], terms=most) if function == "add" else added.times(most)
    return degree_of(function, [added, before], ordered=ordered)


class BlockMemory:
    """Shared memory of the blocks that run together. ``within``: a variable's first byte, and its end."""

    def __init__(self, blocks: int, size: int, numbers: Numbers, order: Order | None, cell: int) -> None:
        self.shared = SharedMemory(blocks, size, numbers)
        self._numbers = numbers
        self._functions: dict[tuple[int, int], str] = {}  # of atomics, by variable
        self._cell = cell
        self._races = None if order is None else Races("shared memory", blocks * (size // cell + 1), order)

    @staticmethod
    def _places(within: tuple[int, int], addresses: Array, width: int) -> Ints:
        offsets: Ints = addresses.view(np.int64)
        if (offsets < within[0]).any() or (offsets > within[1] - width).any():
            raise NotModelled("an access outside of a variable in shared memory")
        if (offsets % width).any():
            raise NotModelled("an access to shared memory between its elements")
        return offsets

    def _cells(self, block: Ints, offsets: Ints, width: int) -> Iterator[tuple[Races, Ints]]:
        """The race check, if it runs, and the cells of an access; each block has its own cells."""
        if self._races is not None:
            for cells in cells_of(offsets, width, self._cell):
                yield self._races, cells + block * (self.shared.size // self._cell + 1)

    def load(
        self, within: tuple[int, int], block: Ints, addresses: Array, width: int, threads: Ints
    ) -> Value:
        offsets = self._places(within, addresses, width)
        for races, cells in self._cells(block, offsets, width):
            races.read(cells, threads)
        return self.shared.load(block * self.shared.size + offsets, width)

    def _written(
        self, within: tuple[int, int], block: Ints, addresses: Array, width: int, threads: Ints
    ) -> Ints:
        offsets = self._places(within, addresses, width)
        for races, cells in self._cells(block, offsets, width):
            races.write(cells, threads)
        return offsets

    def store(
        self, within: tuple[int, int], block: Ints, addresses: Array, value: Value, width: int, threads: Ints
    ) -> None:
        offsets = self._written(within, block, addresses, width, threads)
        self.shared.store(block * self.shared.size + offsets, value, width)

    def combine(
        self, within: tuple[int, int], block: Ints, addresses: Array, function: str, compute: Compute,
        value: Value, width: int, threads: Ints,
    ) -> None:  # fmt: skip
        """As in global memory."""
        offsets = self._places(within, addresses, width)
        for races, cells in self._cells(block, offsets, width):
            races.add(cells, threads)
        if self._functions.setdefault(within, function) != function:
            raise NotModelled("atomics of two kinds, which leave something else in another order")
        places = block * self.shared.size + offsets
        held = self.shared.load(places, width)
        if held.kind != value.kind:
            raise NotModelled("shared memory that holds numbers of other types")
        operands, most = np.broadcast_to(value.data, places.shape), _most_at(places)
        data = combined(places, held.data, operands, compute)
        if value.kind == INTEGER:
            degree = summed([value.degree.times(most), held.degree])
        else:
            ordered = not self._numbers.free
            degree = combined_degree(function, value.degree, held.degree, most, ordered=ordered)
        self.shared.store(places, Value(value.kind, data, degree), width)

    def copy_to(
        self, within: tuple[int, int], block: Ints, addresses: Array, width: int, threads: Ints
    ) -> None:
        """From now on, until it is `copied`, nobody may access it."""
        offsets = self._written(within, block, addresses, width, threads)
        self.shared.begin(block * self.shared.size + offsets, width)

    def copied(
        self, within: tuple[int, int], block: Ints, addresses: Array, value: Value, width: int, threads: Ints
    ) -> None:
        offsets = self._written(within, block, addresses, width, threads)
        self.shared.end(block * self.shared.size + offsets, value, width)
