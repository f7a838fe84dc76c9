"""What workers and compilers are started in: their environment, and whether a CUDA driver may be there.

Little is imported, so that a command can start them before it loads the rest of itself.
"""

from __future__ import annotations

import os
from pathlib import Path

_DRIVERS = (Path("/dev/nvidiactl"), Path("/proc/driver/nvidia/version"), Path("/dev/dxg"))
_NO_COMPILERS = frozenset((
    "TRITON_INTERPRET", "KERNCAP_SESSION", "LD_PRELOAD", "HSA_TOOLS_LIB", "CUDA_INJECTION64_PATH",
    "PYTEST_CURRENT_TEST",
))  # fmt: skip


def environment_of(launcher: str) -> dict[str, str]:
    """What a worker with that launcher finds in its environment."""
    # pytest's own is another one in each test, and none of a worker's business.
    left_out = ("TRITON_INTERPRET", "KERNCAP_SESSION", "PYTEST_CURRENT_TEST")
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    return {**environment, "TRITON_INTERPRET": "1"} if launcher == "interpreter" else environment


def compilers_environment() -> dict[str, str]:
    """What Triton's compiler finds in its environment: nothing that would change it, or watch it."""
    return {key: value for key, value in os.environ.items() if key not in _NO_COMPILERS}


def has_cuda_driver() -> bool:
    """Whether a CUDA driver seems to be there: its devices, or its library where the loader looks first."""
    told = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    places = [*_DRIVERS, *(Path(folder, "libcuda.so.1") for folder in told)]
    return any(place.exists() for place in places)
