"""bitsandbytes: its backend in Triton."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from call import call, constant, integers

NUMBERS = (1, 63, 64, 65, 1000)
BACKEND = "bitsandbytes.backends.triton"


def of(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"{BACKEND}.{module}"), name)


@call(N=NUMBERS, BLOCK=(64, 256), KIND=("fp4", "nf4"))
def quantize_4bit(N: int, BLOCK: int, KIND: str) -> Any:
    return of("ops", "quantize_4bit")(constant(N), BLOCK, KIND, torch.uint8)


@call(N=NUMBERS, BLOCK=(64, 256), KIND=("fp4", "nf4"))
def dequantize_4bit(N: int, BLOCK: int, KIND: str) -> Any:
    packed = integers(256, -(-N // 2), 1, dtype=torch.uint8)
    return of("ops", "dequantize_4bit")(packed, constant(-(-N // BLOCK)), BLOCK, KIND, (N,), torch.float32)


@call(N=NUMBERS, BLOCK=(64, 256))
def blockwise(N: int, BLOCK: int) -> Any:
    code = torch.linspace(-1, 1, 256)
    quantised, scales = of("ops", "quantize_blockwise")(constant(N), code, BLOCK)
    return of("ops", "dequantize_blockwise")(quantised, scales, code, BLOCK, torch.float32)


@call(M=(1, 17), N=(17, 64), K=(64, 96, 128), BLOCK=(64,), KIND=("fp4", "nf4"))
def gemv_4bit(M: int, N: int, K: int, BLOCK: int, KIND: str) -> Any:
    packed = integers(256, N * K // 2, 1, dtype=torch.uint8)
    return of("ops", "gemv_4bit")(
        constant(M, K), packed, (N, K), constant(-(-N * K // BLOCK)), torch.linspace(-1, 1, 16), BLOCK
    )


@call(NAME="adam ademamix momentum rmsprop adagrad lion", N=NUMBERS, MAX=(0.0, 1.0))
def optimizer_32bit(NAME: str, N: int, MAX: float) -> Any:
    second = constant(N).abs() if NAME in ("adam", "ademamix") else None
    first = constant(2, N) if NAME == "ademamix" else constant(N)
    return of("ops", "optimizer_update_32bit")(
        NAME, constant(N), constant(N), first, second, torch.zeros(1) if MAX else None, MAX, 1.0,
        0.9, 0.99, 0.999, 0.5, 1e-8, 0.01, 2, 1e-3, 1.0, False,
    )  # fmt: skip


@call(NAME="adam ademamix momentum rmsprop adagrad lion", N=(1, 65, 256, 1000))
def optimizer_8bit(NAME: str, N: int) -> Any:
    code, blocks = torch.linspace(-1, 1, 256), -(-N // 256)
    stacked = NAME == "ademamix"
    first = integers(256, *((2, N) if stacked else (N,)), dtype=torch.uint8)
    scales = constant(*((2, blocks) if stacked else (blocks,))).abs()
    two = NAME in ("adam", "ademamix")
    second = integers(256, N, dtype=torch.uint8) if two else None
    return of("ops", "optimizer_update_8bit_blockwise")(
        NAME, constant(N), constant(N), first, second, 0.9, 0.99, 0.999, 0.5, 1e-8, 2, 1e-3,
        code, code if two else None, scales, constant(blocks).abs() if two else None, 0.01, 1.0, False,
    )  # fmt: skip
