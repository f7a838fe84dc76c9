"""Trials as they end, one JSON line each, so that a stopped search can continue.

The first line says what they are of: the manifests' digests and the environment. Another environment's times
say nothing here.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from kerncap import whole_files
from kerncap.errors import UsageError
from kerncap.replay.tuning.trial import Trial

_VERSION = 1
_ENVIRONMENT = ("device", "engine", "triton", "torch")


def identity(digests: Sequence[str], facts: Mapping[str, Any]) -> str:
    """What the times depend on, as 64 hexadecimal digits."""
    parts = [_VERSION, sorted(digests), [str(facts.get(name, "")) for name in _ENVIRONMENT]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class Journal:
    """A file of trials; one that can't be written keeps none, and says so in ``problem``."""

    def __init__(self, path: Path, key: str, resume: bool) -> None:
        self.path = path
        self.problem = ""
        self.found: list[Trial] = self._read(path, key) if resume else []
        self._file: BinaryIO | None = None
        head = {"kerncap-tune": _VERSION, "key": key}
        lines = b"".join(_line(item) for item in (head, *(trial.as_dict() for trial in self.found)))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            whole_files.write(path, lines)  # in one step: what is found there is not lost by a full disk
            self._file = path.open("ab", buffering=0)
        except UsageError as error:
            self.problem = f"the trials can't be kept for --resume: {error}"
        except OSError as error:
            self._fail(error)

    def add(self, trial: Trial) -> None:
        """Keep one more."""
        if self._file is None:
            return
        size = os.fstat(self._file.fileno()).st_size
        line = _line(trial.as_dict())
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(size)
            self._fail(error)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _fail(self, error: OSError) -> None:
        """Keep no more."""
        self.problem = f"{self.path}: trials can't be kept for --resume: {error.strerror or error}"
        self.close()

    @staticmethod
    def _read(path: Path, key: str) -> list[Trial]:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            if not lines or json.loads(lines[0]).get("key") != key:
                return []
        except (OSError, ValueError, AttributeError):
            return []
        found = []
        for line in lines[1:]:
            with contextlib.suppress(ValueError, TypeError, KeyError):  # the last one may be cut
                found.append(Trial.from_dict(json.loads(line)))
        return found


def _line(item: Mapping[str, Any]) -> bytes:
    return json.dumps(item).encode() + b"\n"
