"""What the engine tells: how a launch ended, what the worker is, why a candidate can't be run."""

from __future__ import annotations

from dataclasses import dataclass, field

from kerncap.errors import ReplayError


class CandidateError(ReplayError):
    """The candidate can't be run at all, and why; ``detail`` is the traceback, if there is one."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


@dataclass(frozen=True)
class Outcome:
    """How one launch ended: ``ok``, ``error`` (it raised), ``fault`` or ``timeout``."""

    status: str
    message: str = ""
    detail: str = ""
    ns: int = 0

    @property
    def ok(self) -> bool:
        return self.status == "ok"


@dataclass
class Facts:
    """What the worker said about itself.

    ``relocated`` are regions that lie elsewhere than they were captured, and variables of the module that
    captured pointers point to; ``pointers`` how many words were changed for that (of a native launch).
    """

    device: str = ""
    torch: str = ""
    triton: str = ""
    driver: str = ""
    arch: str = ""
    relocated: list[int] = field(default_factory=list)
    pointers: int | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Loaded:
    """What a launcher in the worker is made of, so that another worker can have it too."""

    path: str
    scalars: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Repeated:
    """Replays in a row: how many ran, how many differed, the first of those (-1: none), or how it all ended.

    ``times_ms`` of each launch and the ``seconds`` of all, where they were asked for.
    """

    runs: int = 0
    different: int = 0
    first: int = -1
    ended: str = ""
    times_ms: list[float] = field(default_factory=list)
    seconds: float = 0.0
