"""Where cuda.bindings comes from: this Python, else the environment that kerncap is installed in.

torch's CUDA wheels bring it since 2.11. Of kerncap's environment, a Python of the same minor version takes
that package's folder and nothing else.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
import types
from pathlib import Path
from typing import Any

_KERNCAP = Path(__file__).parents[2]  # the package if it is installed, the checkout's folder in a checkout
REQUIREMENT = "cuda-bindings>=12.8,<14"
_DRIVERS = (Path("/dev/nvidiactl"), Path("/proc/driver/nvidia/version"), Path("/dev/dxg"))


class Missing(Exception):
    """There is no cuda.bindings for this Python; ``mended`` says what mends that."""

    def __init__(self) -> None:
        super().__init__(f"{sys.executable} has no cuda-bindings")
        self.mended = f"{self}; {sys.executable} -m pip install '{REQUIREMENT}'"


def has_driver() -> bool:
    """Whether a CUDA driver seems to be there: its devices, or its library where the loader looks first."""
    told = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    places = [*_DRIVERS, *(Path(folder, "libcuda.so.1") for folder in told)]
    return any(place.exists() for place in places)


def load(name: str) -> Any:
    """``driver`` or ``nvrtc`` of cuda.bindings; it starts no driver. Raises Missing."""
    module = f"cuda.bindings.{name}"
    if module not in sys.modules and folder() is None:
        lent = _lent()
        if lent is None:
            raise Missing
        package = sys.modules.setdefault("cuda", types.ModuleType("cuda"))
        package.__path__ = [*getattr(package, "__path__", ()), lent]
    # It would make stream 0 another one than torch's.
    os.environ.pop("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", None)
    return importlib.import_module(module)


def folder() -> str | None:
    """The folder of this Python's package `cuda`, if cuda.bindings is in it."""
    spec = importlib.util.find_spec("cuda")
    places = (spec.submodule_search_locations if spec is not None else None) or ()
    return next((each for each in places if _fits(each)), None)


def _lent() -> str | None:
    """The folder of the package `cuda` next to an installed kerncap."""
    place = str(_KERNCAP.parent / "cuda")
    return place if (_KERNCAP / "__init__.py").is_file() and _fits(place) else None


def _fits(cuda: str) -> bool:
    """Whether it holds bindings that were built for this version of Python."""
    return os.path.exists(f"{cuda}/bindings/driver{importlib.machinery.EXTENSION_SUFFIXES[0]}")
