"""Processes that import torch while it is still looked at what they will run: most of a search's start."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from pathlib import Path

from kerncap.errors import ReplayError
from kerncap.format.schema import Manifest
from kerncap.replay.choose import Choice
from kerncap.replay.surroundings import environment_of
from kerncap.replay.worker_process import Standby

_DRIVERS = (Path("/dev/nvidiactl"), Path("/proc/driver/nvidia/version"), Path("/dev/dxg"))


class Standbys:
    """One process for each engine, and one that compiles; nothing of a reproducer runs in them until taken.

    What they will be is a guess from what was asked for. Where the choice is another one they do not fit,
    and are ended.
    """

    def __init__(self, manifest: Manifest, engine: str, device: str, python: str | None, count: int) -> None:
        self._engines: list[Standby] = []
        self._pool: Standby | None = None
        if manifest.launch.mode == "native" or manifest.device.kind == "hip":
            return
        if python is None and importlib.util.find_spec("torch") is None:
            return
        compiled = device.startswith("cuda") or (
            engine != "interpreter"
            and device != "cpu"
            and manifest.device.kind == "cuda"
            and any(path.exists() for path in _DRIVERS)
        )
        environment = environment_of("jit" if compiled else "interpreter")
        with contextlib.suppress(ReplayError):  # whoever starts one for good says why it can't be
            if compiled:
                self._pool = Standby(python or sys.executable, environment, device=False)
            for _ in range(count):
                self._engines.append(Standby(python or sys.executable, environment, device=compiled))

    def keep(self, choice: Choice) -> None:
        """End those that are not what was chosen."""
        environment = environment_of(choice.launcher)
        for each in (*self._engines, self._pool):
            if each is not None and not each.fits(choice.python, environment):
                each.close()

    def engine(self) -> Standby | None:
        """One for an engine, if there is one left."""
        with contextlib.suppress(IndexError):  # engines start in several threads
            return self._engines.pop()
        return None

    @property
    def pool(self) -> Standby | None:
        """The one that compiles."""
        return self._pool

    def close(self) -> None:
        """End those that were not taken."""
        for each in (*self._engines, self._pool):
            if each is not None:
                each.close()
