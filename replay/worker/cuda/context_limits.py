"""What the captured launch's context allowed its kernels: stack, heap, launches by kernels, text to print."""

from __future__ import annotations

from . import driver as cu

# By the name of a CUlimit.
LIMITS = {
    "stack_bytes": ("STACK_SIZE", "a stack of {:,} bytes for a thread"),
    "print_bytes": ("PRINTF_FIFO_SIZE", "{:,} bytes for what kernels print"),
    "heap_bytes": ("MALLOC_HEAP_SIZE", "a heap of {:,} bytes for kernels"),
    "pending_launches": ("DEV_RUNTIME_PENDING_LAUNCH_COUNT", "{:,} pending launches by kernels"),
}


def set_limits(driver: cu.Driver, limits: dict[str, int]) -> list[str]:
    """Give the current context these limits, before any image is loaded; notes on those that it refuses."""
    notes = []
    for name, (theirs, what) in LIMITS.items():
        limit = getattr(driver.api.CUlimit, f"CU_LIMIT_{theirs}")
        try:
            now = driver.call("cuCtxGetLimit", limit)
        except cu.CudaError:
            continue
        if not limits[name] or now == limits[name]:
            continue
        if status := driver.status("cuCtxSetLimit", limit, limits[name]):
            notes.append(f"the driver refuses {what.format(limits[name])} here: {driver.error_name(status)}")
    return notes
