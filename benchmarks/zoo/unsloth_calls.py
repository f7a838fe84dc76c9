"""unsloth: its Triton kernels, by the functions that launch them."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import torch
from call import DEVICE, call, constant, integers, leaf

WIDTHS = (17, 60, 96, 130)
ROWS = ((1, 1), (2, 17))
BF16, E4M3 = torch.bfloat16, torch.float8_e4m3fn


def of(module: str, name: str) -> Any:
    importlib.import_module("unsloth")  # it has to come first
    return getattr(importlib.import_module(f"unsloth.kernels.{module}"), name)


def bytes_of(*shape: int) -> torch.Tensor:
    return integers(256, *shape, dtype=torch.uint8)


def strided(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """With a gap behind each row."""
    return constant(*shape[:-1], shape[-1] + 3, dtype=dtype)[..., : shape[-1]].requires_grad_()


@call(BT=ROWS, V=(17, 100, 70001), SOFTCAP=(0, 30.0), SCALE=(0, 0.5), IGNORED=(False, True))
def cross_entropy(BT: Any, V: int, SOFTCAP: float, SCALE: float, IGNORED: bool) -> Any:
    labels = integers(V, *BT)
    if IGNORED:
        labels[..., ::2] = -100
    return of("cross_entropy_loss", "fast_cross_entropy_loss")(leaf(*BT, V), labels, SOFTCAP, SCALE)


@call(X=("expanded", "strided", "transposed"), V=(17, 100))
def cross_entropy_of_views(X: str, V: int) -> Any:
    logits = {
        "expanded": leaf(1, 1, V).expand(2, 17, V),
        "strided": strided(2, 17, V),
        "transposed": leaf(17, 2, V).transpose(0, 1),
    }[X]
    return of("cross_entropy_loss", "fast_cross_entropy_loss")(logits, integers(V, 2, 17))


@call(BT=ROWS, D=WIDTHS, GEMMA=(False, True), TRAINED=(False, True), X=("dense", "strided"))
def rms_layernorm(BT: Any, D: int, GEMMA: bool, TRAINED: bool, X: str) -> Any:
    layer = SimpleNamespace(weight=leaf(D) if TRAINED else constant(D), eps=1e-6)
    x = leaf(*BT, D) if X == "dense" else strided(*BT, D)
    return of("rms_layernorm", "fast_rms_layernorm")(layer, x, GEMMA)


@call(BT=ROWS, D=WIDTHS, TRAINED=(False, True), BIAS=(False, True), X=("dense", "strided"))
def layernorm(BT: Any, D: int, TRAINED: bool, BIAS: bool, X: str) -> Any:
    number = leaf if TRAINED else constant
    layer = SimpleNamespace(
        elementwise_affine=True, weight=number(D), bias=number(D) if BIAS else None, eps=1e-6
    )
    return of("layernorm", "fast_layernorm")(layer, leaf(*BT, D) if X == "dense" else strided(*BT, D))


@call(BT=ROWS, D=WIDTHS, ADD=(False, True), X=("dense", "strided"))
def add_rms_layernorm(BT: Any, D: int, ADD: bool, X: str) -> Any:
    x, residual = (constant(*BT, D) if X == "dense" else strided(*BT, D).detach() for _ in range(2))
    return of("fused_add_rms_layernorm", "fast_add_rms_layernorm_inference")(
        x, residual, constant(D), 1e-6, ADD
    )


def heads(B: int, T: int, H: int, D: int, layout: str) -> torch.Tensor:
    """(B, H, T, D), from a projection's (B, T, H, D) or of one head for all."""
    if layout == "projection":
        return leaf(B, T, H, D).transpose(1, 2)
    return leaf(B, 1, T, D).expand(B, H, T, D) if layout == "expanded" else leaf(B, H, T, D) * 1.0


@call(
    BT=((1, 1), (2, 1), (2, 17)),
    H=((6, 2), (3, 1)),
    D=(48, 60, 96),
    LAYOUT="projection heads expanded",
    INDICES=(False, True),
)
def rope(BT: Any, H: Any, D: int, LAYOUT: str, INDICES: bool) -> Any:
    (B, T), length = BT, BT[1] + 5
    indices = integers(length, B, T, dtype=torch.int32) if INDICES else None
    q, k = (heads(B, T, h, D, LAYOUT) for h in H)
    return of("rope_embedding", "fast_rope_embedding")(
        q, k, constant(length, D), constant(length, D), indices
    )


@call(BT=((1, 1), (2, 1), (2, 17)), H=(1, 3, 4), D=(48, 60, 96))
def rope_of_one(BT: Any, H: int, D: int) -> Any:
    (B, T), length = BT, BT[1] + 5
    q = heads(B, T, H, D, "heads").transpose(1, 2)
    return of("rope_embedding", "Fast_RoPE_Embedding").apply(q, constant(length, D), constant(length, D))


@call(
    BT=((1, 1), (2, 1), (2, 17)), H=((6, 2), (3, 1)), D=(16, 64), INDICES=(False, True), X=("dense", "fused")
)
def qk_norm_rope(BT: Any, H: Any, D: int, INDICES: bool, X: str) -> Any:
    """Past the wrapper, which asks for a tensor whose device is named cuda."""
    (B, T), length, (hq, hk) = BT, BT[1] + 5, H
    if X == "dense":
        q, k = leaf(B, T, hq, D), leaf(B, T, hk, D)
    else:
        q, k = leaf(B, T, hq + hk, D).split((hq, hk), 2)
    indices = integers(length, B * T, dtype=torch.int32)
    return of("qk_norm_rope", "Fast_QK_Norm_RoPE").apply(
        q, k, constant(D), constant(D), constant(length, D), constant(length, D), indices, 1e-6, 1e-6, INDICES
    )


@call(NAME="swiglu geglu_exact geglu_approx", BT=ROWS, D=(17, 100, 1030))
def glu(NAME: str, BT: Any, D: int) -> Any:
    module, forward, backward = {
        "swiglu": ("swiglu", "swiglu_fg_kernel", "swiglu_DWf_DW_dfg_kernel"),
        "geglu_exact": ("geglu", "geglu_exact_forward_kernel", "geglu_exact_backward_kernel"),
        "geglu_approx": ("geglu", "geglu_approx_forward_kernel", "geglu_approx_backward_kernel"),
    }[NAME]
    of(module, forward)(constant(*BT, D), constant(*BT, D))
    rows = BT[0] * BT[1]
    of(module, backward)(constant(rows, D), constant(rows, D), constant(rows, D))


@call(NAME="swiglu geglu_exact geglu_approx", X=("strided", "transposed"))
def glu_of_views(NAME: str, X: str) -> Any:
    gate, up = (
        strided(2, 17, 60).detach() if X == "strided" else constant(2, 60, 17).transpose(1, 2)
        for _ in range(2)
    )
    module = NAME.partition("_")[0]
    forward = "swiglu_fg_kernel" if module == "swiglu" else f"{NAME}_forward_kernel"
    of(module, forward)(gate, up)


def quantised(*shape: int) -> torch.Tensor:
    return constant(*shape).to(E4M3)


@call(M=(128, 256), N=(128, 384), DTYPE=("float16", "bfloat16", "float32"))
def fp8_dequant_block(M: int, N: int, DTYPE: str) -> Any:
    scales = constant(M // 128, N // 128)
    return of("fp8", "weight_dequant_block")(quantised(M, N), scales, dtype=getattr(torch, DTYPE))


@call(M=(1, 17, 130), N=(17, 60, 200), BLOCK=((128, 128), (64, 128), (32, 48)), DTYPE=("float16", "bfloat16"))
def fp8_dequant_of_any_shape(M: int, N: int, BLOCK: Any, DTYPE: str) -> Any:
    scales = constant(-(-M // BLOCK[0]), -(-N // BLOCK[1]))
    return of("fp8", "_blockwise_weight_dequant_any_shape")(
        quantised(M, N), scales, BLOCK, getattr(torch, DTYPE)
    )


@call(M=(1, 17, 130), N=(17, 60), SCALE=("one", "rows", "columns"), DTYPE=("float16", "bfloat16"))
def fp8_scale_dequant(M: int, N: int, SCALE: str, DTYPE: str) -> Any:
    scale = constant(1 if SCALE == "one" else M, 1)
    x = quantised(N, M).t() if SCALE == "columns" else quantised(M, N)
    return of("fp8", "_scale_dequant_one_pass")(x, scale, getattr(torch, DTYPE))


@call(M=(1, 17, 130), K=(128, 384))
def fp8_act_quant(M: int, K: int) -> Any:
    return of("fp8", "act_quant")(constant(M, K))


@call(M=(1, 17, 130), N=(17, 128, 200), K=(128, 384, 400), DTYPE=("float16", "float32"))
def fp8_block_matmul(M: int, N: int, K: int, DTYPE: str) -> Any:
    blocks = -(-K // 128)
    return of("fp8", "w8a8_block_fp8_matmul_triton")(
        quantised(M, K), quantised(N, K), constant(M, blocks), constant(-(-N // 128), blocks), [128, 128],
        getattr(torch, DTYPE),
    )  # fmt: skip


@call(M=(1, 3, 16), N=(16, 48, 144, 272), K=(128, 384, 4096))
def fp8_small_m(M: int, N: int, K: int) -> Any:
    scales = constant(-(-N // 128), K // 128)
    return of("fp8", "fp8_block_small_m_linear")(constant(M, K, dtype=BF16), quantised(N, K), scales)


@call(M=(1, 3, 16), N=(17, 60, 200), K=(48, 100, 600, 8200))
def fp8_rowwise_gemv(M: int, N: int, K: int) -> Any:
    return of("fp8", "fp8_rowwise_gemv")(constant(M, K, dtype=BF16), quantised(N, K), constant(N, 1))


@call(M=(1, 3, 16), N=(17, 60, 200), K=(48, 100, 600), BLOCK=((128, 128), (48, 32)))
def fp8_block_gemv(M: int, N: int, K: int, BLOCK: Any) -> Any:
    scales = constant(-(-N // BLOCK[0]), -(-K // BLOCK[1]))
    return of("fp8", "_fp8_block_gemv")(constant(M, K, dtype=BF16), quantised(N, K), scales, *BLOCK)


@call(M=(1, 17), N=(128, 200), K=(100, 128, 384))
def fp8_block_linear(M: int, N: int, K: int) -> Any:
    scales = constant(-(-N // 128), -(-K // 128))
    return of("fp8", "fp8_torch_block_quant_forward")(leaf(M, K, dtype=BF16), quantised(N, K), scales)


def int4(N: int, K: int, bits: int, group: int, zeros: bool, order: bool) -> Any:
    factor = 32 // bits
    groups = -(-K // group)
    packed = integers(2**31, N, -(-K // factor), dtype=torch.int32)
    state = of("int4_packed", "Int4QuantState")(
        constant(N, groups, dtype=BF16),
        integers(2**31, -(-N // factor), groups, dtype=torch.int32) if zeros else None,
        integers(groups, K, dtype=torch.int32) if order else None,
        (N, K), bits, group, BF16,
    )  # fmt: skip
    return packed, state


@call(N=(17, 64), K=(60, 130), BITS=(4, 8), GROUP=(32, 63), ZEROS=(False, True), ORDER=(False, True))
def int4_dequantize(N: int, K: int, BITS: int, GROUP: int, ZEROS: bool, ORDER: bool) -> Any:
    return of("int4_packed", "int4_dequantize")(*int4(N, K, BITS, GROUP, ZEROS, ORDER))


@call(M=(1, 2), N=(17, 64), K=(60, 96, 1030), GROUP=(32, 63), ZEROS=(False, True))
def int4_matmul(M: int, N: int, K: int, GROUP: int, ZEROS: bool) -> Any:
    return of("int4_packed", "int4_matmul")(constant(M, K, dtype=BF16), *int4(N, K, 4, GROUP, ZEROS, False))


@call(LAYOUT="marlin tinygemm", N=(64, 128), K=(128, 384), GROUP=(32, 64, 128), ZEROS=(False, True))
def int4_repacked(LAYOUT: str, N: int, K: int, GROUP: int, ZEROS: bool) -> Any:
    packed, state = int4(N, K, 4, GROUP, ZEROS, False)
    state.layout = LAYOUT
    return of("int4_packed", "int4_dequantize")(packed, state)


def nvfp4(N: int, K: int, kind: str) -> Any:
    scales = constant(N, -(-K // 16)).abs()
    return bytes_of(N, K // 2), scales.to(E4M3) if kind == "e4m3" else scales, constant(1).abs() + 1


@call(N=(1, 17, 64), K=(16, 48, 96, 600), SCALES="e4m3 float32")
def nvfp4_dequantize(N: int, K: int, SCALES: str) -> Any:
    return of("nvfp4", "_nvfp4_dequantize_triton")(*nvfp4(N, K, SCALES), BF16)


@call(M=(1, 17, 65), N=(17, 64, 130), K=(48, 96, 4128), SCALES="e4m3 float32")
def nvfp4_linear(M: int, N: int, K: int, SCALES: str) -> Any:
    return of("nvfp4", "nvfp4_linear")(leaf(M, K, dtype=BF16), *nvfp4(N, K, SCALES))


def nf4(numbers: int, block: int, nested: bool) -> Any:
    blocks = -(-numbers // block)
    packed, table = bytes_of(-(-numbers // 2), 1), torch.linspace(-1, 1, 16)
    if nested:
        second = constant(-(-blocks // 256))
        return packed, bytes_of(blocks), constant(256), second, constant(), table, block, 256
    return packed, constant(blocks), None, None, None, table, block, 0


@call(N=(1, 17, 60), K=(48, 63, 130), BLOCK=(64, 128), NESTED=(False, True))
def nf4_dequantize(N: int, K: int, BLOCK: int, NESTED: bool) -> Any:
    return of("nf4", "dequantize_nf4")(*nf4(N * K, BLOCK, NESTED), (N, K), BF16)


@call(M=(1, 3), N=(17, 60), K=(64, 192, 2112), BLOCK=(64,), NESTED=(False, True))
def nf4_gemv(M: int, N: int, K: int, BLOCK: int, NESTED: bool) -> Any:
    weight = nf4(N * K, BLOCK, NESTED)
    if M == 1:
        return of("nf4_gemv", "gemv_nf4")(constant(1, 1, K, dtype=BF16), *weight, (N, K), BF16)
    out = torch.empty(M, 1, N, dtype=BF16, device=DEVICE)
    return of("nf4_gemv", "gemv_nf4_rows")(constant(M, 1, K, dtype=BF16), *weight, (N, K), out)


@call(S=(1, 17, 65), H=((2, 2), (6, 2)), MASK="causal full window")
def large_head_attention(S: int, H: Any, MASK: str) -> Any:
    q, k, v = (leaf(2, h, S, 512, dtype=BF16) for h in (H[0], H[1], H[1]))
    positions = torch.arange(S, dtype=torch.int32, device=DEVICE)
    last = torch.full_like(positions, S - 1) if MASK == "full" else positions
    first = (positions - 7).clamp(min=0) if MASK == "window" else torch.zeros_like(positions)
    return of("large_head_attention", "large_head_attention")(q, k, v, first.repeat(2, 1), last.repeat(2, 1))


def routed(tokens: int, topk: int, experts: int) -> Any:
    """How many rows each expert has (the first has none), and whose they are."""
    chosen = 1 + integers(max(experts - 1, 1), tokens * topk).clamp(max=max(experts - 2, 0))
    order = torch.argsort(chosen, stable=True)
    return torch.bincount(chosen, minlength=experts)[:experts].to(torch.int32), order.to(torch.int32)


@call(TOKENS=(17,), TOPK=(1,), EXPERTS=(2,), NK=((48, 64),), PERMUTE="no x y", TMA=(False,))
def grouped_gemm(TOKENS: int, TOPK: int, EXPERTS: int, NK: Any, PERMUTE: str, TMA: bool) -> Any:
    """Past the wrapper, which asks for a tensor whose device is named cuda; with its arguments."""
    (N, K), (sizes, order) = NK, routed(TOKENS, TOPK, EXPERTS)
    rows = TOKENS if PERMUTE == "x" else TOKENS * TOPK
    y = torch.empty(TOKENS * TOPK, N, dtype=BF16, device=DEVICE)
    of("moe.grouped_gemm.kernels.forward", "_grouped_gemm_forward_kernel")[(4,)](
        constant(rows, K, dtype=BF16), constant(EXPERTS * N, K, dtype=BF16), y, sizes, order, None,
        NUM_EXPERTS=EXPERTS, NUM_TOKENS=TOKENS, TOPK=TOPK, N=N, K=K, NUM_SMS=4,
        PERMUTE_X=PERMUTE == "x", PERMUTE_Y=PERMUTE == "y", FUSE_MUL_POST=False, FLATTEN=True,
        USE_TMA_LOAD_W=TMA, USE_TMA_LOAD_X=TMA and PERMUTE != "x", USE_TMA_STORE=TMA and PERMUTE != "y",
        BLOCK_SIZE_M=32, BLOCK_SIZE_N=32, BLOCK_SIZE_K=32,
    )  # fmt: skip


@call(TOKENS=(17,), TOPK=(1,), EXPERTS=(2,), NK=((32, 64),), PERMUTE="no x y", TMA=(False,))
def grouped_gemm_of_inputs(TOKENS: int, TOPK: int, EXPERTS: int, NK: Any, PERMUTE: str, TMA: bool) -> Any:
    (N, K), (sizes, order) = NK, routed(TOKENS, TOPK, EXPERTS)
    return of("moe.grouped_gemm.interface", "grouped_gemm_dX")(
        constant(TOKENS * TOPK, N, dtype=BF16), constant(EXPERTS, N, K, dtype=BF16), order, sizes, TOPK,
        permute_x=PERMUTE == "x", permute_y=PERMUTE == "y", use_tma_load_w=TMA,
        use_tma_load_dy=TMA and PERMUTE != "y", use_tma_store=TMA and PERMUTE != "x",
    )  # fmt: skip


@call(TOKENS=(17,), TOPK=(1, 2), EXPERTS=(2,), NK=((64, 96), (48, 60)), TMA=(False, True))
def grouped_gemm_of_weights(TOKENS: int, TOPK: int, EXPERTS: int, NK: Any, TMA: bool) -> Any:
    (N, K), (sizes, order) = NK, routed(TOKENS, TOPK, EXPERTS)
    x, grad = constant(TOKENS * TOPK, K, dtype=BF16), constant(TOKENS * TOPK, N, dtype=BF16)
    return of("moe.grouped_gemm.interface", "grouped_gemm_dW")(
        x, grad, sizes, order, TOPK, use_tma_load_x=TMA and K % 8 == 0, use_tma_load_dy=TMA,
        use_tma_store=TMA and N % 32 == K % 32 == 0,
    )  # fmt: skip
