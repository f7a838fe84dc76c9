"""What the native operations take of CUDA; see `vendor`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..cuda import device as devices
from ..cuda import image
from ..cuda.driver import CudaError as Error
from ..cuda.image import Image, Layout
from ..cuda.placement import Placement
from ..protocol import HipImage
from .cuda_launcher import Launcher
from .cuda_repeat import Repeat
from .cuda_timing import interleaved, timings
from .in_a_row import InARow

__all__ = [
    "Device",
    "Error",
    "InARow",
    "Launcher",
    "Repeat",
    "captured",
    "candidate",
    "interleaved",
    "timings",
]


def Device(memory: Placement) -> devices.Device:
    return devices.Device(memory.driver, memory.ordinal)


def captured(device: devices.Device, paths: Sequence[Path], symbol: str, _hip: HipImage | None) -> Image:
    return image.captured(device.driver, paths, symbol)


def candidate(
    device: devices.Device, path: Path, symbol: str, expected: Layout | None, _hip: HipImage | None
) -> Image:
    return image.candidate(device.driver, path, symbol, expected)
