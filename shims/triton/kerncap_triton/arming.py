"""`kerncap arm`: the page that says which selection holds, shared with all processes of the session."""

from __future__ import annotations

import json
import mmap
import os
from typing import Optional

from .contract import Options

PAGE = "arm"
SIZE = 4096


class Page:
    """The session's mapped page. A launch reads one word of it."""

    def __init__(self, folder: str) -> None:
        fd = os.open(os.path.join(folder, PAGE), os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._map = mmap.mmap(fd, SIZE, mmap.MAP_SHARED, mmap.PROT_READ)
        finally:
            os.close(fd)
        # One aligned word, read whole. The machine is little-endian, as CUDA's and ROCm's all are.
        self.words = memoryview(self._map).cast("Q")

    @property
    def generation(self) -> int:
        return int(self.words[0])

    @classmethod
    def of(cls, folder: str, options: Options) -> Optional["Page"]:
        """The page of a session that was started dormant; None for one that can't be armed."""
        if not options.dormant:
            return None
        try:
            return cls(folder)
        except (OSError, ValueError):
            return None  # the session is over


def options_of(folder: str, generation: int) -> Options:
    """What this generation selects. Raises OSError or ValueError."""
    with open(os.path.join(folder, f"session-{generation}.json"), encoding="utf-8") as file:
        options = Options(json.load(file))
    if options.generation != generation:
        raise ValueError(f"it is not the selection of generation {generation}")
    return options
