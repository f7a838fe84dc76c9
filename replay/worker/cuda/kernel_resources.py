"""What the driver says of a compiled kernel: registers, memory, how many blocks a multiprocessor holds."""

from __future__ import annotations

from typing import Any

from ..common.failures import Refused
from ..protocol import Compiled, three
from . import driver as cu

_WARP = 32


def of_function(driver: cu.Driver, ordinal: int, function: Any, config: Any, cluster: int = 1) -> Compiled:
    """Facts of a function as it is launched by ``config``, in clusters of ``cluster`` blocks."""
    block = three((config.blockDimX, config.blockDimY, config.blockDimZ))
    dynamic_bytes = int(config.sharedMemBytes)
    threads = block[0] * block[1] * block[2]
    warps = -(-threads // _WARP)
    static_bytes = _attribute(driver, "SHARED_SIZE_BYTES", function)
    found = Compiled(
        grid=three((config.gridDimX, config.gridDimY, config.gridDimZ)),
        block=block,
        num_warps=warps,
        dynamic_shared_bytes=dynamic_bytes,
        shared_bytes=None if static_bytes is None else static_bytes + dynamic_bytes,
        max_threads=_attribute(driver, "MAX_THREADS_PER_BLOCK", function),
        spilled_bytes=_attribute(driver, "LOCAL_SIZE_BYTES", function),
        registers=_attribute(driver, "NUM_REGS", function),
    )
    try:
        blocks = _blocks(driver, ordinal, function, config, threads, cluster)
        room = driver.attribute("MAX_THREADS_PER_MULTIPROCESSOR", ordinal) // _WARP
    except (cu.CudaError, Refused):
        return found
    if blocks is not None and room:
        found.blocks_per_sm = blocks
        found.occupancy = min(1.0, blocks * warps / room)
    return found


def _attribute(driver: cu.Driver, name: str, function: Any) -> int | None:
    try:
        return driver.function_attribute(name, function)
    except (cu.CudaError, Refused):
        return None


def _blocks(
    driver: cu.Driver, ordinal: int, function: Any, config: Any, threads: int, cluster: int
) -> int | None:
    """Blocks of one multiprocessor; of clusters the mean, rounded down, for they spread over several."""
    if cluster > 1:
        clusters = int(driver.call("cuOccupancyMaxActiveClusters", function, config))
        processors = driver.attribute("MULTIPROCESSOR_COUNT", ordinal)
        return clusters * cluster // processors if processors else None
    return int(
        driver.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, config.sharedMemBytes)
    )
