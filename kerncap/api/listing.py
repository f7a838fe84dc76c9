"""Run a program and count and time its kernels; nothing is captured."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from kerncap.api.capture import capture
from kerncap.capture.options import CaptureOptions
from kerncap.capture.outcome import CaptureResult


def list_kernels(command: Sequence[str], stdout_to_stderr: bool = False) -> CaptureResult:
    """The kernels that ``command`` launches, with counts and times in ``kernels``."""
    with tempfile.TemporaryDirectory(prefix="kerncap-list-") as folder:
        return capture(
            CaptureOptions(
                command=tuple(command),
                output=Path(folder),
                list_only=True,
                self_check=False,
                stdout_to_stderr=stdout_to_stderr,
            )
        )
