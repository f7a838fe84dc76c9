"""How an operation of the worker can fail; `serve_loop` turns each into a reply."""

from __future__ import annotations

from ..protocol import Place


class Refused(Exception):
    """The job can't be done here as asked, with the reason by name; another engine might."""


class Fault(Exception):
    """The device or the kernel died: what was in memory is lost and so is this process's context."""


class Killed(Exception):
    """The system killed a process that the job needs; that says nothing of the kernel."""


class KernelError(Exception):
    """The kernel or the user's file raised; ``detail`` holds the traceback."""

    def __init__(self, message: str, detail: str = "", place: Place | None = None) -> None:
        super().__init__(message)
        self.detail = detail
        self.place = place


class TimedOut(Exception):
    """A launch did not end in its time; the device still runs it, so this process is of no more use."""
