"""What a traced run cost."""

from __future__ import annotations

from typing import Any

from kerncap.log import duration


def cost_text(run: Any) -> str:
    """What hashing took of a run, as it was measured in it."""
    said = f"hashing took {duration(run.hashing_ns)} of {duration(run.wall_ns)}"
    if run.hashing_ns < run.wall_ns:  # of several processes the sum may be more
        said += f" (at most {run.wall_ns / (run.wall_ns - run.hashing_ns):.2f} times as long as without)"
    return said
