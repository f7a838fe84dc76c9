"""Why a candidate could not be built."""

from __future__ import annotations

from kerncap.errors import ReplayError


class BuildError(ReplayError):
    """The candidate does not compile, or not to the kernel; ``detail`` is the compiler's text."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail
