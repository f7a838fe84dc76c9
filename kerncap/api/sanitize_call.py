"""Check what one call of a Triton kernel would launch, from Python."""

from __future__ import annotations

from typing import Any

from kerncap.sanitizer.analysis import Options
from kerncap.sanitizer.findings import LaunchReport
from kerncap.sanitizer.live.judge import Judge
from kerncap.sanitizer.sources.triton_call import launches_of


def sanitize_call(
    kernel: Any,
    *args: Any,
    grid: Any,
    options: Options | None = None,
    target: str | None = None,
    every_configuration: bool = True,
    **kwargs: Any,
) -> list[LaunchReport]:
    """Reports on ``kernel[grid](*args, **kwargs)``, which is not launched; needs no GPU.

    One report per configuration of an autotuner (of its first, with ``every_configuration=False``), else one.
    A kernel's own parameter called ``options``, ``target`` or ``every_configuration`` goes by position.
    Raises what Triton raises for a call that does not fit, and BackendUnavailable without Triton.
    """
    judge = Judge(options)
    launches = launches_of(kernel, grid, args, kwargs, target=target, all_configs=every_configuration)
    return [judge.judge_launch(launch) for launch in launches]
