"""What a core dump says of the GPU at the moment of the exception: devices, grids, warps, memory, images."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kerncap.capture.core_dump.sections import Kind, Sections
from kerncap.format.document_types import Bytes, Count, says
from kerncap.regular_file import open_regular

MAX_WARPS = 1 << 17  # eight GPUs that are full have half of that
MemoryKind = Literal["global", "managed", "shared", "local", "host"]
_MEMORY: dict[Kind, MemoryKind] = {Kind.GLOBAL: "global", Kind.MANAGED: "managed"}
_PARTS: dict[Kind, MemoryKind] = {Kind.SHARED: "shared", Kind.LOCAL: "local"}
# What CUDA_COREDUMP_GENERATION_FLAGS left out. Source: CUcoredumpGenerationFlags of the driver API.
_LEFT_OUT = {
    1: "images as they were before they were loaded", 2: "global memory", 4: "shared memory",
    8: "local memory", 32: "constant banks",
}  # fmt: skip


class Extents(NamedTuple):
    """Sizes or an index in x, y, z."""

    x: int
    y: int
    z: int


@dataclass(frozen=True)
class Driver:
    """Who wrote the dump, and when."""

    version: Annotated[str, says("Version of the GPU driver.")]
    cuda: Annotated[str, says("Version of CUDA that the driver has.")]
    time_s: Annotated[int, says("Seconds since 1970.")]
    left_out: Annotated[tuple[str, ...], says("Memory that CUDA_COREDUMP_GENERATION_FLAGS left out.")]


@dataclass(frozen=True)
class Device:
    """A device that the program saw."""

    index: int  # its row in the dump
    name: str
    arch: str
    sms: Annotated[int, says("Number of its SMs, or compute units.")]


@dataclass(frozen=True)
class Grid:
    """A grid that was running. ``entry``: address of its kernel's code. ``place``: its table and row."""

    device: int
    id: int
    entry: int
    module: int
    grid: Extents
    block: Extents
    cluster: Extents
    registers: int
    from_device: bool
    place: tuple[int, int]


@dataclass(frozen=True)
class Warp:
    """The threads of a warp, as rows of `rows.LANE`: those that had not ended.

    ``exception`` is its SM's, for a warp with an ``error_pc``; ``lanes_at`` the section of ``lanes``.
    """

    device: int
    sm: int
    id: int
    grid: int
    block: Extents
    active: int
    trapped: bool
    error_pc: int | None
    exception: int
    registers: int
    lanes: NDArray[np.void]
    row_numbers: NDArray[np.int64]
    lanes_at: int


@dataclass(frozen=True)
class FaultySm:
    """An SM with an exception, which may be all that is left of warps that have ended."""

    device: int
    sm: int
    exception: int
    error_pc: int | None


@dataclass(frozen=True)
class Memory:
    """Memory that the dump holds."""

    kind: MemoryKind
    address: Annotated[int | None, says("Null for the sum of what blocks or threads have.")]
    bytes: Bytes
    parts: Annotated[Count, says("Number of blocks or threads, or 1.")] = 1


class Dump:
    """An open core dump. Every method may raise FormatError."""

    def __init__(self, sections: Sections) -> None:
        self._sections = sections

    def driver(self) -> Driver | None:
        """None for a dump by a driver before 565."""
        for number in self._sections.of(Kind.METADATA)[:1]:
            for row in self._sections.rows(number)[:1]:
                minor = f".{row['driver_minor']:02d}" if row["driver_minor"] else ""
                flags = int(row["flags"])
                left_out = tuple(text for bit, text in _LEFT_OUT.items() if flags & bit)
                return Driver(
                    f"{row['driver']}{minor}",
                    f"{row['cuda']}.{row['cuda_minor']}",
                    int(row["time"]),
                    left_out,
                )
        return None

    def devices(self) -> tuple[Device, ...]:
        """Those that the program saw, also if nothing ran there."""
        text = self._sections.text
        return tuple(
            Device(
                index,
                text(int(row["name"])),
                text(int(row["arch"])) or f"sm_{row['major']}{row['minor']}",
                int(row["sms"]),
            )
            for number in self._sections.of(Kind.DEVICES)[:1]
            for index, row in enumerate(self._sections.rows(number))
        )

    def grids(self) -> tuple[Grid, ...]:
        """In the dump's order, which is not that of their launches."""
        return tuple(
            Grid(
                device=self._sections.parent(number)[1],
                id=int(row["id"]),
                entry=int(row["entry"]),
                module=int(row["module"]),
                grid=_extents(row, "grid_x", "grid_y", "grid_z"),
                block=_extents(row, "block_x", "block_y", "block_z"),
                cluster=_extents(row, "cluster_x", "cluster_y", "cluster_z"),
                registers=int(row["registers"]),
                from_device=int(row["origin"]) == 1,
                place=(number, at),
            )
            for number in self._sections.of(Kind.GRIDS)
            for at, row in enumerate(self._sections.rows(number))
        )

    def parameters(self, grid: Grid) -> bytes | None:
        """The memory of its parameters; None if it is not in the dump."""
        number = self._sections.child(Kind.PARAMETERS, *grid.place)
        return None if number is None else self._sections.content(number)

    def warps(self) -> Iterator[Warp]:
        """All that were resident, by device, SM and block."""
        left = MAX_WARPS
        for device, sm, table, row in self._sms():
            blocks = self._sections.child(Kind.BLOCKS, table, row)
            for number, block in enumerate(() if blocks is None else self._sections.rows(blocks)):
                assert blocks is not None
                warps = self._sections.child(Kind.WARPS, blocks, number)
                for at, warp in enumerate(() if warps is None else self._sections.rows(warps)):
                    assert warps is not None
                    left -= 1
                    if left < 0:
                        raise self._sections.wrong(
                            warps, f"more than {MAX_WARPS:,} warps; the dump is damaged"
                        )
                    found = self._warp(device, sm, block, warps, at, warp)
                    if found is not None:
                        yield found

    def faulty_sms(self) -> Iterator[FaultySm]:
        """Only drivers from 555 on say so."""
        for device, sm, _, _ in self._sms():
            if sm["exception"]:
                pc = int(sm["error_pc"]) if sm["error_valid"] else None
                yield FaultySm(device, int(sm["id"]), int(sm["exception"]), pc)

    def registers(self, warp: Warp, row: int) -> tuple[int, ...]:
        """R0, R1, … of a thread, as far as its kernel uses them; () if they are not in the dump."""
        number = self._sections.child(Kind.REGISTERS, warp.lanes_at, row)
        return self._sections.words(number)[: warp.registers or None]

    def uniform_registers(self, warp: Warp) -> tuple[int, ...]:
        """UR0, UR1, … of a warp."""
        return self._sections.words(
            self._sections.child(Kind.UNIFORM_REGISTERS, *self._sections.parent(warp.lanes_at))
        )

    def predicates(self, warp: Warp, row: int) -> tuple[int, ...]:
        """P0, P1, … of a thread."""
        return self._sections.words(self._sections.child(Kind.PREDICATES, warp.lanes_at, row))

    def return_addresses(self, warp: Warp, row: int) -> tuple[int, ...]:
        """Where the functions that the thread is in were called from, the innermost first."""
        number = self._sections.child(Kind.FRAMES, warp.lanes_at, row)
        if number is None:
            return ()
        frames = self._sections.rows(number)
        return tuple(int(frame["pc"]) for frame in sorted(frames, key=lambda frame: int(frame["level"])))

    def memory(self) -> tuple[Memory, ...]:
        """Global and managed memory by address, then the sums of shared and local memory."""
        found = [
            Memory(name, self._sections.address(number), self._sections.size(number))
            for kind, name in _MEMORY.items()
            for number in self._sections.of(kind)
        ]
        found.sort(key=lambda each: each.address or 0)
        for kind, name in _PARTS.items():
            sizes = [self._sections.size(number) for number in self._sections.of(kind)]
            if sum(sizes):
                found.append(Memory(name, None, sum(sizes), len(sizes)))
        return tuple(found)

    def images(self) -> Iterator[tuple[int, int | None]]:
        """Numbers of each module's image as it was loaded, and as it was before."""
        for context in self._sections.of(Kind.CONTEXTS):
            for row in range(len(self._sections.rows(context))):
                table = self._sections.child(Kind.MODULES, context, row)
                for at in range(0 if table is None else len(self._sections.rows(table))):
                    assert table is not None
                    loaded = self._sections.child(Kind.RELOCATED_IMAGE, table, at)
                    if loaded is not None:
                        yield loaded, self._sections.child(Kind.IMAGE, table, at)

    def content(self, image: int) -> bytes:
        return self._sections.content(image)

    def _sms(self) -> Iterator[tuple[int, np.void, int, int]]:
        for number in self._sections.of(Kind.SMS):
            device = self._sections.parent(number)[1]
            for row, sm in enumerate(self._sections.rows(number)):
                yield device, sm, number, row

    def _warp(
        self, device: int, sm: np.void, block: np.void, table: int, at: int, warp: np.void
    ) -> Warp | None:
        number = self._sections.child(Kind.LANES, table, at)
        if number is None:
            return None
        lanes = self._sections.rows(number)
        if len(lanes) > 32 or (lanes["lane"] > 31).any():
            raise self._sections.wrong(number, f"a warp of {len(lanes)} lanes; the dump is damaged")
        valid = np.flatnonzero(int(warp["valid"]) >> lanes["lane"] & 1)
        return Warp(
            device=device,
            sm=int(sm["id"]),
            id=int(warp["id"]),
            grid=int(block["grid"]),
            block=_extents(block, "x", "y", "z"),
            active=int(warp["active"]),
            trapped=bool(warp["broken"]),
            error_pc=int(warp["error_pc"]) if warp["error_valid"] else None,
            exception=int(sm["exception"]),
            registers=int(warp["registers"]),
            lanes=lanes[valid],
            row_numbers=valid,
            lanes_at=number,
        )


@contextlib.contextmanager
def open_dump(path: Path) -> Iterator[Dump]:
    """Raises UsageError for a file that can't be read, FormatError for one that is no whole core dump."""
    with open_regular(path) as file:
        yield Dump(Sections(path, file))


def _extents(row: np.void, *names: str) -> Extents:
    return Extents(*(int(row[name]) for name in names))
