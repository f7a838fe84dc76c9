"""What `minimize` left out, for the terminal."""

from __future__ import annotations

from typing import Any

from kerncap import log


def render(result: dict[str, Any]) -> str:
    """A few lines; the last one is the new reproducer's path, or says that nothing was left out."""
    needed, closure = result["needed_bytes"], result["closure_bytes"]
    lines = [f"needed: {log.size(needed)} of {log.size(closure)} ({result['how']}, {result['tries']} tries)"]
    if result["regions_left_out"]:
        lines.append(f"left out: {result['regions_left_out']} whole regions")
    if not result["complete"]:
        lines.append("the time limit ended the search; --time sets a longer one")
    before, after = log.size(result["before_bytes"]), log.size(result["after_bytes"])
    if result["path"] is None:
        lines.append(f"nothing could be left out: {before}")
        return "\n".join(lines)
    lines.append(f"checked: {log.one_line(result['verified'])}")
    lines.append(f"{before} -> {after} ({100 * result['ratio']:.1f} %) in {result['seconds']:.1f} s")
    lines.append(result["path"])
    return "\n".join(lines)
