"""Which threads of a core dump have an exception, and where the others are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kerncap.capture.core_dump import exceptions
from kerncap.capture.core_dump.dump import Dump, Extents, Warp

MAX_THREADS = 4096  # of one fault that are kept


@dataclass(frozen=True)
class Thread:
    """One thread, and the row of it in the dump. ``pc`` is where it is, which may be after its fault."""

    warp: Warp
    row: int
    lane: int
    index: Extents
    pc: int


@dataclass
class Fault:
    """Threads with one exception at one instruction of a grid: the first of them, and how many.

    An exception of a warp is that of all its active threads. ``grid`` is 0 and ``threads`` empty if all that
    had it have ended.
    """

    device: int
    grid: int
    exception: int
    pc: int | None
    threads: list[Thread] = field(default_factory=list)
    count: int = 0
    blocks: set[Extents] = field(default_factory=set)


@dataclass
class Stopped:
    """``elsewhere`` counts threads without an exception by (device, grid, address of the code)."""

    faults: list[Fault]
    elsewhere: Counter[tuple[int, int, int]]
    resident: Counter[tuple[int, int]]  # threads by (device, grid)


def find(dump: Dump) -> Stopped:
    """The faults in the order of their devices, SMs and blocks. Raises FormatError."""
    faults: dict[tuple[int, int, int, int], Fault] = {}
    elsewhere: Counter[tuple[int, int, int]] = Counter()
    resident: Counter[tuple[int, int]] = Counter()
    for warp in dump.warps():
        resident[warp.device, warp.grid] += len(warp.lanes)
        codes = warp.lanes["exception"]
        if warp.error_pc is None and not warp.trapped and not codes.any():
            for pc in warp.lanes["pc"].tolist():
                elsewhere[warp.device, warp.grid, pc] += 1
            continue
        for row, lane in zip(warp.row_numbers.tolist(), warp.lanes, strict=True):
            pc, code = int(lane["pc"]), _exception(warp, int(lane["lane"]), int(lane["exception"]))
            if not code:
                elsewhere[warp.device, warp.grid, pc] += 1
                continue
            at = pc if warp.error_pc is None else warp.error_pc
            fault = faults.setdefault(
                (warp.device, warp.grid, code, at), Fault(warp.device, warp.grid, code, at)
            )
            fault.count += 1
            fault.blocks.add(warp.block)
            if len(fault.threads) < MAX_THREADS:
                index = Extents(int(lane["x"]), int(lane["y"]), int(lane["z"]))
                fault.threads.append(Thread(warp, row, int(lane["lane"]), index, pc))
    known = {(fault.device, fault.exception) for fault in faults.values()}
    gone: dict[tuple[int, int, int | None], Fault] = {}
    for sm in dump.faulty_sms():
        if (sm.device, sm.exception) not in known:
            key = sm.device, sm.exception, sm.error_pc
            gone.setdefault(key, Fault(sm.device, 0, sm.exception, sm.error_pc))
    return Stopped([*faults.values(), *gone.values()], elsewhere, resident)


def _exception(warp: Warp, lane: int, own: int) -> int:
    """A thread's own exception, or its warp's if it was active then; 0 if it has none."""
    if own or not warp.active >> lane & 1:
        return own
    if warp.error_pc is not None and warp.exception:
        return warp.exception
    return exceptions.TRAP if warp.trapped else 0
