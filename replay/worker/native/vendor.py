"""What a native session takes of a vendor: its device, images, launches and clocks.

`cuda_vendor` and `..hip.hip_vendor` are modules that have all of this; what is done with memory, states and
verdicts is the same for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ..job import JobLaunch
from ..protocol import HipImage, Timings

Layout = list[tuple[int, int]]  # (offset, size) of each parameter


class Vendor(Protocol):
    """A vendor's module."""

    @property
    def Error(self) -> type[Exception]:
        """What its driver's calls raise."""
        ...

    def Device(self, memory: Any) -> Any:
        """The device that memory was placed on, as `native.device.Device`."""
        ...

    def captured(self, device: Any, paths: Sequence[Path], symbol: str, hip: HipImage | None) -> Any:
        """The first of the captured images that can be used, as `native.image.Image`; ``hip``: its facts."""
        ...

    def candidate(
        self, device: Any, path: Path, symbol: str, expected: Layout | None, hip: HipImage | None
    ) -> Any:
        """A candidate's image that takes the captured parameters."""
        ...

    def Launcher(
        self, device: Any, image: Any, variables: Any, launch: JobLaunch, parameters: bytearray
    ) -> Any:
        """One launch of an image, as `native.launcher.Launcher`."""
        ...

    def Repeat(self, device: Any, bulk: Any, states: Any, launcher: Any) -> Any:
        """Replays in a row, as `native.repeat.Repeat`."""
        ...

    def InARow(self, launchers: Any) -> Any:
        """Launchers as one, for their time as a whole. Raises Refused if they have none."""
        ...

    def timings(
        self, device: Any, bulk: Any, states: Any, launcher: Any, ranges: Any, again: bool, limit_s: float
    ) -> Timings:
        """Warm and cold times."""
        ...

    def interleaved(
        self, device: Any, bulk: Any, states: Any, launchers: Any, rounds: int, ranges: Any, limit_s: float
    ) -> list[list[float]]:
        """Times of several launchers in turns."""
        ...
