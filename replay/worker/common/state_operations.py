"""What every backend shares: how a request finds its method, and the operations on states."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Generic, NoReturn, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ..protocol import Range, Request
from . import bitmap
from .bitmap import Bits
from .failures import Refused


class States(Protocol):
    """The states that a run is restored from and compared with."""

    def restore(self, name: str = "pre", only: list[int] | None = None) -> None: ...

    def snapshot(self, name: str) -> None: ...

    def drop(self, name: str) -> None: ...

    def amend(self, name: str, region: int, start: int, data: npt.NDArray[np.uint8]) -> None: ...

    def fill(self, region: int, start: int, stop: int, seed: int, mask: Bits | None) -> None: ...

    def put(self, name: str, region: int, mask: Bits) -> None: ...

    def differing(self, name: str) -> list[int]: ...

    def diff(self, region: int, against: str, seed: int, mask: Bits | None = None) -> Bits | None: ...

    def untouched(self, region: int) -> Bits | None: ...

    def gap_writes(self) -> list[tuple[int, int, int]]: ...

    def in_memory(self, region: int, start: int, stop: int) -> npt.NDArray[np.uint8]: ...


S = TypeVar("S", bound=States)


class StateOperations(Generic[S]):
    """The operations of `protocol.Backend` on states; ``states`` and ``folder`` come from the backend."""

    backend: str
    folder: Path
    states: S

    def perform(self, request: Request) -> Any:
        """Carry out one request. Raises Refused for an operation that this backend lacks."""
        operation = getattr(type(self), request.operation)
        if operation is lacking:
            raise Refused(f"{request.operation}: the {self.backend} backend has no such operation")
        return operation(self, **request.arguments)

    def restore(self, state: str) -> None:
        self.states.restore(state)

    def snapshot(self, name: str) -> None:
        self.states.snapshot(name)

    def drop(self, name: str) -> None:
        self.states.drop(name)

    def amend(self, state: str, ranges: list[Range], contents: str) -> None:
        data, at = np.fromfile(self.folder / contents, dtype=np.uint8), 0
        for region, start, stop in ranges:
            self.states.amend(state, region, start, data[at : at + stop - start])
            at += stop - start

    def fill(self, region: int, start: int, stop: int, seed: int, mask: str | None) -> None:
        self.states.fill(region, start, stop, seed, self._mask(mask) if mask else None)

    def put(self, state: str, region: int, mask: str) -> None:
        self.states.put(state, region, self._mask(mask))

    def differing(self, state: str) -> list[int]:
        return self.states.differing(state)

    def diff(self, region: int, against: str, out: str, seed: int, mask: str | None) -> bool:
        return self._saved(out, self.states.diff(region, against, seed, self._mask(mask) if mask else None))

    def untouched(self, region: int, out: str) -> bool:
        return self._saved(out, self.states.untouched(region))

    def _saved(self, out: str, bits: Bits | None) -> bool:
        if bits is not None:
            np.save(self.folder / out, bits.encoded())
        return bits is not None

    def gap_writes(self) -> list[tuple[int, int, int]]:
        return self.states.gap_writes()

    def read(self, ranges: list[Range], out: str) -> None:
        with (self.folder / out).open("wb") as file:
            for region, start, stop in ranges:
                file.write(self.states.in_memory(region, start, stop).data)

    def _mask(self, path: str) -> Bits:
        return bitmap.decoded(np.load(self.folder / path, allow_pickle=False))


def lacking(_: Any, /, *given: Any, **named: Any) -> NoReturn:
    """In place of an operation that a backend lacks."""
    raise AssertionError("refused by name before it is called")
