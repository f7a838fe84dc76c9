"""What the driver says of a compiled kernel: registers, memory, how many blocks a multiprocessor holds."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ..common.failures import Refused
from . import driver as cu

_WARP = 32


def of_function(
    driver: cu.Driver, ordinal: int, function: ctypes.c_void_p, config: cu.LaunchConfig, cluster: int = 1
) -> dict[str, Any]:
    """Facts of a function as it is launched by ``config``, in clusters of ``cluster`` blocks.

    What this driver does not tell is left out.
    """
    block = [int(n) for n in config.block]
    threads = block[0] * block[1] * block[2]
    found: dict[str, Any] = {
        "grid": [int(n) for n in config.grid], "block": block, "num_warps": -(-threads // _WARP),
        "dynamic_shared_bytes": int(config.shared_bytes),
    }  # fmt: skip
    for name, which in _ATTRIBUTES:
        value = _attribute(driver, which, function)
        if value is not None:
            found[name] = value
    if "shared_bytes" in found:
        found["shared_bytes"] += int(config.shared_bytes)
    try:
        blocks = _blocks(driver, ordinal, function, config, threads, cluster)
        room = driver.attribute(cu.DEVICE_MAX_THREADS_PER_MULTIPROCESSOR, ordinal) // _WARP
    except (cu.CudaError, Refused):
        return found
    if blocks is not None and room:
        found["blocks_per_sm"] = blocks
        found["occupancy"] = min(1.0, blocks * found["num_warps"] / room)
    return found


def launch_config(
    grid: Sequence[int], block: Sequence[int], shared: int, cluster: Sequence[int] = (1, 1, 1)
) -> cu.LaunchConfig:
    """The configuration of a launch that somebody else makes."""
    config = cu.LaunchConfig()
    config.grid[:] = list(grid)
    config.block[:] = list(block)
    config.shared_bytes = shared
    if any(n > 1 for n in cluster):
        attribute = cu.LaunchAttribute()
        attribute.id = cu.ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value[:3] = list(cluster)
        config.attributes = (cu.LaunchAttribute * 1)(attribute)
        config.attribute_count = 1
    return config


_ATTRIBUTES = (
    ("max_threads", cu.FUNC_MAX_THREADS_PER_BLOCK),
    ("shared_bytes", cu.FUNC_SHARED_SIZE_BYTES),
    ("spilled_bytes", cu.FUNC_LOCAL_SIZE_BYTES),
    ("registers", cu.FUNC_NUM_REGS),
)


def _attribute(driver: cu.Driver, which: int, function: ctypes.c_void_p) -> int | None:
    value = ctypes.c_int()
    try:
        driver.call("cuFuncGetAttribute", ctypes.byref(value), ctypes.c_int(which), function)
    except (cu.CudaError, Refused):
        return None
    return value.value


def _blocks(
    driver: cu.Driver, ordinal: int, function: ctypes.c_void_p, config: cu.LaunchConfig, threads: int,
    cluster: int,
) -> int | None:  # fmt: skip
    """Blocks of one multiprocessor; of clusters the mean, rounded down, for they spread over several."""
    count = ctypes.c_int()
    if cluster > 1:
        driver.call("cuOccupancyMaxActiveClusters", ctypes.byref(count), function, ctypes.byref(config))
        processors = driver.attribute(cu.DEVICE_MULTIPROCESSOR_COUNT, ordinal)
        return count.value * cluster // processors if processors else None
    driver.call(
        "cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(count), function, ctypes.c_int(threads),
        ctypes.c_size_t(config.shared_bytes),
    )  # fmt: skip
    return count.value
