"""Questions about the Python that runs this, and the machine: each answer is one line on stdout."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from typing import Any

from . import typed_json
from .probe_messages import Agents, Device, Packages
from .protocol import Failure

_GPU = 1  # HSA_DEVICE_TYPE_GPU
_NAME, _DEVICE = 0, 17  # HSA_AGENT_INFO_NAME, HSA_AGENT_INFO_DEVICE


def main(what: str, *given: str) -> None:
    """``packages``, ``agents`` or ``device ORDINAL``."""
    if what == "packages":
        found: Packages | Agents | Device | Failure = _packages()
    elif what == "agents":
        found = _agents()
    else:
        found = _device(int(given[0]))
    sys.stdout.buffer.write(typed_json.line(found))
    sys.stdout.flush()
    if what == "agents":
        os._exit(0)  # ROCr's orderly end may wait


def _packages() -> Packages:
    """What there is of torch, triton and numpy; looks without importing, for torch takes seconds.

    cuInit alone says whether a device is there.
    """
    torch, triton, numpy = (_is_there(name) for name in ("torch", "triton", "numpy"))
    count, reason = ctypes.c_int(), ""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        status = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
        if status:
            reason = f"the CUDA driver returned error {status}"
    except OSError:
        reason = "there is no CUDA driver (libcuda.so.1)"
    return Packages(torch, triton, numpy, count.value, reason)


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
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return Failure("refused", f"there is no CUDA driver ({error})")
    device, driver, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
    wanted = (16, 13, 36)  # CUdevice_attribute: multiprocessors, the clock, the memory's
    values = [ctypes.c_int() for _ in wanted]
    calls: list[tuple[Any, ...]] = [
        ("cuInit", 0), ("cuDeviceGet", ctypes.byref(device), ordinal),
        ("cuDeviceGetName", name, 256, device), ("cuDriverGetVersion", ctypes.byref(driver)),
        *(("cuDeviceGetAttribute", ctypes.byref(values[i]), wanted[i], device) for i in range(len(wanted))),
    ]  # fmt: skip
    for call, *arguments in calls:
        status = getattr(cuda, call)(*arguments)
        if status:
            return Failure("refused", f"{call}: error {status}")
    version = f"{driver.value // 1000}.{driver.value % 1000 // 10}"
    return Device(name.value.decode(errors="replace"), version, *(value.value for value in values))
