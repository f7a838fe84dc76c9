"""torchao: quantisation and products of quantised matrices."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from call import DEVICE, call, constant, integers

SIZES = (1, 17, 65)
E4M3 = torch.float8_e4m3fn


def of(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"torchao.{module}"), name)


def bytes_of(*shape: int) -> torch.Tensor:
    return integers(127, *shape, dtype=torch.int8)


def small(*shape: int) -> torch.Tensor:
    return constant(*shape).to(E4M3)


@call(M=SIZES, N=(17, 60), K=(32, 48, 60, 63))
def int_matmul(M: int, N: int, K: int) -> Any:
    """Without the benchmark that chooses among its configurations."""
    module = "kernel.intmm_triton"
    config = of(module, "int8_mm_kernel_configs")[0]
    out = torch.empty(M, N, dtype=torch.int32, device=DEVICE)
    return of(module, "int_matmul_kernel")(bytes_of(M, K), bytes_of(K, N), out, config)


@call(M=SIZES, N=(17, 60), K=(32, 48, 60, 63))
def int_scaled_matmul(M: int, N: int, K: int) -> Any:
    module = "kernel.intmm_triton"
    config = of(module, "int8_mm_kernel_configs")[0]
    out = torch.empty(M, N, dtype=torch.float32, device=DEVICE)
    return of(module, "int_scaled_matmul_kernel")(bytes_of(M, K), bytes_of(K, N), constant(M, 1), out, config)


@call(M=SIZES, N=(17, 60), K=(32, 48, 63), SCALAR=(False, True))
def scaled_int8_mm(M: int, N: int, K: int, SCALAR: bool) -> Any:
    columns = constant() if SCALAR else constant(N)
    return of("prototype.quantized_training.int8_mm", "scaled_int8_mm_cuda")(
        bytes_of(M, K), bytes_of(K, N), constant(M), columns
    )


@call(M=SIZES, N=(17, 128, 200), K=(128, 200, 384))
def blockwise_fp8_gemm(M: int, N: int, K: int) -> Any:
    blocks = -(-K // 128)
    return of("kernel.blockwise_quantization", "blockwise_fp8_gemm")(
        small(M, K), constant(M, blocks), small(N, K), constant(-(-N // 128), blocks)
    )


@call(M=SIZES, N=(128, 384))
def blockwise_act_quant(M: int, N: int) -> Any:
    return of("kernel.blockwise_quantization", "fp8_blockwise_act_quant")(constant(M, N))


@call(M=(128, 256), N=(128, 384))
def blockwise_weights(M: int, N: int) -> Any:
    module = "kernel.blockwise_quantization"
    quantised, scales = of(module, "fp8_blockwise_weight_quant")(constant(M, N))
    return of(module, "fp8_blockwise_weight_dequant")(quantised, scales)


@call(
    NAME=("act_quant_lhs", "act_quant_rhs", "act_quant_transposed_lhs"), M=(17, 128, 256), K=(128, 200, 384)
)
def training_quant(NAME: str, M: int, K: int) -> Any:
    return of("prototype.blockwise_fp8_training.kernels", f"triton_fp8_blockwise_{NAME}")(constant(M, K))


@call(NAME=("weight_quant_rhs", "weight_quant_transposed_rhs"), M=(128, 256), K=(128, 384))
def training_weights(NAME: str, M: int, K: int) -> Any:
    return of("prototype.blockwise_fp8_training.kernels", f"triton_fp8_blockwise_{NAME}")(constant(M, K))


@call(NAME=("1x128_128x128", "1x128_128x1"), M=SIZES, N=(17, 128, 200), K=(128, 384))
def training_gemm(NAME: str, M: int, N: int, K: int) -> Any:
    blocks = K // 128
    a_scales = constant(blocks, M).t()
    b_scales = constant(-(-N // 128), blocks).t() if NAME == "1x128_128x128" else constant(blocks, N)
    return of("prototype.blockwise_fp8_training.kernels", f"triton_fp8_gemm_{NAME}")(
        small(M, K), small(N, K).t(), a_scales, b_scales
    )


@call(M=SIZES, N=(32, 96, 160), MODE=("floor", "rceil"))
def mxfp8_rows(M: int, N: int, MODE: str) -> Any:
    x = constant(M, N, dtype=torch.bfloat16)
    return of("prototype.mx_formats.kernels", "triton_to_mxfp8_dim0")(x, 32, MODE)


@call(M=(128, 384), N=(128, 384), MODE=("floor", "rceil"))
def mxfp8_columns(M: int, N: int, MODE: str) -> Any:
    x = constant(M, N, dtype=torch.bfloat16)
    return of("prototype.mx_formats.kernels", "triton_to_mxfp8_dim1")(x, 32, MODE)


@call(M=SIZES, N=(32, 96, 160))
def mxfp8_dequant(M: int, N: int) -> Any:
    scales = integers(127, M, N // 32, dtype=torch.uint8)
    return of("prototype.mx_formats.kernels", "triton_mxfp8_dequant_dim0")(small(M, N), scales, torch.float32)


@call(M=(1, 17, 130), N=(1, 3, 6))
def mx_block_rearrange(M: int, N: int) -> Any:
    scales = integers(127, M, N, dtype=torch.uint8)
    return of("prototype.mx_formats.kernels", "triton_mx_block_rearrange")(scales)


def attention(S: int, D: int, SKV: int = 0, layout: str = "BHSD") -> list[torch.Tensor]:
    heads = (4, 2, 2)
    lengths = (S, SKV or S, SKV or S)
    return [
        constant(*((2, h, s, D) if layout == "BHSD" else (2, s, h, D)), dtype=torch.bfloat16)
        for h, s in zip(heads, lengths, strict=True)
    ]


@call(S=(1, 17, 65, 130), D=(48, 60, 96), SKV=(0, 63))
def sdpa_quantize(S: int, D: int, SKV: int) -> Any:
    module = "prototype.attention.quantization.triton_qkv_quantization"
    return of(module, "triton_fp8_sdpa_quantize")(*attention(S, D, SKV))


@call(S=(1, 17, 65, 130), D=(48, 60, 96), CHUNKS=(None, 3, 7), INTERLEAVED=(False, True))
def rope_sdpa_quantize(S: int, D: int, CHUNKS: Any, INTERLEAVED: bool) -> Any:
    module = "prototype.attention.quantization.triton_rope_qkv_quantization"
    return of(module, "triton_fp8_rope_sdpa_quantize")(
        *attention(S, D, layout="BSHD"), constant(S, D), constant(S, D), CHUNKS, INTERLEAVED
    )


@call(S=(1, 17, 130), D=(16, 64), CHUNKS=(None, 3, 7))
def hadamard_sdpa_quantize(S: int, D: int, CHUNKS: Any) -> Any:
    module = "prototype.attention.quantization.triton_hadamard_qkv_quantization"
    return of(module, "triton_fp8_hadamard_sdpa_quantize")(*attention(S, D), CHUNKS)


@call(S=(1, 17, 130), D=(16, 64), CHUNKS=(None, 3, 7))
def inverse_hadamard(S: int, D: int, CHUNKS: Any) -> Any:
    module = "prototype.attention.quantization.triton_hadamard_utils"
    return of(module, "inverse_hadamard_transform")(attention(S, D)[0], CHUNKS)


@call(S=(1, 17, 130), D=(48, 60), CHUNKS=(None, 3, 7))
def fp8_inference_quantize(S: int, D: int, CHUNKS: Any) -> Any:
    q = constant(2, 3, S, D, dtype=torch.bfloat16)
    return of("prototype.fp8_sdpa_inference.fp8_sdpa_quantization", "fp8_sdpa_quantize_func")(q, q, q, CHUNKS)


@call(
    NAME="row_major row_major_t col_major col_major_t row_and_col_major row_major_t_and_non_t "
    "col_major_t_and_non_t",
    M=SIZES, N=(17, 60), ALGORITHM=("ATOMIC_MAX", "REDUCTION"),
)  # fmt: skip
def float8_nocompile(NAME: str, M: int, N: int, ALGORITHM: str) -> Any:
    module = "prototype.float8nocompile.kernels.fp8_dynamic_tensorwise"
    mm = of("float8.float8_training_tensor", "LinearMMConfig")()
    algorithm = getattr(of(module, "KernelAlgorithm"), ALGORITHM)
    return of(module, f"hp_to_fp8_{NAME}")(constant(M, N), E4M3, mm, algo=algorithm)


@call(EXPERTS=(1, 3, 8), RANKS=(1, 2), MAX=(64, 1024))
def permute_indices(EXPERTS: int, RANKS: int, MAX: int) -> Any:
    counts = integers(40, EXPERTS * RANKS)
    return of("prototype.moe_training.ep.kernels", "generate_permute_indices")(
        counts, EXPERTS, RANKS, MAX, 16
    )


def ends(*sizes: int) -> torch.Tensor:
    return torch.tensor(sizes, device=DEVICE).cumsum(0).to(torch.int32)


@call(SIZES=((17, 0, 48), (1, 1, 1), (128,)), K=(48, 130))
def per_group_rowwise(SIZES: Any, K: int) -> Any:
    x = constant(sum(SIZES), K, dtype=torch.bfloat16)
    return of("prototype.moe_training.kernels.jagged_float8_scales", "triton_fp8_per_group_rowwise_scales")(
        x.t(), ends(*SIZES), E4M3
    )


@call(SIZES=((17, 0, 48), (1, 1, 1), (128,)), K=(48, 130))
def per_group_colwise(SIZES: Any, K: int) -> Any:
    x = constant(sum(SIZES), K, dtype=torch.bfloat16)
    return of("prototype.moe_training.kernels.jagged_float8_scales", "triton_fp8_per_group_colwise_scales")(
        x, ends(*SIZES), E4M3
    )


@call(NAME=("3d_transpose_rhs", "3d_transpose_rhs_fused_reduction"), E=(1, 3), K=(48, 130), N=(17, 64))
def rowwise_3d(NAME: str, E: int, K: int, N: int) -> Any:
    x = constant(E, K, N, dtype=torch.bfloat16)
    return of("prototype.moe_training.kernels.float8_rowwise", f"triton_fp8_rowwise_{NAME}")(x, E4M3)


@call(M=SIZES, K=(48, 130))
def rowwise_2d(M: int, K: int) -> Any:
    return of("prototype.moe_training.kernels.float8_rowwise", "triton_fp8_rowwise_2d_scale_and_cast")(
        constant(M, K, dtype=torch.bfloat16), E4M3
    )


@call(SIZES=((17, 0, 48), (128, 32), (1, 130)), N=(1, 3, 6))
def rearrange_groups(SIZES: Any, N: int) -> Any:
    scales = integers(127, sum(SIZES), N, dtype=torch.uint8)
    return of("prototype.moe_training.kernels.mxfp8.quant", "triton_mx_block_rearrange_2d_M_groups")(
        scales, ends(*SIZES)
    )


@call(E=(1, 3), M=(17, 130), N=(1, 3, 6))
def rearrange_3d(E: int, M: int, N: int) -> Any:
    scales = integers(127, E, M, N, dtype=torch.uint8)
    return of("prototype.moe_training.kernels.mxfp8.quant", "triton_mx_block_rearrange_per_group_3d")(scales)


@call(SIZES=((1, 0, 3), (4, 8), (1, 6)), M=(17, 130))
def rearrange_k_groups(SIZES: Any, M: int) -> Any:
    scales = integers(127, M, sum(SIZES), dtype=torch.uint8)
    return of("prototype.moe_training.kernels.mxfp8.quant", "triton_mx_block_rearrange_2d_K_groups")(
        scales, ends(*SIZES)
    )
