"""What every backend shares: how a request finds its operation, and the operations on states."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from .failures import Refused


class States(Protocol):
    """The states that a run is restored from and compared with; masks have one bit for each byte."""

    def restore(self, name: str = "pre", only: list[int] | None = None) -> None: ...

    def snapshot(self, name: str) -> None: ...

    def drop(self, name: str) -> None: ...

    def fill(self, region: int, start: int, stop: int, seed: int, mask: Any | None) -> None: ...

    def put(self, name: str, region: int, mask: Any) -> None: ...

    def differing(self, name: str) -> list[int]: ...

    def diff(self, region: int, against: str, seed: int) -> Any | None: ...

    def gap_writes(self) -> list[tuple[int, int, int]]: ...


S = TypeVar("S", bound=States)


class StateOperations(Generic[S]):
    """Every operation is one method named ``op_…``; ``states`` and ``folder`` come from the backend."""

    backend: str
    folder: Path
    states: S

    def perform(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one request. Raises Refused for an operation that this backend lacks."""
        arguments = {key: value for key, value in request.items() if key != "op"}
        operation = getattr(self, f"op_{request['op']}", None)
        if operation is None:
            raise Refused(f"{request['op']}: the {self.backend} backend has no such operation")
        return dict(operation(**arguments) or {})

    def op_restore(self, state: str = "pre") -> None:
        self.states.restore(state)

    def op_snapshot(self, name: str) -> None:
        self.states.snapshot(name)

    def op_drop(self, name: str) -> None:
        self.states.drop(name)

    def op_fill(self, region: int, start: int, stop: int, seed: int, mask: str | None = None) -> None:
        self.states.fill(region, start, stop, seed, self._mask(mask) if mask else None)

    def op_put(self, state: str, region: int, mask: str) -> None:
        self.states.put(state, region, self._mask(mask))

    def op_differing(self, state: str) -> dict[str, Any]:
        return {"regions": self.states.differing(state)}

    def op_diff(self, region: int, against: str, out: str, seed: int = 0) -> dict[str, Any]:
        """Write the bitmap of differing bytes to ``out``, if there are any; whether there are."""
        bits = self.states.diff(region, against, seed)
        if bits is None:
            return {"none": True}
        np.save(self.folder / out, bits)
        return {"none": False}

    def op_gap_writes(self) -> dict[str, Any]:
        return {"writes": self.states.gap_writes()}

    def _mask(self, path: str) -> Any:
        return np.load(self.folder / path, allow_pickle=False)
