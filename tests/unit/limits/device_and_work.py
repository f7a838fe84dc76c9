"""Devices and work as they could be, for what is made of them."""

from __future__ import annotations

from kerncap.replay.limits.ceilings import Ceilings
from kerncap.replay.limits.launch_work import Traffic, Work

RATES = {
    "dram_read_bytes_per_s": 4e12, "dram_write_bytes_per_s": 3e12, "dram_copy_bytes_per_s": 3.5e12,
    "l2_bytes_per_s": 8e12, "fp32_per_s": 60e12, "special_per_s": 4e12, "tensor_fp16_per_s": 800e12,
    "launch_us": 2.0, "event_us": 3.0,
}  # fmt: skip
DOCUMENT = {
    "version": 1, "device": "NVIDIA Made Up", "arch": "sm_90", "driver": "13.0", "sm_count": 132,
    "clock_khz": 1_980_000, "memory_clock_khz": 3_201_000, "memory_bus_bits": 6144, "l2_bytes": 60 << 20,
    "ceilings": RATES, "how": {"tensor_fp16_per_s": "wgmma"}, "missing": {"tensor_fp64_per_s": "no such"},
}  # fmt: skip


def device(**rates: float) -> Ceilings:
    return Ceilings(
        device="NVIDIA Made Up", arch="sm_90", driver="13.0", sm_count=132, clock_khz=1_980_000,
        memory_clock_khz=3_201_000, memory_bus_bits=6144, l2_bytes=60 << 20, rates={**RATES, **rates}, how={},
        missing={},
    )  # fmt: skip


def traffic(size: int, requested: int | None = None) -> Traffic:
    return Traffic(requested or size, requested or size, size, size)


def work(read: int, written: int, **operations: int) -> Work:
    kinds = {name.replace("_", " "): amount for name, amount in operations.items()}
    return Work("TTIR", traffic(read) if read else None, traffic(written) if written else None, kinds)
