"""What can go wrong, one class per kind; only `cli/` turns them into exit statuses."""

from __future__ import annotations

from pathlib import Path

from kerncap.exit_status import ExitStatus


class KerncapError(Exception):
    """Any failure that kerncap explains: what, where, expected and found, the next step.

    ``exit_status`` is what the command line ends with; docs/reference/cli.md has the table.
    """

    exit_status: int = ExitStatus.NO


class UsageError(KerncapError):
    """The request itself is wrong: an option, a selector, a path that is not there or can't be written."""

    exit_status = ExitStatus.USAGE


class FormatError(KerncapError):
    """A reproducer or session file that is malformed, damaged, or of an unknown version.

    ``path`` is the file inside the reproducer, ``offset`` the byte in it where reading stopped.
    """

    exit_status = ExitStatus.MALFORMED

    def __init__(self, path: Path | str, offset: int, message: str) -> None:
        super().__init__(f"{path}: byte {offset}: {message}")
        self.path = str(path)
        self.offset = offset
        self.message = message


class CaptureError(KerncapError):
    """A launch that could not be captured; the target is never harmed by it."""


class ReplayError(KerncapError):
    """A replay that could not be carried out (a wrong replay is a result, not an exception).

    That says nothing of the kernel.
    """

    exit_status = ExitStatus.UNDECIDED


class BackendUnavailable(KerncapError):
    """A device, driver or library that is missing here, by name."""

    exit_status = ExitStatus.MISSING

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} is not available: {reason}")
        self.name = name
        self.reason = reason


class OutOfMemory(KerncapError):
    """The machine, or a limit that was set, has no memory left for what was asked."""

    exit_status = ExitStatus.MISSING

    def __init__(self) -> None:
        super().__init__("memory: there is not enough; raise the limit (ulimit -v), or free some")


class InternalError(KerncapError):
    """A mistake of kerncap's own: what was raised, and where."""

    exit_status = ExitStatus.INTERNAL

    def __init__(self, raised: str) -> None:
        super().__init__(
            f"internal error: {raised}; please report it with what KERNCAP_DEBUG=1 adds to this line"
        )
