"""The names of `triton.language` that generated kernels use, over `tile`, with every access recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.fuzz.sanitizer.hints import Descriptor, Promise
from tests.fuzz.sanitizer.tile import (
    HALF_REGION,
    REGION_BITS,
    Undecidable,
    Value,
    distinct,
    lift,
    line_of_kernel,
    spread,
)  # fmt: skip
from tests.fuzz.sanitizer.tile_functions import (
    applied,
    binned,
    choose,
    counted,
    extreme,
    fold,
    gathered,
    interleaved,
    magnitude,
    ordered,
    place_of,
    running_sum,
)  # fmt: skip

MOST_ACCESSES = 60_000


@dataclass
class Store:
    """One storage. ``elastic``: it is as large as anybody asks, and repeats its contents."""

    contents: Any  # elements
    written: Any  # bool per element
    elastic: bool = False


@dataclass
class Argument:
    """A tensor argument: ``origin`` is where its element [0] lies in the storage, in elements."""

    name: str
    kind: str  # of an element
    store: int
    origin: int


@dataclass
class Event:
    """One memory operation of one program. Arrays hold the elements that are accessed, flat."""

    kind: str
    line: int
    program: int
    lanes: Any
    shape: tuple[int, ...]
    region: Any
    relative: Any  # elements from the argument's first
    values: Any  # what a store writes, as bits
    unwritten: Any  # by the program's start: nobody wrote it, and this program did not either
    wrong: Any  # the address is another one than it would be without any wrap-around
    wrapped: bool
    undefined_place: Any
    undefined_value: Any


@dataclass
class Machine:
    """Runs programs one after the other in ``stores``, which they change."""

    arguments: list[Argument]
    stores: list[Store]
    grid: tuple[int, int, int]
    events: list[Event] = field(default_factory=list)
    # Masks that are undefined: line, argument's region, program.
    steered: list[tuple[int, int, int]] = field(default_factory=list)
    program: tuple[int, int, int] = (0, 0, 0)
    number: int = 0
    promises: list[Promise] = field(default_factory=list)
    # Descriptors that break their contract, where they are used: line, argument, program.
    misused: list[tuple[int, str, int]] = field(default_factory=list)
    failed: set[tuple[int, str]] = field(default_factory=set)  # see `tile.Run`
    settled: bool = False

    def pointer(self, position: int) -> Value:
        return Value((position << REGION_BITS) + HALF_REGION, f"p:{self.arguments[position].kind}")

    def located(self, pointer: Value) -> tuple[Argument, int]:
        """The argument that a scalar pointer comes from, and the element from its first."""
        address = int(pointer.data)
        region = address >> REGION_BITS
        return self.arguments[region], address - (region << REGION_BITS) - HALF_REGION

    # --- what kernels call ---------------------------------------------------------------------------

    def load(self, pointer: Value, mask: Any = None, other: Any = None) -> Value:
        kind = pointer.kind[2:]
        shape, addresses, live, region, element = self._place("load", pointer, mask, None)
        values = np.zeros(addresses.size, _DTYPES[kind])
        self._read(region, element, live, values)
        undefined: Any = False
        missing = ~live
        if missing.any():
            if other is None:
                undefined = missing.reshape(shape)
            else:
                filler = lift(other, kind)
                values[missing] = spread(filler.data, shape).ravel()[missing]
                if filler.undefined is not False:
                    undefined = spread(filler.undefined, shape) & missing.reshape(shape)
        if pointer.undefined is not False:  # nobody knows which element it is
            undefined = undefined | (spread(pointer.undefined, shape) & live.reshape(shape))
        if isinstance(mask, Value) and mask.undefined is not False:
            undefined = undefined | spread(mask.undefined, shape)
        data = values if kind[0] == "f" else values.astype(np.int64)
        if not shape:
            return Value(data[0] if kind[0] == "f" else int(data[0]), kind, None, undefined)
        return Value(data.reshape(shape), kind, None, undefined)

    def store(self, pointer: Value, value: Any, mask: Any = None) -> None:
        kind = pointer.kind[2:]
        value = lift(value, kind).to(kind)
        shape, _, live, region, element = self._place("store", pointer, mask, value)
        bits = spread(np.asarray(value.data), shape).ravel().astype(_DTYPES[kind])
        for position in distinct(region[live]):
            argument = self.arguments[position]
            one = self.stores[argument.store]
            chosen = np.flatnonzero(live & (region == position))
            at = element[chosen] + argument.origin
            inside = (at >= 0) & (at < one.contents.size)
            one.contents[at[inside]] = bits[chosen][inside]
            one.written[at[inside]] = True

    def atomic(self, operation: Any, pointer: Value, value: Any, mask: Any = None, sem: Any = None) -> Value:
        """``operation``: of what was there and the operand. The lanes come one after the other."""
        kind = pointer.kind[2:]
        value = lift(value, kind).to(kind)
        shape, addresses, live, region, element = self._place("atomic", pointer, mask, value)
        operands = spread(np.asarray(value.data), shape).ravel().astype(_DTYPES[kind])
        before = np.zeros(addresses.size, _DTYPES[kind])
        one_lane = np.zeros(addresses.size, np.bool_)
        for lane in np.flatnonzero(live):
            one_lane[lane] = True
            self._read(region, element, one_lane, before)
            one_lane[lane] = False
            argument = self.arguments[int(region[lane])]
            one = self.stores[argument.store]
            at = int(element[lane]) + argument.origin
            if 0 <= at < one.contents.size:
                one.contents[at] = operation(before[lane], operands[lane])
                one.written[at] = True
        undefined = ~live.reshape(shape) if shape and not live.all() else False
        data = before if kind[0] == "f" else before.astype(np.int64)
        if not shape:
            return Value(data[0] if kind[0] == "f" else int(data[0]), kind, None, not live.all())
        return Value(data.reshape(shape), kind, None, undefined)

    # --- memory --------------------------------------------------------------------------------------

    def _read(self, region: Any, element: Any, live: Any, into: Any) -> None:
        for position in distinct(region[live]):
            argument = self.arguments[position]
            one = self.stores[argument.store]
            chosen = np.flatnonzero(live & (region == position))
            at = element[chosen] + argument.origin
            if one.elastic:
                into[chosen] = one.contents[at % one.contents.size]
                continue
            inside = (at >= 0) & (at < one.contents.size)
            into[chosen[inside]] = one.contents[at[inside]]

    def _place(self, kind: str, pointer: Value, mask: Any, value: Value | None) -> Any:
        if len(self.events) >= MOST_ACCESSES:
            raise Undecidable("too many accesses")
        shape = pointer.shape
        condition = lift(True if mask is None else mask)
        others = {
            one for one in (condition.shape, () if value is None else value.shape) if one not in ((), shape)
        }
        shape = np.broadcast_shapes(shape, *others) if others else shape
        addresses = spread(pointer.data, shape).astype(np.int64).ravel()
        live = spread(condition.data, shape).ravel()
        region = addresses >> REGION_BITS
        element = addresses - (region << REGION_BITS) - HALF_REGION
        lanes = np.flatnonzero(live)
        line = line_of_kernel()
        if region.size and not 0 <= int(region[0]) < len(self.arguments):
            raise Undecidable("an address between the tensors")
        if condition.undefined is not False and np.any(condition.undefined):
            self.steered.append((line, int(region[0]), self.number))
        if lanes.size:
            wrong = _flags(False if pointer.exact is None else pointer.exact != pointer.data, shape, lanes)
            if condition.exact is not None and _is_of(condition, addresses.reshape(shape)):
                wrong = wrong | ~spread(condition.exact, shape).ravel()[lanes]
            values = None
            if kind == "store" and value is not None:
                dtype = _DTYPES[value.kind]
                values = spread(np.asarray(value.data), shape).ravel()[lanes].astype(dtype)
                values = values.view(f"i{dtype.itemsize}").astype(np.int64)
            chosen_region, chosen_element = region[lanes], element[lanes]
            self.events.append(
                Event(
                    kind, line, self.number, lanes, shape, chosen_region, chosen_element, values,
                    None if kind == "store" else self._unwritten(chosen_region, chosen_element),
                    wrong, pointer.wrapped or condition.wrapped,
                    _flags(pointer.undefined, shape, lanes),
                    _flags(False if value is None else value.undefined, shape, lanes),
                )
            )  # fmt: skip
        return shape, addresses, live, region, element

    def _unwritten(self, region: Any, element: Any) -> Any:
        result = np.zeros(region.size, np.bool_)
        for position in distinct(region):
            argument = self.arguments[position]
            one = self.stores[argument.store]
            if one.elastic:
                continue
            chosen = np.flatnonzero(region == position)
            at = element[chosen] + argument.origin
            inside = (at >= 0) & (at < one.contents.size)
            result[chosen[inside]] = ~one.written[at[inside]]
        return result

    def promise(self, kind: str, value: Any, amount: Any = 0) -> Any:
        one = lift(value)
        if np.any(one.undefined):
            raise Undecidable("a promise about an undefined value")
        self.promises.append(Promise(kind, line_of_kernel(), self.number, one.data, int(amount)))
        return value

    def namespace(self) -> dict[str, Any]:
        """Globals for a kernel's source: ``tl``, ``triton`` and ``range``."""
        return {
            "tl": self._language(),
            "triton": SimpleNamespace(jit=lambda function: function),
            "range": counted,
        }

    def _language(self) -> SimpleNamespace:
        return SimpleNamespace(
            constexpr=object(), int1="i1", int8="i8", int16="i16", int32="i32", int64="i64", float32="f32",
            uint8="u8", uint16="u16", uint32="u32",
            abs=magnitude, floor=partial(applied, np.floor), sqrt=partial(applied, np.sqrt),
            flip=lambda value, axis: value.map(lambda array: np.flip(array, axis)),
            argmax=lambda value, axis: place_of(value, axis, np.argmax),
            argmin=lambda value, axis: place_of(value, axis, np.argmin),
            gather=gathered, interleave=interleaved, sort=ordered, histogram=binned,
            program_id=lambda axis: Value(self.program[axis], "i32"),
            num_programs=lambda axis: Value(self.grid[axis], "i32"),
            arange=lambda low, high: Value(np.arange(low, high), "i32"),
            zeros=lambda shape, kind: _full(shape, 0, kind),
            full=_full,
            load=self.load, store=self.store,
            **{f"atomic_{name}": partial(self.atomic, operation) for name, operation in _ATOMICS.items()},
            where=lambda condition, yes, no: choose(lift(condition), yes, no),
            minimum=lambda a, b: extreme(np.minimum, a, b),
            maximum=lambda a, b: extreme(np.maximum, a, b),
            sum=lambda value, axis=0: fold(value, axis, np.sum),
            max=lambda value, axis=0: fold(value, axis, np.max),
            min=lambda value, axis=0: fold(value, axis, np.min),
            cumsum=lambda value, axis=0: running_sum(value),
            cdiv=lambda a, b: (a + (b - 1)) // b,
            assume=lambda condition: self.promise("assume", condition),
            multiple_of=lambda value, amount: self.promise("multiple_of", value, amount),
            max_contiguous=lambda value, amount: self.promise("max_contiguous", value, amount),
            max_constancy=lambda value, amount: self.promise("max_constancy", value, amount),
            make_tensor_descriptor=lambda *given: Descriptor(self, *given),
            static_range=range, range=counted,
            broadcast_to=lambda value, shape: value.map(lambda array: np.broadcast_to(array, shape)),
            trans=lambda value: value.map(np.transpose),
            reshape=lambda value, shape: value.map(lambda array: np.reshape(array, shape)),
        )  # fmt: skip


_DTYPES = {
    "f32": np.dtype(np.float32), "i1": np.dtype(np.bool_), "i8": np.dtype(np.int8), "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32), "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8), "u16": np.dtype(np.uint16), "u32": np.dtype(np.uint32),
}  # fmt: skip


_ATOMICS = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "xchg": lambda _, new: new,
}  # fmt: skip


def dtype_of(kind: str) -> np.dtype[Any]:
    return _DTYPES[kind]


def _full(shape: Any, value: Any, kind: str) -> Value:
    data = np.full(tuple(int(one) for one in shape), value, np.float32 if kind[0] == "f" else np.int64)
    return Value(data, kind)


def _is_of(condition: Value, addresses: Any) -> bool:
    """Whether what wrapped in a mask is what the addresses step by, not some number beside it."""
    return not condition.compared or any(
        _steps_by(addresses, spread(one, addresses.shape)) for one in condition.compared
    )


def _steps_by(addresses: Any, index: Any) -> bool:
    """Whether each step along an axis is the same multiple of the index's; True if that has none."""
    factor = None
    for axis in range(addresses.ndim):
        steps = np.unique(np.diff(np.asarray(index, np.float64), axis=axis))
        if not steps.any():
            continue
        moves = np.unique(np.diff(addresses, axis=axis))
        if len(steps) > 1 or len(moves) > 1 or moves[0] == 0 or moves[0] % steps[0]:
            return False
        if factor not in (None, moves[0] // steps[0]):
            return False
        factor = moves[0] // steps[0]
    return True


def _flags(flags: Any, shape: tuple[int, ...], lanes: Any) -> Any:
    """Of some lanes of a tile."""
    return np.zeros(lanes.size, np.bool_) if flags is False else spread(flags, shape).ravel()[lanes]
