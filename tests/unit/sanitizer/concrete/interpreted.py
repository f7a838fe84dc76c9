"""Runs every case under Triton's own interpreter and keeps what memory holds after: `OUTPUT`.

A process of its own: Triton decides at import whether it interprets.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import torch

from tests.unit.sanitizer.concrete.cases import CASES, Tensor

TORCH = {"bf16": torch.bfloat16, "fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2}
BITS = {"bf16": torch.int16, "fp8e4nv": torch.uint8, "fp8e5": torch.uint8}


def main(output: Path) -> None:
    found: dict[str, np.ndarray] = {}
    for name, case in CASES.items():
        tensors = {}
        values = dict(case.arguments)
        for argument, value in case.arguments.items():
            if isinstance(value, Tensor):
                data = value.data.copy()
                if value.kind in TORCH:
                    signed = data.view(np.int16) if data.itemsize == 2 else data
                    tensor = torch.from_numpy(signed).view(TORCH[value.kind])
                else:
                    tensor = torch.from_numpy(data)
                tensors[argument] = values[argument] = tensor
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                case.kernel[case.grid](**values, **case.constants)
            except Exception as error:  # told by the test of this case
                found[f"{name}!"] = np.array(f"{type(error).__name__}: {error}")
                continue
        for argument, tensor in tensors.items():
            kind = case.arguments[argument].kind
            plain = tensor.view(BITS[kind]) if kind in BITS else tensor
            found[f"{name}:{argument}"] = plain.numpy()
    np.savez(output, **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
