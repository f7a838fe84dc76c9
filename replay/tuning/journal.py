"""Trials as they end, one JSON line each, so that a search that was stopped goes on where it was.

The first line says what they are of: the manifests' digests and the environment. Another environment's times
say nothing here.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

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
        self._file: IO[str] | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w", encoding="utf-8")
            self._write({"kerncap-tune": _VERSION, "key": key})
            for trial in self.found:
                self.add(trial)
        except OSError as error:
            self.problem = f"{path}: the trials can't be kept for --resume: {error.strerror or error}"

    def add(self, trial: Trial) -> None:
        """Keep one more."""
        self._write(trial.as_dict())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, item: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            self._file.write(json.dumps(item) + "\n")
            self._file.flush()

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
