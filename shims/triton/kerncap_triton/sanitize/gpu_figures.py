"""Figures of the GPUs that programs are compiled for, for programs that choose a kernel or a grid by them.

Source: NVIDIA's data sheets and CUDA's table of compute capabilities (A100, H100, B200), AMD's data sheets
(MI250X, one of its two dies; MI300X; MI355X).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict

DEFAULT = "cuda:90"
_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class Figures:
    """Sizes in bytes, clocks in kHz, ``mem_bus_width`` in bits; ``shared_*`` is per block or compute unit."""

    name: str
    processors: int
    memory: int
    l2: int
    shared_per_block: int
    shared_most: int
    shared_per_processor: int
    clock_khz: int
    memory_clock_khz: int
    memory_bus_width: int
    threads_per_processor: int = 2048


_CUDA = {
    80: Figures("NVIDIA A100-SXM4-80GB", 108, 80 * _GIB, 40 * _MIB, 48 * _KIB, 163 * _KIB, 164 * _KIB,
                1410000, 1593000, 5120),
    90: Figures("NVIDIA H100 80GB HBM3", 132, 80 * _GIB, 50 * _MIB, 48 * _KIB, 227 * _KIB, 228 * _KIB,
                1980000, 2619000, 5120),
    100: Figures("NVIDIA B200", 148, 180 * _GIB, 126 * _MIB, 48 * _KIB, 227 * _KIB, 228 * _KIB,
                 1965000, 3996000, 8192),
}  # fmt: skip
_HIP = {
    "gfx90a": Figures("AMD Instinct MI250X", 110, 64 * _GIB, 8 * _MIB, 64 * _KIB, 64 * _KIB, 64 * _KIB,
                      1700000, 1600000, 4096),
    "gfx942": Figures("AMD Instinct MI300X", 304, 192 * _GIB, 4 * _MIB, 64 * _KIB, 64 * _KIB, 64 * _KIB,
                      2100000, 1300000, 8192),
    "gfx950": Figures("AMD Instinct MI355X", 256, 288 * _GIB, 4 * _MIB, 160 * _KIB, 160 * _KIB, 160 * _KIB,
                      2400000, 2000000, 8192),
}  # fmt: skip


def of(target: Any) -> Figures:
    """Those of ``target``, a GPUTarget; of an architecture that is not listed, an H100's or an MI300X's."""
    if target.backend == "hip":
        return _HIP.get(target.arch, _HIP["gfx942"])
    return _CUDA.get(target.arch, _CUDA[90])


def capability(target: Any) -> "tuple[int, int]":
    """As torch and Triton give it: of gfx942 (9, 4)."""
    if target.backend == "hip":
        digits = target.arch[3:]
        return int(digits[:-2]), int(digits[-2], 16)
    return divmod(target.arch, 10)


def for_triton(target: Any) -> Dict[str, Any]:
    """What the driver's ``get_device_properties`` gives."""
    gpu = of(target)
    return {
        "max_shared_mem": gpu.shared_most,
        "max_num_regs": 65536,
        "multiprocessor_count": gpu.processors,
        "warpSize": target.warp_size,
        "sm_clock_rate": gpu.clock_khz,
        "mem_clock_rate": gpu.memory_clock_khz,
        "mem_bus_width": gpu.memory_bus_width,
        "arch": f"sm_{target.arch}" if target.backend == "cuda" else target.arch,
    }


def for_torch(target: Any) -> Dict[str, Any]:
    """The attributes of torch's device properties."""
    gpu = of(target)
    major, minor = capability(target)
    return {
        "name": gpu.name,
        "major": major,
        "minor": minor,
        "total_memory": gpu.memory,
        "multi_processor_count": gpu.processors,
        "max_threads_per_multi_processor": gpu.threads_per_processor,
        "max_threads_per_block": 1024,
        "regs_per_multiprocessor": 65536,
        "warp_size": target.warp_size,
        "shared_memory_per_block": gpu.shared_per_block,
        "shared_memory_per_block_optin": gpu.shared_most,
        "shared_memory_per_multiprocessor": gpu.shared_per_processor,
        "L2_cache_size": gpu.l2,
        "clock_rate": gpu.clock_khz,
        "memory_clock_rate": gpu.memory_clock_khz,
        "memory_bus_width": gpu.memory_bus_width,
        "is_integrated": 0,
        "is_multi_gpu_board": 0,
        "gcnArchName": target.arch if target.backend == "hip" else gpu.name,
        "pci_bus_id": 0,
        "pci_device_id": 0,
        "pci_domain_id": 0,
    }
