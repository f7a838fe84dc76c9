"""What a device could do by its data: clock, width and units, as the vendor's tools take their per cent of.

The tables give operations per clock and multiprocessor (AMD: compute unit); a device that is in none of them
has only the peak of its memory. Source: CUDA C++ Programming Guide, "Arithmetic Instructions" (throughput by
compute capability); NVIDIA's A100 and H100 architecture papers (dense tensor-core rates); AMD's CDNA 2, 3 and
4 architecture papers (dense matrix rates; vectors with packed instructions).
"""

from __future__ import annotations

from kerncap.replay.limits.ceilings import Ceilings

_PER_CLOCK: dict[str, dict[str, int]] = {
    "sm_80": {
        "fp32": 128, "fp64": 64, "fp16": 512, "bf16": 256, "special": 16,
        "tensor_fp16": 2048, "tensor_bf16": 2048, "tensor_tf32": 1024,
        "tensor_int8": 4096, "tensor_fp64": 128,
    },
    "sm_90": {
        "fp32": 256, "fp64": 128, "fp16": 512, "bf16": 512, "special": 16,
        "tensor_fp16": 4096, "tensor_bf16": 4096, "tensor_tf32": 2048, "tensor_fp8": 8192,
        "tensor_int8": 8192, "tensor_fp64": 256,
    },
    "gfx90a": {
        "fp32": 256, "fp64": 128, "fp16": 256,
        "tensor_fp16": 1024, "tensor_bf16": 1024, "tensor_int8": 1024, "tensor_fp64": 256,
    },
    "gfx942": {
        "fp32": 256, "fp64": 128, "fp16": 256,
        "tensor_fp16": 2048, "tensor_bf16": 2048, "tensor_tf32": 1024, "tensor_fp8": 4096,
        "tensor_int8": 4096, "tensor_fp64": 256,
    },
    "gfx950": {
        "fp32": 256, "fp64": 128, "fp16": 256,
        "tensor_fp16": 4096, "tensor_bf16": 4096, "tensor_fp8": 8192,
        "tensor_int8": 8192, "tensor_fp64": 128,
    },
}  # fmt: skip


def dram_bytes_per_s(device: Ceilings) -> float | None:
    """Two transfers per memory clock over the whole bus; None if the driver does not tell them."""
    found = 2.0 * device.memory_clock_khz * 1e3 * device.memory_bus_bits / 8
    return found or None


def operations_per_s(device: Ceilings, kind: str) -> float | None:
    """Of a unit ("fp32", "tensor_bf16"), at the highest clock; None if it is not known here."""
    return all_operations_per_s(device).get(kind)


def all_operations_per_s(device: Ceilings) -> dict[str, float]:
    """The same of each unit that is known here."""
    clocks = device.sm_count * device.clock_khz * 1e3
    return {kind: each * clocks for kind, each in _PER_CLOCK.get(device.arch, {}).items()}
