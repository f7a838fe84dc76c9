"""Writes the generated CUDA C++ beside this file again: `python make.py`, with warp-lang, on any machine.

The recorded file is of warp-lang 1.19.0. What Warp puts before a module's first kernel is left out.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import warp

HERE = Path(__file__).parent


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        warp.config.kernel_cache_dir = folder
        warp.init()
        sys.path.insert(0, str(HERE))
        import sim

        [made] = warp.compile_aot_module(sim, arch=90, use_ptx=True)
        source = next(made.parent.glob("*.cu"))
        text = source.read_text()
        target = HERE / "cache" / source.parent.name / source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text('#include "builtin.h"\n' + text[text.index('extern "C" __global__') :])


if __name__ == "__main__":
    main()
