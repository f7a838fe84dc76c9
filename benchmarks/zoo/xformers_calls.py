"""xformers: its kernels in Triton."""

from __future__ import annotations

from typing import Any

import torch
from call import call, constant, integers, leaf


@call(M=(2, 17, 65), D=(48, 60, 1000), SCALED=(False, True))
def scaled_index_add(M: int, D: int, SCALED: bool) -> Any:
    from xformers.ops import scaled_index_add

    scaling = leaf(D) if SCALED else None
    return scaled_index_add(constant(5, M, D), torch.tensor([4, 0, 2]), leaf(3, M, D), scaling, 0.5)


@call(D=(48, 60, 1000), ROWS=("all", "sliced", "transposed"), INDEX=(torch.int32, torch.int64))
def index_select_cat(D: int, ROWS: str, INDEX: torch.dtype) -> Any:
    from xformers.ops import index_select_cat

    def source(rows: int) -> torch.Tensor:
        if ROWS == "transposed":
            return constant(D, rows).t().requires_grad_()
        return constant(rows, D if ROWS == "all" else D + 3)[:, :D].requires_grad_()

    indices = [torch.tensor([4, 0, 2], dtype=INDEX), torch.tensor([1], dtype=INDEX)]
    return index_select_cat([source(5), source(17)], indices)


@call(M=(1, 17), D=(48, 60, 5000), WEIGHT=(False, True))
def rms_norm(M: int, D: int, WEIGHT: bool) -> Any:
    from xformers.ops.rmsnorm import rms_norm

    return rms_norm(constant(M, D), constant(D) if WEIGHT else None)


@call(M=(1, 17), D=(48, 60, 5000), WEIGHT=(False, True))
def rms_norm_add(M: int, D: int, WEIGHT: bool) -> Any:
    from xformers.ops.rmsnorm import rms_norm_add

    return rms_norm_add(constant(M, D), constant(M, D), constant(D) if WEIGHT else None)


@call(
    LENS=((1, 17), (3, 1, 5), (1, 1)), D=(48, 60, 64), ADJACENT=(False, True), POSITIONS=("", "first", "all")
)
def rope_padded(LENS: Any, D: int, ADJACENT: bool, POSITIONS: str) -> Any:
    from xformers.ops.fmha.attn_bias import BlockDiagonalCausalWithOffsetPaddedKeysMask as Mask
    from xformers.ops.rope_padded import rope_padded

    padding, tokens = 32, sum(LENS)
    mask = Mask.from_seqlens(list(LENS), padding, [length + 4 for length in LENS])
    caches = [constant(1, padding * len(LENS), 2, D) for _ in range(2)]
    positions = {"first": "first_seqpos", "all": "seqpos"}.get(POSITIONS)
    given = (
        {} if positions is None else {positions: integers(9, len(LENS) if POSITIONS == "first" else tokens)}
    )
    return rope_padded(
        constant(1, tokens, 4, D), constant(1, tokens, 2, D), constant(1, tokens, 2, D), *caches, mask,
        adjacents=ADJACENT, **given,
    )  # fmt: skip


@call(SIZES=((17, 60, 48), (65, 17, 100), (1, 1, 17)), TILES=(1, 2, 3))
def tiled_matmul(SIZES: Any, TILES: int) -> Any:
    from xformers.ops._triton.tiled_matmul_kernels import _launch_triton_matmul

    m, n, k = SIZES
    a = [[constant(m, k) for _ in range(TILES)] for _ in range(TILES)]
    b = [[constant(k, n) for _ in range(TILES)] for _ in range(TILES)]
    c = [[torch.empty(m, n) for _ in range(TILES)] for _ in range(TILES)]
    _launch_triton_matmul(a, b, c, [m] * TILES, [n] * TILES, [k] * TILES)
    return c


@call(MQ=(1, 2), MK=(17, 65, 300), D=(64, 128), SPLIT=(1, 2, 7))
def attention_split_k(MQ: int, MK: int, D: int, SPLIT: int) -> Any:
    from xformers.ops.fmha import Inputs
    from xformers.ops.fmha.triton_splitk import FwOp

    q, k, v = (constant(2, m, 4, D, dtype=torch.float16) for m in (MQ, MK, MK))
    operator = type("Split", (FwOp,), {"SPLIT_K": SPLIT})
    return operator.apply(Inputs(query=q, key=k, value=v), needs_gradient=True)[0]


@call(LENS=((1, 17, 32), (5, 1), (31, 0)), D=(64, 128), GROUPS=(1, 2), SPLIT=(1, 2, 7))
def attention_split_k_padded(LENS: Any, D: int, GROUPS: int, SPLIT: int) -> Any:
    from xformers.ops.fmha import Inputs
    from xformers.ops.fmha.attn_bias import BlockDiagonalCausalWithOffsetPaddedKeysMask as Mask
    from xformers.ops.fmha.triton_splitk import FwOp

    mask = Mask.from_seqlens([1] * len(LENS), 32, list(LENS))
    q = constant(1, len(LENS), 2, GROUPS, D, dtype=torch.float16)
    k, v = (
        constant(1, 32 * len(LENS), 2, 1, D, dtype=torch.float16).expand(-1, -1, -1, GROUPS, -1) for _ in "kv"
    )
    operator = type("Split", (FwOp,), {"SPLIT_K": SPLIT})
    return operator.apply(Inputs(query=q, key=k, value=v, attn_bias=mask), needs_gradient=False)[0]
