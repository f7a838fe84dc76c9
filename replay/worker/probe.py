"""Questions about the Python that runs this, and the machine: each answer is one line on stdout."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from typing import Any

from . import cuda_bindings, typed_json
from .common.failures import Refused
from .cuda.driver import CudaError, Driver
from .probe_messages import Agents, CudaDriver, Device, NoCudaDriver, Packages
from .protocol import Failure

_NUMBERS = ("MULTIPROCESSOR_COUNT", "CLOCK_RATE", "MEMORY_CLOCK_RATE")
_GPU = 1  # HSA_DEVICE_TYPE_GPU
_NAME, _DEVICE = 0, 17  # HSA_AGENT_INFO_NAME, HSA_AGENT_INFO_DEVICE


def main(what: str, *given: str) -> None:
    """``packages``, ``agents``, ``driver`` or ``device ORDINAL``."""
    if what == "packages":
        found: Packages | Agents | CudaDriver | NoCudaDriver | Device | Failure = _packages()
    elif what == "agents":
        found = _agents()
    elif what == "driver":
        found = _driver()
    else:
        found = _device(int(given[0]))
    sys.stdout.buffer.write(typed_json.line(found))
    sys.stdout.flush()
    if what in ("agents", "driver"):
        os._exit(0)  # ROCr's orderly end may wait, and no driver's may turn a good answer into a bad one


def _packages() -> Packages:
    """What there is of torch, triton and numpy; looks without importing, for torch takes seconds.

    cuInit alone says whether a device is there.
    """
    torch, triton, numpy = (_is_there(name) for name in ("torch", "triton", "numpy"))
    there = _driver()
    if isinstance(there, NoCudaDriver):
        reason = cuda_bindings.Missing().mended if there.stage == "bindings" else there.error
        return Packages(torch, triton, numpy, 0, reason)
    return Packages(torch, triton, numpy, len(there.devices), "")


def _driver() -> CudaDriver | NoCudaDriver:
    """Starts it. With no sign of one nothing is imported."""
    if not cuda_bindings.has_driver():
        return NoCudaDriver("there is no CUDA driver (libcuda.so.1)", "load")
    try:
        cuda_bindings.load("driver")
        driver = Driver()
    except cuda_bindings.Missing as error:
        return NoCudaDriver(str(error), "bindings")
    except Refused as error:
        return NoCudaDriver(str(error), "load")
    try:
        driver.call("cuInit", 0)
        if "KERNCAP_SESSION" in os.environ:
            driver.status("cuMemFree", 0)  # a call that a shim watches, and that does nothing
        devices = [driver.device_name(ordinal) for ordinal in range(driver.call("cuDeviceGetCount"))]
    except (CudaError, Refused) as error:
        return NoCudaDriver(str(error), "init")
    return CudaDriver(f"CUDA {driver.version}", devices)


def _is_there(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _agents() -> Agents:
    """The architectures of AMD GPUs, asked of ROCr itself: hsa_init keeps threads and maps memory."""
    agents: list[str] = []
    try:
        reason = _look(ctypes.CDLL("libhsa-runtime64.so.1"), agents)
        if reason and not os.path.exists("/dev/kfd"):
            reason = "there is no /dev/kfd: no amdgpu driver, or a container that was not given it"
        elif reason and not os.access("/dev/kfd", os.R_OK | os.W_OK):
            reason = "this user may not open /dev/kfd (is it in the groups render and video?)"
    except OSError as error:
        reason = f"there is no ROCm runtime ({error})"
    return Agents(_is_there("numpy"), agents, reason)


def _look(hsa: Any, agents: list[str]) -> str:
    """Fill ``agents``; the reason if there are no agents."""

    def each(agent: int, _: Any) -> int:
        kind = ctypes.c_int()
        asked = hsa.hsa_agent_get_info(ctypes.c_uint64(agent), _DEVICE, ctypes.byref(kind))
        if not asked and kind.value == _GPU:
            name = ctypes.create_string_buffer(65)
            hsa.hsa_agent_get_info(ctypes.c_uint64(agent), _NAME, name)
            agents.append(name.value.decode(errors="replace").strip())
        return 0

    status = hsa.hsa_init()
    if status:
        text = ctypes.c_char_p()
        hsa.hsa_status_string(status, ctypes.byref(text))
        said = (text.value or b"").decode(errors="replace").strip() or f"error {status:#x}"
        return "ROCm does not start: " + said
    hsa.hsa_iterate_agents(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p)(each), None)
    return "" if agents else "ROCm finds no GPU"


def _device(ordinal: int) -> Device | Failure:
    """Which CUDA device it is, without torch: kept ceilings are found at no cost."""
    try:
        driver = Driver()
        driver.call("cuInit", 0)
        numbers = (driver.attribute(name, ordinal) for name in _NUMBERS)
        return Device(driver.device_name(ordinal), driver.version, *numbers)
    except (CudaError, Refused) as error:
        return Failure("refused", str(error))
