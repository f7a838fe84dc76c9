"""Launches and runs as `kerncap trace` records them, made by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from kerncap.capture.payloads import HashedRegion, KernelName, TracedRecord
from kerncap.capture.trace_file import Trace, TracedProcess
from kerncap.format import schema


def digest(contents: object) -> str:
    return hashlib.sha256(str(contents).encode()).hexdigest()[:32]


def launch(
    name: str, before: object = 0, after: object = 1, *, n: int = 64, scale: str = "1", **changes: Any
) -> TracedRecord:
    """One of a kernel that reads and writes ``x``, a tensor of ``n`` elements."""
    record: dict[str, Any] = {
        "launch": 0,
        "mode": "interpreter",
        "kernel": KernelName(name, f"m.{name}"),
        "ordinal": 0,
        "grid": (1, 1, 1),
        "arguments": (
            schema.Argument(name="x", role="runtime", value=schema.TensorValue(view=0)),
            schema.Argument(name="scale", role="runtime", value=schema.IntValue(value=scale)),
        ),
        "views": (
            schema.View(region=0, offset=0, dtype="float32", itemsize=4, shape=(n,), strides=(1,), name="x"),
        ),
        "hashed": (HashedRegion(4096, 4 * n, before=digest(before), after=digest(after)),),
    }
    return TracedRecord(**{**record, **changes})


def run(*processes: Sequence[TracedRecord]) -> Trace:
    return Trace(
        processes=tuple(
            TracedProcess(pid=number + 1, launches=tuple(launches))
            for number, launches in enumerate(processes)
        )
    )
