"""Every access of an interpreted launch, as it happens, with its source line, program and lanes."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import triton

from tests.integration.sanitizer.oracle.memory import Located, Memory

Kind = Literal["load", "store", "atomic"]
EVENT_LIMIT = 400_000
_INTERNAL = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    os.path.dirname(triton.__file__) + os.sep,
    "<",
)


class TooLarge(Exception):
    """The launch has more accesses than brute force is meant for."""


@dataclass(frozen=True)
class Event:
    """One memory operation of one program; arrays hold its unmasked elements only."""

    kind: Kind
    file: str
    line: int
    program: tuple[int, int, int]
    number: int  # of the program, in the order in which they ran
    lanes: npt.NDArray[np.int64]  # flat index into the tile
    shape: tuple[int, ...]
    at: Located
    width: int
    values: npt.NDArray[np.uint8] | None  # (elements, width): what a store writes
    unwritten: npt.NDArray[np.bool_] | None
    overflowed: npt.NDArray[np.bool_]
    misaligned: npt.NDArray[np.bool_]
    clock: npt.NDArray[np.int64]  # per program: how far it is known to have come; see `Recorder`
    moment: int


@dataclass(frozen=True)
class Broken:
    """A promise or a descriptor's contract that did not hold."""

    check: Literal["promise", "descriptor"]
    file: str
    line: int
    argument: str | None
    program: tuple[int, int, int]


@dataclass
class Recorder:
    """What one run of a launch did.

    Order between programs is a vector clock: an atomic with release semantics publishes what its
    program did and knows, one with acquire semantics on the same address takes it over.
    """

    memory: Memory
    poison: int = 0  # 0 or 1: which of two values stands in masked lanes of a load without `other`
    events: list[Event] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    poisoned: bool = False  # some load had such a lane
    program: tuple[int, int, int] = (0, 0, 0)
    number: int = -1
    moment: int = 0
    synchronised: bool = False
    _clock: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    _released: dict[tuple[int, int], npt.NDArray[np.int64]] = field(default_factory=dict)
    programs: int = 1
    # (promised value, what, amounts, file, line) until the program ends: contiguity may come later.
    promised: list[Any] = field(default_factory=list)

    def start(self, program: tuple[int, int, int]) -> None:
        self.program = program
        self.number += 1
        self._clock = np.full(self.programs, -1, np.int64)
        self.promised = []

    def access(
        self,
        kind: Kind,
        addresses: npt.NDArray[np.uint64],
        mask: npt.NDArray[np.bool_],
        width: int,
        values: npt.NDArray[Any] | None = None,
        overflowed: npt.NDArray[np.bool_] | None = None,
        synchronising: str | None = None,
    ) -> tuple[Located, npt.NDArray[np.bool_]]:
        """Note one access; where its elements are and the flat mask. Call it before memory changes."""
        if len(self.events) >= EVENT_LIMIT:
            raise TooLarge
        shape = addresses.shape
        flat = np.ascontiguousarray(addresses).ravel()
        mask = np.ascontiguousarray(np.broadcast_to(mask, shape)).ravel()
        at = self.memory.locate(flat, width)
        live = np.flatnonzero(mask)
        if synchronising is not None:
            self._synchronise(at, live, synchronising)
        file, line = where()
        raw = None
        if values is not None:
            whole = np.ascontiguousarray(np.broadcast_to(values, shape)).reshape(flat.size)
            raw = whole.view(np.uint8).reshape(flat.size, width)[live]
        unwritten = None
        if kind != "store":
            unwritten = self.memory.unwritten(at, mask, width)[live]
        wrapped = np.zeros(live.size, np.bool_)
        if overflowed is not None:
            wrapped = np.broadcast_to(overflowed, shape).ravel()[live]
        self.moment += 1
        self.events.append(
            Event(
                kind,
                file,
                line,
                self.program,
                self.number,
                live,
                shape,
                Located(
                    at.region[live], at.store[live], at.offset[live], at.relative[live],
                    at.inside[live], at.in_view[live],
                ),
                width,
                raw,
                unwritten,
                wrapped,
                flat[live] % np.uint64(width) != 0,
                self._clock.copy() if self.synchronised else self._clock,
                self.moment,
            )
        )  # fmt: skip
        if synchronising in ("release", "acq_rel"):
            self._publish(at, live)
        return at, mask

    def _synchronise(self, at: Located, live: npt.NDArray[np.int64], semantics: str) -> None:
        if semantics in ("acquire", "acq_rel"):
            for element in live[at.inside[live]]:
                known = self._released.get((int(at.store[element]), int(at.offset[element])))
                if known is not None:
                    self._clock = np.maximum(self._clock, known)

    def _publish(self, at: Located, live: npt.NDArray[np.int64]) -> None:
        self.synchronised = True
        mine = self._clock.copy()
        mine[self.number] = self.moment
        for element in live[at.inside[live]]:
            key = (int(at.store[element]), int(at.offset[element]))
            known = self._released.get(key)
            self._released[key] = mine if known is None else np.maximum(known, mine)

    def breaks(
        self, check: Literal["promise", "descriptor"], file: str, line: int, argument: str | None = None
    ) -> None:
        self.broken.append(Broken(check, file, line, argument, self.program))


_internal: dict[str, bool] = {}


def where() -> tuple[str, int]:
    """File and line of the innermost frame that is neither Triton's nor the oracle's: the kernel's."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        internal = _internal.get(name)
        if internal is None:
            internal = name.startswith(_INTERNAL)
            _internal[name] = internal
        if not internal:
            return name, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return "?", 0
