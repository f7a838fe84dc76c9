"""What is not worth compiling: configurations that Triton refuses, or that no device of this kind can hold.

Only what is certain is pruned: an estimate is a lower bound, and the compiler's own figure comes later. Of an
AMD GPU nothing is estimated: its compiler takes a dot of any size, and tiles need not go through LDS.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kerncap.format import Reproducer, schema
from kerncap.replay.outcome import Compiled
from kerncap.replay.tuning import tiles
from kerncap.replay.tuning.formula import is_power_of_2
from kerncap.replay.tuning.grid import arguments_of

MAX_TILE = 1 << 20  # elements; Source: triton/_utils.py, TRITON_MAX_TENSOR_NUMEL
_MAX_THREADS = 1024  # in a block
_REGISTERS = 255  # of a thread, on every CUDA device since sm_35
_LEAST_INNER_BYTES = 32  # of a dot's inner dimension: 16 halves, 32 bytes; Source: triton nvidia min_dot_size
_SPILL_LIMIT = 4096  # bytes of a thread's local memory: beyond it a configuration is lost anyway
# Shared memory that one block may ask for, by compute capability; Source: CUDA C++ Programming Guide,
# "Technical Specifications per Compute Capability".
_SHARED_BYTES = {70: 98_304, 75: 65_536, 80: 166_912, 86: 101_376, 87: 166_912, 89: 101_376, 90: 232_448,
                 100: 232_448, 103: 232_448, 120: 101_376, 121: 101_376}  # fmt: skip
# LDS of a workgroup; Source: AMD's CDNA 2, 3 and 4 instruction set architectures, "LDS".
_LDS_BYTES = {"gfx90a": 65_536, "gfx942": 65_536, "gfx950": 163_840}


@dataclass(frozen=True)
class Budget:
    """What one block may use, and whether a compiler will see the kernel at all."""

    compiled: bool
    shared_bytes: int | None = None
    is_amd: bool = False

    @property
    def most_warps(self) -> int:
        return _MAX_THREADS // (64 if self.is_amd else 32)


def budget_of(arch: str | None) -> Budget:
    """Of a device that is compiled for: ``sm_90``, ``gfx942``."""
    return Budget(True, shared_limit(arch), arch is not None and arch.startswith("gfx"))


@dataclass
class Pruner:
    """The rules for one reproducer."""

    reproducer: Reproducer
    budget: Budget
    _tiles: dict[str, tiles.Tiles] = field(default_factory=dict)  # by the arguments' values

    def __post_init__(self) -> None:
        manifest = self.reproducer.manifest
        self._entry = None
        if manifest.source is not None and manifest.source.language == "python":
            self._entry = tiles.entry_of(self.reproducer.source_text() or "", manifest.source.entry)
        self._constants = {
            name: value
            for name, value in arguments_of(manifest).items()
            if any(a.name == name and a.role == "constexpr" for a in manifest.arguments)
        }
        self._sizes = {
            argument.name: manifest.views[argument.value.view].itemsize
            for argument in manifest.arguments
            if isinstance(argument.value, schema.TensorValue)
        }

    def refuse(
        self, arguments: Mapping[str, Any], options: Mapping[str, Any], listed: bool = False
    ) -> str | None:
        """Why a configuration is not compiled, or None. One of the application's own list is refused only for
        what Triton itself refuses."""
        warps = options.get("num_warps")
        most = self.budget.most_warps
        if warps is not None and not (is_power_of_2(warps) and warps <= most):
            return f"num_warps={warps} is not a power of two up to {most}"
        stages = options.get("num_stages")
        if stages is not None and (not isinstance(stages, int) or stages < 1):
            return f"num_stages={stages} is less than 1"
        if self._entry is None:
            return None
        found = self._tiles_of(self._entry, arguments)
        for length, line in found.ranges:
            if not is_power_of_2(length):
                return f"line {line}: a range of {length} is not a power of two"
        for shape, line in found.shapes:
            if math.prod(shape) > MAX_TILE:
                return f"line {line}: a tile of {_by(shape)} has more than {MAX_TILE:,} elements"
        if not self.budget.compiled or self.budget.is_amd:
            return None
        for dot in found.dots:
            reason = self._dot(dot)
            if reason:
                return reason
        return None if listed else self._over(found, warps, stages)

    def _tiles_of(self, entry: ast.FunctionDef, arguments: Mapping[str, Any]) -> tiles.Tiles:
        key = repr(sorted(arguments.items()))
        found = self._tiles.get(key)
        if found is None:
            constants = {**self._constants, **arguments}
            found = self._tiles[key] = tiles.of(entry, constants, frozenset(self._sizes))
        return found

    def _itemsize(self, tile: tiles.Tile) -> int | None:
        return self._sizes.get(tile.root) if tile.root is not None else None

    def _dot(self, dot: tiles.Dot) -> str | None:
        inner = dot.left.shape[1]
        size = self._itemsize(dot.left) or self._itemsize(dot.right)
        if inner != dot.right.shape[0]:
            return f"a dot of {_by(dot.left.shape)} and {_by(dot.right.shape)}"
        if size is not None and size <= 2 and inner * size < _LEAST_INNER_BYTES:
            return f"a dot over {inner} elements of {size} bytes: at least {_LEAST_INNER_BYTES // size}"
        return None

    def _over(self, found: tiles.Tiles, warps: Any, stages: Any) -> str | None:
        limit = self.budget.shared_bytes
        buffers = max(1, int(stages or 1) - 1)
        shared = 0
        for dot in found.dots:
            for tile in (dot.left, dot.right):
                size = self._itemsize(tile)
                if tile.in_loop and dot.in_loop and size is not None:
                    shared = max(shared, math.prod(tile.shape) * size * buffers)
        if limit is not None and shared > limit:
            return f"at least {shared:,} bytes of shared memory, a block has {limit:,}"
        threads = 32 * int(warps or 4)
        for dot in found.dots:
            registers = dot.left.shape[0] * dot.right.shape[1] // threads
            if dot.in_loop and registers > 2 * _REGISTERS:
                return f"an accumulator of {registers} registers per thread, of {_REGISTERS}"
        return None


def over_budget(compiled: Compiled, budget: Budget) -> str | None:
    """Why what was compiled is not run, or None."""
    if budget.shared_bytes is not None and (compiled.shared_bytes or 0) > budget.shared_bytes:
        return f"{compiled.shared_bytes:,} bytes of shared memory, a block has {budget.shared_bytes:,}"
    if (compiled.spilled_bytes or 0) > _SPILL_LIMIT:
        return f"{compiled.spilled_bytes:,} bytes spilled by each thread"
    return None


def shared_limit(arch: str | None) -> int | None:
    """Bytes of shared memory that one block may use on ``sm_90``; None if it is not known."""
    if arch is None or not arch.startswith("sm_"):
        return _LDS_BYTES.get((arch or "").split(":")[0])
    digits = arch.removeprefix("sm_").rstrip("af")
    return _SHARED_BYTES.get(int(digits)) if digits.isdigit() else None


def _by(shape: tiles.Shape) -> str:
    return "x".join(map(str, shape))
