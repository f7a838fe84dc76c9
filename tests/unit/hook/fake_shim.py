"""A stand-in for the native shim, and for the CUDA driver that Triton launches through."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

# Triton's own JIT, compiler and CompiledKernel; only loading and launching are stood in for.
DRIVER = """
import ctypes, os, types
import torch, triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.runtime import cache, driver

cache.triton_key = lambda: "one Triton"  # a hash of its 500 MB, for the first kernel of each process
shim = ctypes.CDLL(os.environ["FAKE_SHIM"], mode=ctypes.RTLD_GLOBAL)
LAUNCH = lambda name: None

class Launcher:
    def __init__(self, src, metadata):
        self.name = metadata.name
    def __call__(self, *args):
        shim.fake_launch(self.name.encode())
        LAUNCH(self.name)

class Driver:
    launcher_cls = Launcher
    utils = types.SimpleNamespace(
        load_binary=lambda name, *rest: (1, 2, 8, 0, 1024), unload_module=lambda module: None,
        get_device_properties=lambda device: {"max_shared_mem": 1 << 20})
    get_current_target = lambda self: GPUTarget("cuda", 90, 32)
    get_current_device = lambda self: 0
    get_current_stream = lambda self, device: 0

driver.set_active(Driver())
"""


def build(folder: Path, *defines: str) -> Path:
    """Compile the stand-in; ``defines`` are the optional parts that it is to have."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    library = folder / f"libfake_shim{''.join(defines)}.so"
    source = Path(__file__).with_name("fake_shim.cpp")
    flags = ["-shared", "-fPIC", "-pthread", *(f"-D{name}" for name in defines)]
    subprocess.run([compiler, *flags, "-o", library, source], check=True)
    return library
