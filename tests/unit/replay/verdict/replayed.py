"""A replay with a limit that a test can wait for, and a launch that works in place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kerncap.api.replay import ReplayOptions, ReplayResult, replay
from tests.unit.replay.build import Launch


def run(path: Path, **options: Any) -> ReplayResult:
    return replay(path, ReplayOptions(**{"timeout_s": 20.0, **options}))


SCALE = """
@triton.jit
def scale(x_ptr, s, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) * s, mask=i < n)
"""


def scale() -> Launch:
    x = np.arange(1, 513, dtype=np.float32)
    launch = Launch(SCALE, "scale", grid=(2, 1, 1)).tensor("x_ptr", x, x * 3)
    return launch.argument("s", 3.0).argument("n", 512).constexpr("BLOCK", 256)
