"""Run a program and hash the memory of its launches; nothing is captured."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import kerncap
from kerncap import env, scratch
from kerncap.api.capture import capture
from kerncap.capture.options import CaptureOptions, Run, Selection
from kerncap.capture.outcome import CaptureResult
from kerncap.capture.trace_file import Trace
from kerncap.format.private.command import without_secrets


def trace(
    command: Sequence[str],
    selection: Selection | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    stdout_to_stderr: bool = False,
    native: bool = False,
) -> tuple[Trace, CaptureResult]:
    """What ``command`` launches through Triton, with digests of the arguments' memory before and after it.

    ``selection``: kernels by name, and ordinals. ``native``: also what the CUDA shim sees, with all memory
    that it reaches. Raises CaptureError if no session can be made; a program that fails is a result.
    """
    chosen = selection or Selection()
    started_ns = time.time_ns()
    with scratch.temporary("trace") as folder:
        result = capture(
            CaptureOptions(
                Run(
                    command=tuple(command),
                    output=Path(folder),
                    list_only=True,
                    trace=True,
                    trace_native=native,
                    self_check=False,
                    stdout_to_stderr=stdout_to_stderr,
                    environment=dict(environment) if environment is not None else None,
                ),
                chosen,
            )
        )
    return Trace(
        kerncap=kerncap.__version__,
        command=tuple(env.hide_home(part) for part in without_secrets(tuple(command))),
        time_ns=started_ns,
        wall_ns=result.wall_ns,
        hashing_ns=result.overhead_ns,
        status=result.target.status,
        kernels=chosen.kernel,
        launch=chosen.launch,
        native=native,
        processes=result.traced,
    ), result
