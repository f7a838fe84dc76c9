"""What came of `kerncap arm`, as lines."""

from __future__ import annotations

import shlex

from kerncap import log
from kerncap.capture.outcome import ArmResult
from kerncap.log import from_here


def render_arm(result: ArmResult) -> str:
    """Where it went, what failed, what to do next."""
    lines = [f"problem: {text}" for text in result.failed]
    for each in result.captured:
        rank = f"rank {each.rank}, " if each.rank is not None else ""
        lines.append(
            f"captured {log.one_line(each.kernel)} ({rank}launch {each.launch} since it was armed) -> "
            f"{from_here(each.path)}"
        )
    if not result.waited:
        lines.append(f"armed (generation {result.generation}); --wait waits for the capture")
    elif result.captured:
        verb = "inspect" if result.no_values else "replay"
        lines.append(f"next: kerncap {verb} {shlex.quote(from_here(result.captured[0].path))}")
    if result.reason is not None:
        lines.append(f"nothing captured: {result.reason}")
    return "".join(f"kerncap: {line}\n" for line in lines)
