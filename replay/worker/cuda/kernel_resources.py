"""What the driver says of a compiled kernel: registers, memory, how many blocks a multiprocessor holds."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from ..common.failures import Refused
from ..protocol import Compiled, three
from . import driver as cu

_WARP = 32


def of_function(
    driver: cu.Driver, ordinal: int, function: ctypes.c_void_p, config: cu.LaunchConfig, cluster: int = 1
) -> Compiled:
    """Facts of a function as it is launched by ``config``, in clusters of ``cluster`` blocks."""
    block = three(config.block)
    threads = block[0] * block[1] * block[2]
    warps = -(-threads // _WARP)
    static_bytes = _attribute(driver, cu.FUNC_SHARED_SIZE_BYTES, function)
    found = Compiled(
        grid=three(config.grid),
        block=block,
        num_warps=warps,
        dynamic_shared_bytes=int(config.shared_bytes),
        shared_bytes=None if static_bytes is None else static_bytes + int(config.shared_bytes),
        max_threads=_attribute(driver, cu.FUNC_MAX_THREADS_PER_BLOCK, function),
        spilled_bytes=_attribute(driver, cu.FUNC_LOCAL_SIZE_BYTES, function),
        registers=_attribute(driver, cu.FUNC_NUM_REGS, function),
    )
    try:
        blocks = _blocks(driver, ordinal, function, config, threads, cluster)
        room = driver.attribute(cu.DEVICE_MAX_THREADS_PER_MULTIPROCESSOR, ordinal) // _WARP
    except (cu.CudaError, Refused):
        return found
    if blocks is not None and room:
        found.blocks_per_sm = blocks
        found.occupancy = min(1.0, blocks * warps / room)
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
