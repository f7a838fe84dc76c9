"""Check what one call of a Triton kernel would launch, from Python."""

from __future__ import annotations

from typing import Any

from kerncap.errors import UsageError
from kerncap.sanitizer.findings import LaunchReport
from kerncap.sanitizer.live.judged_once import Judge
from kerncap.sanitizer.options import Options
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
    Raises what Triton raises for a call that does not fit, UsageError for a kernel that was decorated under
    TRITON_INTERPRET=1, and BackendUnavailable without Triton.
    """
    if _is_interpreted(kernel):
        raise UsageError(
            "the kernel was decorated under TRITON_INTERPRET=1, so a call would run it; unset the variable"
        )
    judge = Judge(options)
    launches = launches_of(kernel, grid, args, kwargs, target=target, all_configs=every_configuration)
    return [judge.judge_launch(launch) for launch in launches]


def _is_interpreted(kernel: Any) -> bool:
    """Whether Triton's interpreter is below the kernel's autotuner and heuristics."""
    inner = kernel
    while inner is not None:
        if type(inner).__module__ == "triton.runtime.interpreter":
            return True
        inner = getattr(inner, "fn", None)
    return False
