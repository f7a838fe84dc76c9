"""What the native session takes of CUDA; see `vendor`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..driver import CudaError as Error
from ..memory.placement import Placement
from . import device as devices
from . import image
from .image import Image, Layout
from .launcher import Launcher
from .repeat import Repeat
from .timing import interleaved, timings

__all__ = ["Device", "Error", "Launcher", "Repeat", "captured", "candidate", "interleaved", "timings"]


def Device(memory: Placement) -> devices.Device:
    return devices.Device(memory.driver, memory.ordinal)


def captured(device: devices.Device, paths: Sequence[Path], symbol: str) -> Image:
    return image.captured(device.driver, paths, symbol)


def candidate(device: devices.Device, path: Path, symbol: str, expected: Layout | None) -> Image:
    return image.candidate(device.driver, path, symbol, expected)
