"""What `probe.py` and `limits/measure.py` answer, one line each; see `protocol` for the worker's messages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Packages:
    """What there is of packages, how many CUDA devices there are, and why there are none."""

    torch: bool
    triton: bool
    numpy: bool
    cuda: int
    cuda_reason: str


@dataclass(frozen=True)
class Agents:
    """The architectures of AMD GPUs, or the reason why there are none."""

    numpy: bool
    agents: list[str]
    reason: str


@dataclass(frozen=True)
class CudaDriver:
    """The CUDA driver's version, and the names of its devices."""

    version: str
    devices: list[str]


@dataclass(frozen=True)
class NoCudaDriver:
    """Why it can't be used. ``stage``: ``load``, ``bindings`` (the package is missing) or ``init``."""

    error: str
    stage: str


@dataclass(frozen=True)
class Device:
    """Which CUDA device it is; clocks in kHz."""

    device: str
    driver: str
    sm_count: int
    clock_khz: int
    memory_clock_khz: int
