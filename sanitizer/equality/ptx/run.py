"""One run of a CUDA kernel over `Numbers`: all blocks, some at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.run import Limits
from kerncap.sanitizer.equality.degrees import Degree, widest
from kerncap.sanitizer.equality.float_memory import FloatMemory
from kerncap.sanitizer.equality.numbers import NotModelled, Numbers
from kerncap.sanitizer.equality.ptx.code import Address, Module, Symbol
from kerncap.sanitizer.equality.ptx.floats import Floats
from kerncap.sanitizer.equality.ptx.instructions import table
from kerncap.sanitizer.equality.ptx.launch import PtxLaunch
from kerncap.sanitizer.equality.ptx.machine import Machine
from kerncap.sanitizer.equality.ptx.memory import BlockMemory, GlobalMemory
from kerncap.sanitizer.equality.ptx.races import Order
from kerncap.sanitizer.equality.ptx.reader import size_of
from kerncap.sanitizer.equality.ptx.run_limits import Work
from kerncap.sanitizer.equality.ptx.shared import MOST_BYTES
from kerncap.sanitizer.equality.ptx.values import FLOATS, HoldsFloats
from kerncap.sanitizer.launch import ScalarArgument

_THREADS = 1 << 14  # that run together
_MOST_VALUES = 1 << 25  # of all registers
_MOST_BLOCKS = 1 << 20
_MOST_THREADS = 1024
_ALIGNED = 128
IN_A_STRUCTURE = "parameter at byte"  # how the name of a float begins that is no argument


class PtxRun:
    """A launch over `Numbers`. ``before``: the one that ran before on the same storages.

    ``rounds``: results of instructions to their types.
    """

    left_out = False  # a thread loads, or it doesn't

    def __init__(
        self,
        module: Module,
        launch: PtxLaunch,
        numbers: Numbers,
        names: tuple[str, ...],
        before: PtxRun | None = None,
        *,
        rounds: bool = False,
    ) -> None:
        self._module, self._launch, self._numbers, self._names = module, launch, numbers, names
        self._before, self._rounds = before, rounds
        blocks = launch.program_count
        if blocks > _MOST_BLOCKS or not 0 < launch.threads <= _MOST_THREADS:
            raise NotModelled(f"{blocks:,} blocks of {launch.threads:,} threads")
        self._begin()

    def _begin(self) -> None:
        module, launch, numbers, before = self._module, self._launch, self._numbers, self._before
        self.memory: Memory = Memory(launch, None if before is None else before.memory)
        self.floats: FloatMemory = FloatMemory(
            launch, self.memory, numbers, self._names, None if before is None else before.floats
        )
        self._arithmetic = Floats(numbers, self._rounds)
        if before is not None:
            self._arithmetic.functions |= before.functions
        self._order = None if module.ordered else Order(launch.program_count, launch.threads)
        self._global = GlobalMemory(
            launch, self.memory, self.floats, numbers, self._order, _smallest(module, "shared"), module.kinds
        )
        if before is not None:
            self._global.stored = before._global.stored

    @property
    def functions(self) -> set[str]:
        return self._arithmetic.functions

    def hangs_on(self) -> Degree:
        """Of all that is stored."""
        return widest(self._global.stored.values())

    def run(self, limits: Limits) -> int:
        """Operations on elements. Raises NotModelled, and TooMuch beyond ``limits``."""
        work = Work(limits.element_operations, limits.seconds)
        while True:
            try:
                self._run(work)
                return work.done
            except HoldsFloats as found:
                if self._before is not None or found.storage in self._module.kinds:
                    raise
                self._module.kinds[found.storage] = found.kind
                self._begin()

    def _run(self, work: Work) -> None:
        module, launch = self._module, self._launch
        variables, size = _shared(module, launch)
        passed = dict(passed_floats(module, launch))
        steps = [table(one) for one in module.code]
        if launch.argument_at and tuple(module.offsets().values()) != tuple(launch.argument_at):
            raise NotModelled(f"{module.entry} takes other parameters than the captured kernel")
        together = max(1, min(_THREADS, _MOST_VALUES // len(module.code)) // launch.threads)
        cell = _smallest(module, "global")
        with np.errstate(all="ignore"):
            for start in range(0, launch.program_count, together):
                blocks = np.arange(start, min(start + together, launch.program_count), dtype=np.int64)
                shared = BlockMemory(len(blocks), size, self._numbers, self._order, cell)
                Machine(
                    module, launch, blocks, self._arithmetic, self._global, shared, variables, passed, steps,
                    self._order, work,
                ).run()  # fmt: skip
        module.ordered = True


def _shared(module: Module, launch: PtxLaunch) -> tuple[dict[str, tuple[int, int]], int]:
    """Where variables in shared memory begin and end, and how many bytes there are.

    Those without a size are the launch's.
    """
    found, at = {}, 0
    for one in module.shared:
        if one.size:
            at = -(-at // _ALIGNED) * _ALIGNED
            found[one.name] = at, at + one.size
            at += one.size
    at = -(-at // _ALIGNED) * _ALIGNED
    end = at + launch.shared_bytes
    found |= {one.name: (at, end) for one in module.shared if not one.size}
    if end > MOST_BYTES:
        raise NotModelled(f"{end:,} bytes of shared memory")
    return found, -(-end // _ALIGNED) * _ALIGNED


def _smallest(module: Module, not_in: str) -> int:
    """Bytes of the smallest access to memory, but for those that are in another."""
    sizes = [
        size_of(one.type)
        for one in module.code
        if one.parts[0] in ("ld", "ldu", "st", "atom", "red") and not {"param", not_in} & set(one.parts)
    ]
    others = {one.parts[0] for one in module.code}
    sizes += [4] * ("cp" in others) + [2] * bool(others & {"ldmatrix", "stmatrix"})
    sizes += [2] * any(
        one.type in ("f16x2", "bf16x2") for one in module.code if one.parts[0] in ("atom", "red")
    )
    return min([8, *(size for size in sizes if size)])


def passed_floats(module: Module, launch: PtxLaunch) -> Iterator[tuple[int, tuple[str, str]]]:
    """Names and types of floats that are passed, also in structures, by their offset."""
    offsets = module.offsets()
    known = {one.name: one.value for one in launch.arguments if isinstance(one, ScalarArgument)}
    for one in module.code:
        if one.parts[:2] != ("ld", "param") or not isinstance(one.operands[1], Address):
            continue
        place = one.operands[1]
        if not isinstance(place.base, Symbol) or place.base.name not in offsets:
            continue
        count = next((int(word[1:]) for word in one.parts if word in ("v2", "v4")), 1)
        for number in range(count):
            at = offsets[place.base.name] + place.offset + number * size_of(one.type)
            name = launch.argument_at.get(at, "")
            kind = one.type if one.type in FLOATS else None
            if kind is None and isinstance(known.get(name), float):
                kind = {2: "f16", 4: "f32", 8: "f64"}.get(size_of(one.type))
            if kind is not None:
                yield at, (name or f"{IN_A_STRUCTURE} {at}", kind)


def scalars_of(module: Module, launch: PtxLaunch) -> Mapping[str, float]:
    """The floats that are passed, by name."""
    from kerncap.sanitizer.concrete import formats

    found = {}
    for at, (name, kind) in passed_floats(module, launch):
        width = FLOATS[kind].width // 8
        bits = np.frombuffer(launch.buffer[at : at + width].ljust(width, b"\0"), np.dtype(f"u{width}"))
        found[name] = float(formats.decode(bits, kind)[0])
    return found
