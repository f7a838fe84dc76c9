"""Runs a script as `kerncap sanitize -- python script.py` does, and gives what came of it."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from kerncap.api.sanitize.program import LiveOptions, SanitizeResult, sanitize_command
from kerncap.capture.target import TargetResult
from kerncap.sanitizer.findings import LaunchReport
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.live.judged_once import Engine
from kerncap.sanitizer.options import Options
from tests.integration import forked_commands

pytest.importorskip("triton")
pytest.importorskip("torch")

PRELUDE = """\
import os, sys
import torch
import triton
import triton.language as tl
"""


@dataclass
class Analysed:
    """An engine that only looks at what a test names: how often it was asked, it remembers."""

    looks_at: dict[str, list[str]]  # kernel -> arguments whose contents its analysis reads
    launches: list[Launch]

    def __call__(self, launch: Launch, options: Options) -> LaunchReport:
        self.launches.append(launch)
        notes = []
        for argument in launch.arguments:
            if argument.name in self.looks_at.get(launch.kernel, ()):
                contents = launch.contents.read(argument.storage)  # type: ignore[union-attr]
                fresh = launch.contents.unwritten(argument.storage)  # type: ignore[union-attr]
                assert contents is not None and fresh is not None
                data = contents.whole()
                written = data.size - int((fresh.ends - fresh.starts).sum())
                notes.append(f"{argument.name}: {written} of {data.size} bytes written")
        return LaunchReport(
            launch.kernel,
            launch.grid,
            (),
            tuple(notes),
            launch.label,
            launch.configuration,
            launch.python_stack,
        )

    def count(self, kernel: str) -> int:
        return sum(launch.kernel == kernel for launch in self.launches)


def analysed(**looks_at: list[str]) -> Analysed:
    return Analysed(looks_at, [])


def run_script(
    folder: Path, source: str, engine: Engine | None = None, prelude: str = PRELUDE, **options: Any
) -> SanitizeResult:
    script = folder / "script.py"
    script.write_text(prelude + textwrap.dedent(source), encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    with mock.patch("kerncap.api.sanitize.program.Target", _Forked):
        return sanitize_command(
            [sys.executable, "-W", "error::RuntimeWarning", str(script)],
            LiveOptions(**options),
            environment={**inherited, "CUDA_VISIBLE_DEVICES": ""},
            engine=engine,
        )


class _Forked:
    """A target that is a fork of a process which has torch."""

    @staticmethod
    def start(
        command: Sequence[str], environment: Mapping[str, str], _stdout_to_stderr: bool
    ) -> TargetResult:
        status, out, err = forked_commands.program(command, Path.cwd(), environment, timeout_s=300)
        sys.stdout.write(out)
        sys.stderr.write(err)
        return TargetResult(status if status >= 0 else 128 - status)


def of(result: SanitizeResult, kernel: str) -> list[LaunchReport]:
    return [report for report in result.reports if report.kernel == kernel]
