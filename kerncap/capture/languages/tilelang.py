"""TileLang: the CUDA C++ that it generated and keeps in its kernel cache.

Source: tilelang 0.1.15: cache/kernel_cache.py (`device_kernel.cu` in a folder for each kernel), env.py (the
cache's place), cuda/backend.py and contrib/nvcc.py (nvcc's options; flags of a kernel's pass_configs are in
none of its files).
"""

from __future__ import annotations

import os
from pathlib import Path

from kerncap.capture.languages import generated_cuda
from kerncap.capture.languages.generated_cuda import Recipe
from kerncap.capture.languages.language import Language
from kerncap.capture.source import python_files
from kerncap.capture.source.wanted_source import FoundSource, SourceRequest

_RECIPE = Recipe(
    "nvcc",
    ("-std=c++20", "-O3", "-lineinfo"),
    (os.path.join("tilelang", "src"), os.path.join("tilelang", "3rdparty", "cutlass", "include")),
)
_PATTERNS = tuple(f"{'*/' * depth}device_kernel.cu" for depth in range(1, 5))


class TileLang(Language):
    name = "tilelang"

    def find(self, request: SourceRequest) -> FoundSource | None:
        """Only for a launch that TileLang's own Python makes: its kernels have no names of a kind."""
        frames = python_files.stack_files(request)
        package = tuple(f"{folder}tilelang/" for folder in python_files.installed(frames))
        if not package or not any(file.startswith(package) for file in frames):
            return None
        cache = Path(os.environ.get("TILELANG_CACHE_DIR") or os.path.expanduser("~/.tilelang/cache"))
        found = generated_cuda.newest_with(request.mangled, (*request.source_dirs, cache), _PATTERNS)
        if found is None:
            return None
        note = "a rebuild leaves out flags of the kernel's pass_configs, such as fast math"
        return generated_cuda.source(request, *found, _RECIPE, (note,))
