"""Python stacks as a user knows them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kerncap

# `kerncap.sanitizer` lies elsewhere in a checkout.
_OURS = tuple(
    {
        str(folder) + os.sep
        for folder in (Path(kerncap.__file__).resolve().parent, Path(__file__).resolve().parents[1])
    }
)
_RUNNERS = ("/_pytest/", "/pluggy/")


def users_frames(stack: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """A stack (file, line, function; innermost last) without kerncap's own frames at its inner end, and
    without what ran the test at its outer end."""
    frames = list(stack)
    while frames and str(frames[-1][0]).startswith(_OURS):
        frames.pop()
    runners = [index for index, frame in enumerate(frames) if any(name in str(frame[0]) for name in _RUNNERS)]
    return frames[runners[-1] + 1 :] if runners and runners[-1] + 1 < len(frames) else frames
