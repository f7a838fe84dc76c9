"""The selectors that `capture` and `arm` share, from what click gives to what the options hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def selectors(given: Mapping[str, Any]) -> dict[str, Any]:
    """The part of `CaptureOptions` that says which launches are taken. Raises UsageError."""
    from kerncap.capture.options import parse_launch, parse_ranks
    from kerncap.capture.where import parse_where

    return {
        "kernel": given["kernel"],
        "launch": parse_launch(given["launch"]) if given["launch"] is not None else None,
        "per_config": given["per_config"],
        "where": parse_where(given["where"]) if given["where"] is not None else None,
        "range": given["in_range"],
        "ranks": parse_ranks(given["rank"]) if given["rank"] is not None else None,
        "on_fault": given["on_fault"],
        "fault_timeout_s": given["fault_timeout"],
        "when": given["when"],
        "last": given["last"],
        "stop": given["stop"],
    }
