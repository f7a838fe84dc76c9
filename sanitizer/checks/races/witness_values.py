"""What the two programs of a conflict store: each of them is run alone, on the memory before the launch.

Where that is not known, or is zero because nobody has filled the memory in yet, they are run on other
contents: memory that decides no address and no condition may hold anything there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.events.elements import addresses_of, stored_bits
from kerncap.sanitizer.checks.races.sides import storage_groups
from kerncap.sanitizer.concrete import formats
from kerncap.sanitizer.concrete.dataflow import ANYWHERE, ATOMICS, LOADS, Dataflow, pointer_operand
from kerncap.sanitizer.concrete.events import AccessEvent
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.needed_operations import addresses
from kerncap.sanitizer.concrete.run import Limits, evaluate
from kerncap.sanitizer.diagnose.confirm import MAX_ELEMENT_OPERATIONS, MAX_SECONDS
from kerncap.sanitizer.diagnose.place import tensor_behind
from kerncap.sanitizer.launch import Launch, Unwritten
from kerncap.sanitizer.paged_bytes import Bytes, PagedBytes, Run
from kerncap.sanitizer.ttir.ir import Operation

# Of two stores that meet: "in part" if they are not known and one of them stores other bytes, too.
Values = Literal["same", "differ", "differ for some", "in part"]

_ALONE = "run alone, a program does not store there"
_SEEDS = (1, 2)


@dataclass(frozen=True)
class Writer:
    """The store of one program (a linear id)."""

    operation: Operation
    program: int


@dataclass(frozen=True)
class Open:
    """Two stores of which it is not known whether they leave the same, and why."""

    reason: str


def compare(
    analysis: Analysis,
    one: Writer,
    other: Writer,
    address: int,
    size: int,
    *,
    whole: bool,
    chance: bool = False,
) -> Values | Open:
    """What two stores that meet in ``size`` bytes at an address leave there.

    ``whole``: each of them stores these bytes and no others. ``chance``: that they are equal proves nothing.
    """
    alike = _alike(analysis, one, other, address, size)
    if alike is False:
        return "differ"
    if alike is True and not chance:
        return "same"
    if _differ_for_some(analysis, one, other, address, size):
        return "differ for some"
    if not whole:
        return "in part"
    why = "both store zeros that come from memory" if alike is True else alike
    return Open(f"two programs store to one place; whether they store the same is not known: {why}")


def _alike(analysis: Analysis, one: Writer, other: Writer, address: int, size: int) -> bool | str:
    """Whether both leave the same; why that is not known."""
    found = []
    for writer in (one, other):
        stored = _stored(analysis, writer, address, size)
        if isinstance(stored, str):
            return stored
        found.append(stored)
    return found[0] == found[1]


def _differ_for_some(analysis: Analysis, one: Writer, other: Writer, address: int, size: int) -> bool:
    """Whether there are contents of memory, under which both still store there, that make them differ."""
    launch = analysis.launch
    fixed = _deciding(analysis)
    if fixed is None:
        return False
    for seed in _SEEDS:
        varied = replace(analysis, launch=replace(launch, contents=_Varied(launch, fixed, seed)))
        if _alike(varied, one, other, address, size) is False:
            return True
    return False


def _stored(analysis: Analysis, writer: Writer, address: int, size: int) -> bytes | str:
    """The bytes that a program leaves; why they are not known."""
    watcher = _At(analysis, writer.operation, address, size)
    outcome = evaluate(
        analysis.module,
        analysis.function,
        analysis.launch,
        Memory(analysis.launch),
        programs=np.array([writer.program], dtype=np.int64),
        observer=watcher,
        limits=Limits(MAX_ELEMENT_OPERATIONS, MAX_SECONDS),
    )
    if not outcome.complete:
        return outcome.reason or "the evaluation did not come to its end"
    return watcher.stored()


class _At:
    """The last bytes that an operation stores in a range of memory."""

    def __init__(self, analysis: Analysis, operation: Operation, address: int, size: int) -> None:
        self._launch, self._operation, self._address = analysis.launch, operation, address
        self._bytes = np.zeros(size, dtype=np.uint8)
        self._reasons: list[str] = [_ALONE] * size  # "": the byte is known

    def access(self, event: AccessEvent) -> None:
        if event.operation is not self._operation:
            return
        starts = addresses_of(self._launch, event) - self._address
        size, width = len(self._bytes), event.width_bytes
        found = np.flatnonzero(event.mask & (starts > -width) & (starts < size))
        bits = stored_bits(event)
        for position in found.tolist():
            start = int(starts.reshape(-1)[position])
            first, end = max(start, 0), min(start + width, size)
            if isinstance(bits, str):
                self._reasons[first:end] = [bits] * (end - first)
                continue
            element = bits.reshape(-1)[position].tobytes()
            self._bytes[first:end] = np.frombuffer(element, np.uint8)[first - start : end - start]
            self._reasons[first:end] = [""] * (end - first)

    def stored(self) -> bytes | str:
        return next(filter(None, self._reasons), None) or self._bytes.tobytes()


# --- other contents -----------------------------------------------------------------------------------------


def _deciding(analysis: Analysis) -> frozenset[int] | None:
    """Storages that addresses, masks or conditions are read from; None if it may be any."""
    flow = Dataflow(analysis.module, analysis.function, analysis.launch)
    groups = storage_groups(analysis.launch)
    found: set[int] = set()
    for operation in addresses(flow).evaluated:
        if operation.name not in LOADS and operation.name not in ATOMICS:
            continue
        roots = flow.roots(pointer_operand(operation))
        if ANYWHERE in roots:
            return None
        found |= {groups[root] for root in roots}
    return frozenset(index for index, group in enumerate(groups) if group in found)


class _Varied:
    """The `Contents` of a launch but for storages that decide nothing: plain numbers at random."""

    def __init__(self, launch: Launch, fixed: frozenset[int], seed: int) -> None:
        self._launch, self._inner = launch, launch.contents
        self._fixed, self._seed = fixed, seed
        self._known: dict[int, PagedBytes] = {}

    def read(self, storage: int) -> PagedBytes | None:
        if storage in self._fixed:
            return self._inner.read(storage)
        if storage not in self._known:
            size = self._launch.storages[storage].size_bytes
            self._known[storage] = PagedBytes.fetched(size, self._filler(storage))
        return self._known[storage]

    def unwritten(self, storage: int) -> Unwritten | None:
        return self._inner.unwritten(storage)

    def _filler(self, storage: int) -> Callable[[Sequence[Run], Bytes], None]:
        tensors = filter(None, map(tensor_behind, self._launch.arguments))
        dtype = next((one.dtype for one in tensors if one.storage == storage), "uint8")

        def fill(runs: Sequence[Run], data: Bytes) -> None:
            for start, end in runs:
                random = np.random.default_rng((self._seed, storage, start))
                data[start:end] = _numbers(random, dtype, end - start)

        return fill


_FORMATS = {
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e5m2": "f8E5M2",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
}

_WIDTHS = {f"{sign}int{8 * width}": width for sign in ("", "u") for width in (1, 2, 4, 8)}


def _numbers(random: np.random.Generator, dtype: str, size: int) -> Bytes:
    """``size`` bytes of a dtype: floats from 1 to 2, other numbers below 100."""
    name = _FORMATS.get(dtype)
    if name is not None:
        width = formats.encode(np.ones(1), name).itemsize
        found = formats.encode(1 + random.random(-(-size // width)), name)
    elif dtype == "bool":
        found = random.integers(0, 2, size, dtype=np.uint8)
    else:
        width = _WIDTHS.get(dtype, 1)
        found = random.integers(0, 100, -(-size // width)).astype(np.dtype(f"<i{width}"))
    return np.ascontiguousarray(found).view(np.uint8)[:size]
