"""The smallest recording: a folder of AMD's kerncap with a Triton launch that doubles a tensor."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

_SOURCE = """import triton
import triton.language as tl


@triton.jit
def twice(x_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i) * 2)
"""


def written(folder: Path) -> Path:
    folder.mkdir()
    before = np.arange(1, 17, dtype=np.float32)
    before.tofile(folder / "arg_0.bin")
    (before * 2).tofile(folder / "ref_output_0.bin")
    (folder / "kernels.py").write_text(_SOURCE)
    tensor = {
        "index": 0, "name": "x_ptr", "is_pointer": True, "file": "arg_0.bin", "shape": [16], "strides": [1],
        "ref_output_file": "ref_output_0.bin", "storage_offset": 0, "torch_dtype": "torch.float32",
    }  # fmt: skip
    block = {"index": 1, "name": "BLOCK", "is_pointer": False, "value": 16, "type": "int"}
    facts = {"kernel_name": "twice", "grid": {"x": 1, "y": 1, "z": 1}, "language": "triton"}
    (folder / "metadata.json").write_text(json.dumps({**facts, "args": [tensor, block]}))
    return folder
