"""Run a failed test again under ``kerncap capture``, and keep the launches that are to blame."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncap import child, log
from kerncap.errors import KerncapError
from kerncap.testing.on_failure import blamed
from kerncap.testing.on_failure.notes import FailedTest, Notes

LAST = 16  # launches that a test may end with, of which those that are to blame are found
MOST_S = 3600.0
PASSED = "it passed when it ran again by itself"


@dataclass(frozen=True)
class Left:
    """What a failed test leaves: reproducers, and why each was kept; without any, ``reason`` says why."""

    test: str
    reproducers: Mapping[Path, str]
    reason: str = ""


@dataclass(frozen=True)
class Pytest:
    """How one test is run again: the words, their folder and environment, and where its notes go."""

    words: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    notes: Notes

    def again(self, failed: FailedTest, output: Path) -> Left:
        """Reproducers of the launches that are to blame, below ``output``."""
        place = output / _folder_of(failed.test)
        self.notes.choose(failed.test)
        try:
            if failed.kind == "fault":
                return self._fault(failed, place)
            if failed.kind == "finding":
                return self._finding(failed, place)
            return self._failure(failed, place)
        except subprocess.TimeoutExpired:
            return Left(failed.test, {}, f"it did not end within {MOST_S:g} s when it ran again")
        except (KerncapError, OSError) as error:
            return Left(failed.test, {}, log.one_line(error))

    def _fault(self, failed: FailedTest, place: Path) -> Left:
        document = self._capture(place, "--on-fault")
        found = dict.fromkeys(_captured(document), "it faulted")
        if not found and not document["target_status"]:
            return Left(failed.test, {}, PASSED)
        return Left(failed.test, found, "" if found else _why_nothing(document))

    def _finding(self, failed: FailedTest, place: Path) -> Left:
        """The sanitizer has named the kernels; without it, the test may pass."""
        document = self._capture(place, "-k", _any_of(failed.kernels), "--per-config")
        found = dict.fromkeys(_captured(document), "the sanitizer has a finding")
        return Left(failed.test, found, "" if found else _why_nothing(document))

    def _failure(self, failed: FailedTest, place: Path) -> Left:
        document = self._capture(place)
        names = {each["kernel"] for each in document["reproducers"]}
        if document["target_status"] and any(
            kernel["launches"] > 1 for kernel in document["kernels"] if kernel["name"] in names
        ):
            _remove(_captured(document))
            document = self._capture(place, "--last", str(LAST), "-k", _any_of(names))
        captured = _captured(document)
        if not document["target_status"]:
            _remove(captured)
            return Left(failed.test, {}, PASSED)
        if not captured:
            return Left(failed.test, {}, _why_nothing(document))
        wrote = blamed.writers(captured, self.notes.tensors())
        if not wrote:
            return Left(failed.test, dict.fromkeys(captured, "one of its last launches"))
        _remove([path for path in captured if path not in wrote])
        return Left(failed.test, {path: f"it wrote {', '.join(names)}" for path, names in wrote.items()})

    def _capture(self, place: Path, *options: str) -> dict[str, Any]:
        """The document of ``kerncap capture --json``. Raises KerncapError."""
        words = ["capture", "--json", "-o", str(place), "--no-self-check", *options, "--", *self.words]
        done = child.run_text(
            child.kerncap("kerncap.cli", *words),
            timeout=MOST_S, cwd=self.folder, env=child.for_kerncap(self.environment),
        )  # fmt: skip
        try:
            document = json.loads(done.stdout)
        except json.JSONDecodeError:
            last = (done.stderr.strip().splitlines() or [f"kerncap capture ended with {done.returncode}"])[-1]
            raise KerncapError(last.removeprefix("kerncap: ")) from None
        assert isinstance(document, dict)
        return document


def _captured(document: Mapping[str, Any]) -> list[Path]:
    return [Path(path) for path in document["captured"]]


def _why_nothing(document: Mapping[str, Any]) -> str:
    return str(document["reason"] or "nothing was captured")


def _any_of(names: Sequence[str] | set[str]) -> str:
    return f"^(?:{'|'.join(re.escape(name) for name in sorted(names))})$"


def _remove(reproducers: Sequence[Path]) -> None:
    """Of those that were made a moment ago, what is not wanted; the folder too if nothing else is in it."""
    for path in reproducers:
        shutil.rmtree(path)
    for folder in {path.parent for path in reproducers}:
        if not any(folder.iterdir()):
            folder.rmdir()


def _folder_of(test: str) -> str:
    """A name for any test: readable, and no other test's."""
    readable = re.sub(r"[^\w.]+", "-", test.rpartition("/")[2], flags=re.ASCII).strip("-.")[:60]
    return f"{readable}-{hashlib.sha256(test.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
