"""liger-kernel: autograd functions of `liger_kernel.ops`, by the names of their arguments."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import torch
from call import DEVICE, backward, call, constant, far_apart, integers, leaf

ROWS = (1, 3, 65)
WIDTHS = (48, 60, 100)


def apply(module: str, function: str, **given: Any) -> Any:
    """`Function.apply` takes no names, and each version has other arguments."""
    made = getattr(importlib.import_module(f"liger_kernel.ops.{module}"), function)
    names = list(inspect.signature(made.forward).parameters.values())[1:]
    missing = set(given) - {one.name for one in names}
    if missing:
        raise AttributeError(f"{function} has no argument {missing.pop()} in this version")
    while names[-1].name not in given:
        names.pop()
    default = inspect.Parameter.empty
    return made.apply(
        *(given.get(one.name, None if one.default is default else one.default) for one in names)
    )


@call(N=(0, *ROWS), D=WIDTHS, MODE=("llama", "gemma", "none"))
def rms_norm(N: int, D: int, MODE: str, **options: Any) -> Any:
    return apply(
        "rms_norm",
        "LigerRMSNormFunction",
        X=leaf(2, N, D).mul(1),
        W=leaf(D),
        eps=1e-6,
        casting_mode=MODE,
        offset=0.0,
        **options,
    )


@call(N=(65, 300), ROW_MODE=(True, False))
def rms_norm_of_many_rows(N: int, ROW_MODE: bool) -> Any:
    return rms_norm(N, 60, "llama", row_mode=ROW_MODE)


@call(MODE=("llama", "gemma"))
def rms_norm_of_short_rows(MODE: str) -> Any:
    """So many of them that a program takes several."""
    return rms_norm(1 << 14, 16, MODE, in_place=False, row_mode=False)


@call(N=ROWS, D=(60, 100))
def rms_norm_strided(N: int, D: int) -> Any:
    x = leaf(N, 2, D * 2)[:, :, :D]
    return apply(
        "rms_norm",
        "LigerRMSNormFunction",
        X=x.mul(1),
        W=leaf(D * 2)[::2],
        eps=1e-6,
        casting_mode="llama",
        offset=0.0,
    )


@call(N=(0, *ROWS), D=WIDTHS)
def fused_add_rms_norm(N: int, D: int) -> Any:
    x, r = leaf(2, N, D).mul(1), leaf(2, N, D).mul(1)
    return apply("fused_add_rms_norm", "LigerFusedAddRMSNormFunction", X=x, R=r, W=leaf(D), eps=1e-6)


@call(N=(0, *ROWS, 300), D=WIDTHS)
def layer_norm(N: int, D: int) -> Any:
    return apply("layer_norm", "LigerLayerNormFunction", X=leaf(2, N, D), W=leaf(D), B=leaf(D), eps=1e-6)


@call(N=ROWS, C=(4, 6), GROUPS=(1, 2), D=(1, 17, 60))
def group_norm(N: int, C: int, GROUPS: int, D: int) -> Any:
    return apply(
        "group_norm",
        "LigerGroupNormFunction",
        X=leaf(N, C, D),
        affine_scaling_weight=leaf(C),
        affine_shifting_bias=leaf(C),
        num_channels=C,
        num_groups=GROUPS,
        eps=1e-6,
    )


@call(N=(0, *ROWS), D=(60, 100))
def poly_norm(N: int, D: int) -> Any:
    return apply(
        "poly_norm", "LigerPolyNormFunction", X=leaf(2, N, D).mul(1), W=leaf(3), B=leaf(1)[0], eps=1e-6
    )


@call(N=(1, 17), D=(60, 100))
def modulated_rms_norm(N: int, D: int) -> Any:
    return apply(
        "modulated_rms_norm",
        "LigerModulatedRMSNormFunction",
        X=leaf(2, N, D).mul(1),
        W=leaf(D),
        scale=leaf(2, D),
        shift=leaf(2, D),
        eps=1e-6,
    )


@call(N=(0, *ROWS), D=WIDTHS)
def dyt(N: int, D: int) -> Any:
    return apply("dyt", "LigerDyTFunction", x=leaf(2, N, D), alpha=leaf(1), gamma=leaf(D), beta=leaf(D))


@call(N=(0, *ROWS), D=WIDTHS)
def geglu(N: int, D: int) -> Any:
    return apply("geglu", "LigerGELUMulFunction", a=leaf(2, N, D), b=leaf(2, N, D))


@call(N=(0, *ROWS), D=WIDTHS)
def swiglu(N: int, D: int) -> Any:
    return apply("swiglu", "LigerSiLUMulFunction", a=leaf(2, N, D), b=leaf(2, N, D))


@call(N=ROWS, D=(60, 100))
def swiglu_of_both_halves(N: int, D: int) -> Any:
    return apply("swiglu", "LigerFusedGateUpSiLUMulFunction", y=leaf(N, D))


@call(N=(1, 4), D=(4136,))
def swiglu_in_tiles(N: int, D: int) -> Any:
    module: Any = importlib.import_module("liger_kernel.ops.swiglu")
    decides = module._should_tile
    module._should_tile = lambda _columns: True  # what a GPU's shared memory decides
    try:
        backward(swiglu(N, D))
    finally:
        module._should_tile = decides


@call(N=(1, 64), D=(60, 128), WIDE=(100, 256))
def mlp(N: int, D: int, WIDE: int) -> Any:
    """Its autograd function insists on a GPU: what that calls."""
    module: Any = importlib.import_module("liger_kernel.ops.mlp")
    x, gate, up = constant(2, N, D), constant(WIDE, D), constant(WIDE, D)
    module.gemm_swiglu(x, gate, up, 1.0, False)
    stored, config = module.gemm_swiglu(x, gate, up, 1.0, True)
    module.swiglu_backward_dGU(constant(2, N, D), constant(D, WIDE), stored, config, 1.0, 1.0)
    module.swiglu_backward_dI(gate, up, stored)


@call(N=ROWS, D=(60, 100))
def relu_squared(N: int, D: int) -> Any:
    return apply("relu_squared", "LigerReLUSquaredFunction", X=leaf(2, N, D))


@call(N=ROWS, V=(100, 1000), REDUCTION=("mean", "sum", "none"))
def cross_entropy(N: int, V: int, REDUCTION: str = "mean", **options: Any) -> Any:
    target = integers(V, N)
    target[: N // 2] = -100
    return apply(
        "cross_entropy",
        "LigerCrossEntropyFunction",
        _input=leaf(N, V).mul(1),
        target=target,
        ignore_index=-100,
        label_smoothing=0.1,
        reduction=REDUCTION,
        **options,
    )


@call(N=(1, 17), V=(100,))
def cross_entropy_plain(N: int, V: int) -> Any:
    """With arguments that every version has."""
    return apply(
        "cross_entropy",
        "LigerCrossEntropyFunction",
        _input=leaf(N, V).mul(1),
        target=integers(V, N),
        ignore_index=-100,
    )


@call(N=(3, 17), V=(100,))
def cross_entropy_target_out_of_range(N: int, V: int) -> Any:
    target = integers(V, N)
    target[-1] = V + 20
    return apply(
        "cross_entropy",
        "LigerCrossEntropyFunction",
        _input=leaf(N, V).mul(1),
        target=target,
        ignore_index=-100,
    )


@call(N=(3, 17), V=(100,))
def cross_entropy_of_many_outputs(N: int, V: int) -> Any:
    return cross_entropy(
        N,
        V,
        weight=constant(V).abs(),
        lse_square_scale=1e-3,
        softcap=30.0,
        return_z_loss=True,
        return_token_accuracy=True,
        return_predicted_tokens=True,
    )


@call(N=(3, 17), V=(100,))
def cross_entropy_weighted(N: int, V: int) -> Any:
    return cross_entropy(
        N, V, weight=constant(V).abs(), lse_square_scale=1e-3, softcap=30.0, return_z_loss=True
    )


@call(N=(3, 17), V=(100, 60))
def cross_entropy_expanded(N: int, V: int) -> Any:
    """One row for all: its stride is 0."""
    return apply(
        "cross_entropy",
        "LigerCrossEntropyFunction",
        _input=leaf(1, V).mul(1).expand(N, V),
        target=integers(V, N),
        ignore_index=-100,
    )


@call(N=ROWS, V=(100, 1000), BIAS=(False, True))
def linear_cross_entropy(N: int, V: int, BIAS: bool) -> Any:
    return apply(
        "fused_linear_cross_entropy",
        "LigerFusedLinearCrossEntropyFunction",
        _input=leaf(N, 60),
        weight=leaf(V, 60),
        target=integers(V, N),
        bias=leaf(V) if BIAS else None,
        ignore_index=-100,
    )


@call(N=ROWS, V=(60, 100))
def vocab_parallel_cross_entropy(N: int, V: int) -> Any:
    return apply(
        "vocab_parallel_cross_entropy",
        "LigerVocabParallelCEFunction",
        vocab_parallel_logits=leaf(N, 3, V).mul(1),
        target=integers(V, N, 3),
        ignore_index=-100,
        label_smoothing=0.1,
        label_smoothing_formula="pytorch",
        label_smoothing_mode="global",
    )


@call(N=ROWS, V=(60, 100))
def linear_jsd(N: int, V: int) -> Any:
    labels = integers(V, N)
    labels[: N // 2] = -100
    return apply(
        "fused_linear_jsd",
        "LigerFusedLinearJSDFunction",
        student_input=leaf(N, 48),
        student_weight=leaf(V, 48),
        teacher_input=constant(N, 96),
        teacher_weight=constant(V, 96),
        shift_labels=labels,
        ignore_index=-100,
        jsd_beta=0.5,
        temperature=1.0,
    )


@call(N=ROWS, V=(60, 100))
def linear_kl_div(N: int, V: int) -> Any:
    return apply(
        "fused_linear_kl_div",
        "LigerFusedLinearKLDivFunction",
        student_input=leaf(N, 48),
        student_weight=leaf(V, 48),
        target=constant(N, V).softmax(-1),
    )


@call(N=(0, *ROWS), V=(60, 100), BETA=(0.0, 0.5, 1.0))
def jsd(N: int, V: int, BETA: float) -> Any:
    labels = integers(V, N)
    labels[: N // 2] = -100
    x, y = leaf(N, V).log_softmax(-1), constant(N, V).log_softmax(-1)
    return apply(
        "jsd", "LigerJSDFunction", _input=x, target=y, shift_labels=labels, beta=BETA, ignore_index=-100
    )


@call(N=(0, *ROWS), V=(60, 100), REDUCTION=("batchmean", "sum", "mean", "none"))
def kl_div(N: int, V: int, REDUCTION: str) -> Any:
    x, y = leaf(N, V).log_softmax(-1), constant(N, V).softmax(-1)
    return apply(
        "kl_div", "LigerKLDivLossFunction", y_pred=x, y_true=y, reduction=REDUCTION, log_target=False
    )


@call(N=ROWS, V=(60, 100), REDUCTION=("batchmean", "none"))
def tvd(N: int, V: int, REDUCTION: str) -> Any:
    labels = integers(V, N)
    labels[: N // 2] = -100
    p, q = leaf(N, V).softmax(-1), constant(N, V).softmax(-1)
    return apply(
        "tvd", "LigerTVDLossFunction", p=p, q=q, shift_labels=labels, reduction=REDUCTION, ignore_index=-100
    )


@call(N=(1, 17), V=(60, 100))
def ce_tvd(N: int, V: int) -> Any:
    return apply(
        "fused_ce_tvd",
        "LigerFusedCETVDFunction",
        student_logits=leaf(N, V),
        teacher_logits=constant(N, V),
        target=integers(V, N),
    )


@call(T=(1, 17, 65), D=(48, 60, 96), HEADS=((2, 2), (3, 1)), B=(1, 2))
def rope(T: int, D: int, HEADS: tuple[int, int], B: int) -> Any:
    q, k = leaf(B, HEADS[0], T, D), leaf(B, HEADS[1], T, D)
    return apply(
        "rope", "LigerRopeFunction", q=q.mul(1), k=k.mul(1), cos=constant(1, T, D), sin=constant(1, T, D)
    )


@call(T=(17,), D=(60,), B=(2,))
def rope_by_sequence(T: int, D: int, B: int) -> Any:
    """Angles of each sequence."""
    return apply(
        "rope",
        "LigerRopeFunction",
        q=leaf(B, 2, T, D).mul(1),
        k=leaf(B, 2, T, D).mul(1),
        cos=constant(B, T, D),
        sin=constant(B, T, D),
    )


@call(T=(1, 17), D=(60, 96))
def llama4_rope(T: int, D: int) -> Any:
    angles = torch.polar(torch.ones(T, D // 2), constant(T, D // 2))
    return apply(
        "llama4_rope", "LigerLlama4RopeFunction", q=leaf(2, T, 3, D), k=leaf(2, T, 1, D), freqs_cis=angles
    )


@call(T=(1, 17, 65), D=(60, 96))
def qwen2vl_mrope(T: int, D: int) -> Any:
    half = D // 2
    sections = [half - 2 * (half // 3), half // 3, half // 3]
    return apply(
        "qwen2vl_mrope",
        "LigerQwen2VLMRopeFunction",
        q=leaf(2, 3, T, D).mul(1),
        k=leaf(2, 1, T, D).mul(1),
        cos=constant(3, 2, T, D),
        sin=constant(3, 2, T, D),
        mrope_section=sections,
    )


@call(N=(0, *ROWS), D=(60, 100, 3000))
def softmax(N: int, D: int) -> Any:
    return apply("softmax", "LigerSoftmaxFunction", input_=leaf(2, N, D))


@call(N=ROWS, D=(60, 100), DIM=(-1, 1))
def sparsemax(N: int, D: int, DIM: int) -> Any:
    return apply("sparsemax", "LigerSparsemaxFunction", x=leaf(2, N, D), dim=DIM)


@call(T=(3, 17, 65), HEADS=(2,), SPARSE=(False, True))
def multi_token_attention(T: int, HEADS: int, SPARSE: bool) -> Any:
    return apply(
        "multi_token_attention",
        "LigerMultiTokenAttentionFunction",
        scores=leaf(1, HEADS, T, T),
        weight=leaf(HEADS, HEADS, 3, 3),
        bias=leaf(HEADS),
        padding=1,
        sparse=SPARSE,
    )


@call(T=(3, 17, 65), D=(48, 60))
def neighborhood_attention(T: int, D: int) -> Any:
    return apply(
        "fused_neighborhood_attention",
        "LigerFusedNeighborhoodAttentionFunction",
        query=leaf(1, 2, T, D),
        key=leaf(1, 2, T, D),
        value=leaf(1, 2, T, D),
        kernel_size=7,
        dilation=1,
    )


@call(T=(1, 17, 65), V=(60, 100), BETA=(0.0, 0.04))
def grpo_loss(T: int, V: int, BETA: float, **options: Any) -> Any:
    mask = torch.ones(2, T, dtype=torch.int32)
    mask[1, T // 2 :] = 0
    return apply(
        "grpo_loss",
        "GrpoLossFunction",
        logits=leaf(2, T + 1, V).mul(1),
        old_logp=None,
        ref_logp=constant(2, T),
        completion_ids=integers(V, 2, T),
        advantages=constant(2),
        completion_mask=mask,
        temperature=0.9,
        beta=BETA,
        eps_low=0.2,
        eps_high=0.4,
        inplace=True,
        **options,
    )


@call(T=(1, 17, 65), V=(60, 100))
def grpo_loss_of_sequences(T: int, V: int) -> Any:
    return grpo_loss(T, V, 0.04, importance_sampling_level="sequence")


@call(T=(1, 17, 65), V=(60, 100))
def selective_log_softmax(T: int, V: int) -> Any:
    return plain(
        "grpo_loss",
        "fused_selective_log_softmax",
        logits=constant(2, T + 1, V),
        input_ids=integers(V, 2, T),
        mask=integers(2, 2, T, dtype=torch.int32),
    )


@call(N=(1, 17, 65), V=(60, 100), D=(48, 100))
def embedding(N: int, V: int, D: int) -> Any:
    return apply(
        "experimental.embedding", "LigerEmbeddingFunction", embeddings=leaf(V, D), indices=integers(V, N)
    )


@call(T=(1, 17, 65), D=(60, 100))
def attn_res(T: int, D: int) -> Any:
    return apply(
        "attn_res",
        "LigerAttnResFunction",
        V_stacked=leaf(3, 2, T, D),
        w_query=leaf(D),
        w_norm=leaf(D),
        eps=1e-6,
    )


@call(N=(1, 17), K=(1, 2))
def fused_moe(N: int, K: int) -> Any:
    experts, d, wide = 4, 64, 48
    weights = constant(N, experts).softmax(-1)
    top, index = weights.topk(K, dim=-1)
    return apply(
        "fused_moe",
        "LigerFusedMoEFunction",
        x=leaf(N, d),
        gate_up_proj=leaf(experts, 2 * wide, d),
        down_proj=leaf(experts, d, wide),
        top_k_index=index,
        top_k_weights=top,
    )


@call(T=(1, 17), D=(60,))
def mhc(T: int, D: int) -> Any:
    pre = apply("mhc", "LigerMHCPreFunction", x=leaf(2, T, 4, D), h_pre=leaf(2, T, 4))
    post = apply(
        "mhc",
        "LigerMHCPostResFunction",
        x=leaf(2, T, 4, D),
        f_out=leaf(2, T, D),
        h_post=leaf(2, T, 4),
        h_res=leaf(2, T, 4, 4),
    )
    return pre, post


@call(T=(1, 17), D=(60, 64))
def mhc_coefficients(T: int, D: int) -> Any:
    streams, numbers = 4, 24
    return apply(
        "mhc",
        "LigerMHCCoeffsFunction",
        x=leaf(2, T, streams, D),
        phi=leaf(streams * D, numbers),
        b=leaf(numbers),
        alpha_pre=leaf(),
        alpha_post=leaf(),
        alpha_res=leaf(),
        allow_fp32=True,
        tmax=8,
        rms_eps=1e-6,
        pre_eps=0.0,
        sinkhorn_eps=1e-6,
        post_mult=2.0,
    )


@call(N=(1, 16))
def mhc_sinkhorn_without_history(N: int) -> Any:
    return plain(
        "mhc",
        "mhc_sinkhorn_bwd",
        mix=constant(N, 24),
        b=constant(24),
        alpha_res=constant(),
        grad_hres=constant(N, 4, 4),
        tmax=8,
        sinkhorn_eps=1e-6,
    )


@call(N=(16, 48), K=(128, 256), M=(40, 100))
def int8_by_int2(N: int, K: int, M: int) -> Any:
    module = importlib.import_module("liger_kernel.ops.experimental.mm_int8int2")
    a = torch.randint(-128, 127, (N, K), dtype=torch.int8, device=DEVICE)
    return module.matmul(a, integers(255, K // 4, M, dtype=torch.uint8))


def plain(module: str, function: str, **given: Any) -> Any:
    """A function of a module by its arguments' names; one that this version lacks is left out."""
    made = getattr(importlib.import_module(f"liger_kernel.ops.{module}"), function)
    names = inspect.signature(made).parameters
    return made(**{name: value for name, value in given.items() if name in names})


@call(NAME="rms_norm layer_norm softmax sparsemax group_norm poly_norm")
def rows_far_apart(NAME: str) -> Any:
    x, w = far_apart(3, 64), constant(64, dtype=torch.bfloat16)
    if NAME == "softmax":
        return plain(NAME, "_softmax_forward", x=x)
    if NAME == "sparsemax":
        return plain(NAME, "_sparsemax_forward", x=x, dim=-1)
    if NAME == "group_norm":
        x = x.view(3, 4, 16)
        return plain(
            NAME, "group_norm_forward", X=x, num_channels=4, num_groups=2, W=w[:4], B=w[:4], eps=1e-6
        )
    if NAME == "poly_norm":
        return plain(NAME, "poly_norm_forward", X=x, W=w[:3], B=w[:1], eps=1e-6)
    return plain(
        NAME, f"{NAME}_forward", X=x, W=w, B=w, eps=1e-6, offset=0.0, casting_mode="llama", row_mode=True
    )  # fmt: skip


@call(NAME="rms_norm layer_norm geglu swiglu softmax")
def gradients_far_apart(NAME: str) -> Any:
    dy, x, w = far_apart(3, 64), far_apart(3, 64), constant(64, dtype=torch.bfloat16)
    one = torch.ones(3)
    if NAME in ("geglu", "swiglu"):
        return plain(NAME, f"{NAME}_backward", a=x, b=far_apart(3, 64), dc=dy)
    if NAME == "softmax":
        return plain(
            NAME, "_softmax_backward", dy=dy, y=x, BLOCK_SIZE=64, num_warps=4, multi_block_launch=False
        )
    return plain(
        NAME, f"{NAME}_backward", dY=dy, X=x, W=w, B=w, Mean=one, RSTD=one, offset=0.0, casting_mode=0,
        BLOCK_SIZE=64, num_warps=4, in_place=False, row_mode=True,
    )  # fmt: skip
