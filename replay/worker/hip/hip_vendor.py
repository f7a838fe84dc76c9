"""What the native operations take of HIP; `native/vendor.py` says what that is."""

from __future__ import annotations

from ..native.in_a_row import InARow
from . import image
from .device import Device
from .hsa import HsaError as Error
from .image import Image
from .launcher import Launcher
from .repeat import HipRepeat as Repeat
from .repeat import interleaved, timings

__all__ = [
    "Device", "Error", "Image", "InARow", "Launcher", "Repeat", "captured", "candidate", "interleaved",
    "timings",
]  # fmt: skip


captured = image.captured
candidate = image.candidate
