"""A process of the worker's code, as the process that started or forked it has it."""

from __future__ import annotations

from typing import Protocol


class Process(Protocol):
    """What is done with a process of the worker's code: as `child.Child` has it."""

    pid: int

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def end(self) -> int: ...


class Running:
    """A process of the worker's code, and the pipes to it."""

    process: Process
    requests: int
    replies: int
