"""`kerncap replay --watch FILE --json` as a process: save a text, read what it came to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.integration.conftest import CommandLine


class Watching:
    """A context manager; ``first`` is the judgement of the file as it was."""

    def __init__(self, kerncap: CommandLine, reproducer: Path, file: Path, *options: str) -> None:
        self.file = file
        command = [sys.executable, "-m", "kerncap", "replay", str(reproducer), "--watch", str(file), "--json"]
        self._process = subprocess.Popen(
            [*command, *options], cwd=file.parent, env=kerncap.environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.first = self._next()

    def __enter__(self) -> Watching:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def save(self, text: str) -> dict[str, Any]:
        """The judgement of ``text`` in place of what was in the file."""
        self.file.write_text(text)
        return self._next()

    def end(self) -> tuple[int, str]:
        """End it as a shell does; its status and what it said on stderr."""
        if self._process.poll() is None:
            self._process.terminate()
        _, said = self._process.communicate(timeout=300)
        return self._process.returncode, said

    def _next(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            status, said = self.end()
            raise AssertionError(f"it ended with status {status}: {said}")
        return dict(json.loads(line))
