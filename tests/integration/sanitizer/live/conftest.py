"""Runs a script as `kerncap sanitize -- python script.py` does, and gives what came of it."""

from __future__ import annotations

import os
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kerncap.api.sanitize.program import LiveOptions, SanitizeResult, sanitize_command
from kerncap.sanitizer.analysis import Options
from kerncap.sanitizer.findings import LaunchReport
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.live.judge import Engine

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
    folder: Path,
    source: str,
    engine: Engine | None = None,
    prelude: str = PRELUDE,
    **options: Any,
) -> SanitizeResult:
    script = folder / "script.py"
    script.write_text(prelude + textwrap.dedent(source), encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return sanitize_command(
        [sys.executable, "-W", "error::RuntimeWarning", str(script)],
        LiveOptions(**options),
        environment={**inherited, "CUDA_VISIBLE_DEVICES": ""},
        engine=engine,
    )


def of(result: SanitizeResult, kernel: str) -> list[LaunchReport]:
    return [report for report in result.reports if report.kernel == kernel]
