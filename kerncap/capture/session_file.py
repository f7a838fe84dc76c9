"""session.json: the options that the hook and the shims of a session read (docs/session.md)."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from kerncap import unexpected_error
from kerncap.capture.options import CaptureOptions, Keep, Selection
from kerncap.errors import CaptureError, UsageError
from kerncap.exit_status import ExitStatus
from kerncap.format.contract import Backend, default

NAME = "session.json"
FOLDERS = ".kerncap-session-"  # how the name of a session's folder begins
VERSION = 1
MAX_BYTES = 1 << 20


class SessionFileError(CaptureError):
    """A file of a session that this user can't read or write."""

    exit_status = ExitStatus.USAGE

    def __init__(self, path: Path, error: OSError, what: str) -> None:
        super().__init__(str(unexpected_error.about(path, error, what)))


class DamagedSession(CaptureError):
    exit_status = ExitStatus.MALFORMED


def is_in(folder: Path) -> bool:
    """Whether there is a session.json in ``folder``. Raises SessionFileError if that can't be told."""
    try:
        return stat.S_ISREG(os.stat(folder / NAME).st_mode)
    except PermissionError as error:
        raise SessionFileError(folder, error, "can't be read") from error
    except OSError:
        os.path.abspath(folder)  # says so if the working folder is gone
        return False


@dataclass(frozen=True)
class SessionFile:
    """The file, encoded and decoded. A later generation's differs in what `armed` changes."""

    version: int
    token: str
    socket: str
    selection: Selection
    keep: Keep
    backend: Backend
    questions: str = default.questions
    by_default: bool = default.by_default
    list_only: bool = default.list_only
    trace: bool = default.trace
    trace_native: bool = default.trace_native
    timeline: bool = default.timeline
    dormant: bool = default.dormant
    generation: int = default.generation
    limit_kernels: int = default.limit_kernels
    limit_bytes: int = default.limit_bytes
    drain_timeout_s: float = default.drain_timeout_s
    chunk_bytes: int = default.chunk_bytes

    @classmethod
    def of(cls, options: CaptureOptions, token: str, socket: str, questions: str = "") -> SessionFile:
        return cls(
            version=VERSION,
            token=token,
            socket=socket,
            questions=questions,
            selection=options.selection,
            keep=options.keep,
            backend=options.run.backend,
            by_default=options.selection.is_default,
            list_only=options.run.list_only,
            trace=options.run.trace,
            trace_native=options.run.trace_native,
            timeline=options.run.timeline,
            dormant=options.run.dormant,
        )

    def armed(self, selection: Selection, generation: int) -> SessionFile:
        """What this generation selects; all else is as the capture was started."""
        return replace(
            self, selection=selection, by_default=selection.is_default, generation=generation, dormant=False
        )

    def encode(self) -> bytes:
        # Not msgspec's encoder: a path may hold bytes that are no UTF-8.
        return json.dumps(msgspec.to_builtins(self), indent=1).encode()

    @classmethod
    def read(cls, path: Path) -> SessionFile:
        """Raises CaptureError for what can't be read, or is not what `encode` gives."""
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags), "rb") as file:
                data: Any = json.loads(file.read(MAX_BYTES + 1))
            return msgspec.convert(data, cls)
        except OSError as error:
            raise SessionFileError(path, error, "can't be read") from error
        except (ValueError, RecursionError, UsageError) as error:
            raise DamagedSession(f"{path}: not what kerncap wrote there: {error}") from error


def name_of(generation: int) -> str:
    """The file of a generation of `kerncap arm`; 0 is the one that the capture was started with."""
    return f"session-{generation}.json" if generation else NAME
