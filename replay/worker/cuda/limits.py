"""What the captured launch's context allowed its kernels: stack, heap, launches by kernels, text to print."""

from __future__ import annotations

import ctypes

from . import driver as cu

# Source: CUlimit in cuda.h.
LIMITS = {
    "stack_bytes": (0, "a stack of {:,} bytes for a thread"),
    "print_bytes": (1, "{:,} bytes for what kernels print"),
    "heap_bytes": (2, "a heap of {:,} bytes for kernels"),
    "pending_launches": (4, "{:,} pending launches by kernels"),
}


def set_limits(driver: cu.Driver, limits: dict[str, int]) -> list[str]:
    """Give the current context these limits, before any image is loaded; notes on those that it refuses."""
    notes = []
    for name, (number, what) in LIMITS.items():
        now = ctypes.c_size_t()
        status = driver.status("cuCtxGetLimit", ctypes.byref(now), ctypes.c_int(number))
        if status or not limits[name] or now.value == limits[name]:
            continue
        status = driver.status("cuCtxSetLimit", ctypes.c_int(number), ctypes.c_size_t(limits[name]))
        if status:
            notes.append(f"the driver refuses {what.format(limits[name])} here: {driver.error_name(status)}")
    return notes
