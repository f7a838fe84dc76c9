"""Run a program and count and time its kernels; nothing is captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from kerncap import scratch
from kerncap.api.capture import capture
from kerncap.capture.options import CaptureOptions, Run
from kerncap.capture.outcome import CaptureResult


def list_kernels(
    command: Sequence[str],
    stdout_to_stderr: bool = False,
    *,
    backend: Literal["auto", "cuda", "hip", "triton"] = "auto",
    environment: Mapping[str, str] | None = None,
    timeline: bool = False,
) -> CaptureResult:
    """The kernels that ``command`` launches: counts and times in ``kernels``, their launches in its rows.

    ``timeline``: also when each launch, copy and range ran, in ``timeline`` of the result.
    `kerncap.report.listing_json.listing_document` makes the document of ``kerncap list --json`` of it.
    Raises CaptureError if no session can be made; a program that fails is a result.
    """
    with scratch.temporary("list") as folder:
        return capture(
            CaptureOptions(
                Run(
                    command=tuple(command),
                    output=Path(folder),
                    backend=backend,
                    list_only=True,
                    timeline=timeline,
                    self_check=False,
                    stdout_to_stderr=stdout_to_stderr,
                    environment=dict(environment) if environment is not None else None,
                )
            )
        )
