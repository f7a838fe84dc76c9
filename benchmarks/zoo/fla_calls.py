"""fla-core, and flash-linear-attention before it: layouts are [batch, time, heads, head size]."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import inspect
import sys
import types
from typing import Any

import torch
import torch.nn.functional as F
from call import call, constant, first_of, integers, leaf, offsets

# Until 0.3.1 the package imports its models, for which each version needs other transformers.
_found = importlib.util.find_spec("fla")
if _found is not None:
    _package = types.ModuleType("fla")
    _package.__path__ = list(_found.submodule_search_locations or ())
    if any(importlib.machinery.PathFinder.find_spec("models", [one]) for one in _package.__path__):
        sys.modules["fla"] = _package

T = (1, 17, 63, 65, 127)
D = (48, 60, 96, 100)
SHAPES = [(1, 60), (17, 48), (63, 100), (65, 96), (127, 60)]  # (T, D)
PACKED = ((1, 0, 17, 46), (63, 1, 65))  # lengths of sequences in one batch
BF16 = torch.bfloat16


def qkv(t: int, d: int, heads: int = 2, value_heads: int | None = None) -> tuple[torch.Tensor, ...]:
    """Queries, keys and values of different head sizes."""
    hv = value_heads or heads
    v = leaf(1, t, hv, d + 4, dtype=BF16)
    return leaf(1, t, heads, d, dtype=BF16), leaf(1, t, heads, d, dtype=BF16), v


def decay(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Logarithms of a gate."""
    return F.logsigmoid(constant(*shape)).to(dtype).requires_grad_()


def beta(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return constant(*shape).sigmoid().to(dtype).requires_grad_()


def unit(x: torch.Tensor) -> torch.Tensor:
    """With vectors of length 1."""
    return F.normalize(x, dim=-1)


def packed(lengths: tuple[int, ...]) -> dict[str, Any]:
    return {"cu_seqlens": offsets(*lengths)}


@call(TD=SHAPES)
def chunk_gated_delta_rule(TD: tuple[int, int], **options: Any) -> Any:
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    t, d = TD
    q, k, v = qkv(t, d)
    options.setdefault("output_final_state", True)
    return chunk_gated_delta_rule(q, unit(k), v, decay(1, t, 2), beta(1, t, 2), **options)


@call(LENS=PACKED)
def chunk_gated_delta_rule_packed(LENS: tuple[int, ...]) -> Any:
    state = constant(len(LENS), 2, 60, 64).requires_grad_()
    return chunk_gated_delta_rule((sum(LENS), 60), initial_state=state, **packed(LENS))


@call(TD=SHAPES)
def chunk_gla(TD: tuple[int, int], **options: Any) -> Any:
    from fla.ops.gla import chunk_gla

    t, d = TD
    return chunk_gla(*qkv(t, d), decay(1, t, 2, d, dtype=BF16), output_final_state=True, **options)


@call(LENS=PACKED)
def chunk_gla_packed(LENS: tuple[int, ...]) -> Any:
    return chunk_gla((sum(LENS), 60), initial_state=leaf(len(LENS), 2, 60, 64), **packed(LENS))


@call(TD=SHAPES)
def fused_recurrent_gla(TD: tuple[int, int], **options: Any) -> Any:
    from fla.ops.gla import fused_recurrent_gla

    t, d = TD
    return fused_recurrent_gla(*qkv(t, d), decay(1, t, 2, d), output_final_state=True, **options)


@call(LENS=PACKED)
def fused_recurrent_gla_packed(LENS: tuple[int, ...]) -> Any:
    return fused_recurrent_gla((sum(LENS), 60), initial_state=leaf(len(LENS), 2, 60, 64), **packed(LENS))


@call(TD=SHAPES)
def chunk_simple_gla(TD: tuple[int, int], **options: Any) -> Any:
    from fla.ops.simple_gla import chunk_simple_gla

    t, d = TD
    return chunk_simple_gla(*qkv(t, d), g=decay(1, t, 2), output_final_state=True, **options)


@call(LENS=PACKED)
def chunk_simple_gla_packed(LENS: tuple[int, ...]) -> Any:
    return chunk_simple_gla((sum(LENS), 60), initial_state=leaf(len(LENS), 2, 60, 64), **packed(LENS))


@call(TD=SHAPES)
def parallel_simple_gla(TD: tuple[int, int]) -> Any:
    from fla.ops.simple_gla import parallel_simple_gla

    t, d = TD
    return parallel_simple_gla(*qkv(t, d), g=decay(1, t, 2))


@call(TD=SHAPES)
def chunk_delta_rule(TD: tuple[int, int], **options: Any) -> Any:
    from fla.ops.delta_rule import chunk_delta_rule

    t, d = TD
    q, k, v = qkv(t, d)
    return chunk_delta_rule(q, unit(k), v, beta(1, t, 2), output_final_state=True, **options)


@call(LENS=PACKED)
def chunk_delta_rule_packed(LENS: tuple[int, ...]) -> Any:
    return chunk_delta_rule((sum(LENS), 60), initial_state=leaf(len(LENS), 2, 60, 64), **packed(LENS))


@call(TD=SHAPES)
def fused_recurrent_delta_rule(TD: tuple[int, int], **options: Any) -> Any:
    from fla.ops.delta_rule import fused_recurrent_delta_rule

    t, d = TD
    return fused_recurrent_delta_rule(*qkv(t, d), beta(1, t, 2), output_final_state=True, **options)


@call(LENS=PACKED)
def fused_recurrent_delta_rule_packed(LENS: tuple[int, ...]) -> Any:
    state = leaf(len(LENS), 2, 60, 64)
    return fused_recurrent_delta_rule((sum(LENS), 60), initial_state=state, **packed(LENS))


@call(TD=SHAPES)
def chunk_linear_attn(TD: tuple[int, int]) -> Any:
    from fla.ops.linear_attn import chunk_linear_attn

    return chunk_linear_attn(*qkv(*TD))


@call(TD=SHAPES)
def fused_recurrent_linear_attn(TD: tuple[int, int]) -> Any:
    from fla.ops.linear_attn import fused_recurrent_linear_attn

    return fused_recurrent_linear_attn(*qkv(*TD))


@call(TD=SHAPES)
def fused_chunk_linear_attn(TD: tuple[int, int]) -> Any:
    from fla.ops.linear_attn import fused_chunk_linear_attn

    return fused_chunk_linear_attn(*qkv(*TD))


@call(TD=SHAPES)
def chunk_kda(TD: tuple[int, int], **options: Any) -> Any:
    from fla.ops.kda import chunk_kda

    t, d = TD
    q, k, v = qkv(t, d)
    gate = decay(1, t, 2, d)
    return chunk_kda(unit(q), unit(k), v, gate, beta(1, t, 2), output_final_state=True, **options)


@call(LENS=PACKED)
def chunk_kda_packed(LENS: tuple[int, ...]) -> Any:
    return chunk_kda((sum(LENS), 60), initial_state=leaf(len(LENS), 2, 60, 64), **packed(LENS))


@call(TD=SHAPES)
def fused_recurrent_gated_delta_rule(TD: tuple[int, int], **options: Any) -> Any:
    from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule

    t, d = TD
    q, k, v = qkv(t, d)
    with torch.no_grad():
        return fused_recurrent_gated_delta_rule(
            q, k, v, g=decay(1, t, 2), beta=beta(1, t, 2), output_final_state=True, **options
        )


@call(LENS=PACKED)
def fused_recurrent_gated_delta_rule_packed(LENS: tuple[int, ...]) -> Any:
    state = constant(len(LENS), 2, 60, 64)
    return fused_recurrent_gated_delta_rule((sum(LENS), 60), initial_state=state, **packed(LENS))


@call(TD=SHAPES)
def chunk_gsa(TD: tuple[int, int], **options: Any) -> Any:
    from fla.ops.gsa import chunk_gsa

    t, d = TD
    q, k, v = qkv(t, d)
    slots = 20
    return chunk_gsa(q, k, v, leaf(1, t, 2, slots, dtype=BF16), decay(1, t, 2, slots), **options)


@call(LENS=PACKED)
def chunk_gsa_packed(LENS: tuple[int, ...]) -> Any:
    return chunk_gsa((sum(LENS), 60), **packed(LENS))


@call(TD=SHAPES)
def chunk_abc(TD: tuple[int, int]) -> Any:
    from fla.ops.abc import chunk_abc

    t, d = TD
    return chunk_abc(*qkv(t, d), leaf(1, t, 2, 32, dtype=BF16))  # slots: a power of two


@call(T=T, D=(60, 100))
def chunk_hgrn(T: int, D: int) -> Any:
    from fla.ops.hgrn import chunk_hgrn

    return chunk_hgrn(leaf(2, T, D), decay(2, T, D), output_final_state=True)


@call(T=T, D=(60,))
def fused_recurrent_hgrn(T: int, D: int, **options: Any) -> Any:
    from fla.ops.hgrn import fused_recurrent_hgrn

    batch = 1 if options else 2
    return fused_recurrent_hgrn(leaf(batch, T, D), decay(batch, T, D), output_final_state=True, **options)


@call(LENS=PACKED)
def fused_recurrent_hgrn_packed(LENS: tuple[int, ...]) -> Any:
    return fused_recurrent_hgrn(sum(LENS), 60, initial_state=leaf(len(LENS), 60), **packed(LENS))


@call(TD=SHAPES)
def chunk_retention(TD: tuple[int, int], **options: Any) -> Any:
    from fla.ops.retention import chunk_retention

    return chunk_retention(*qkv(*TD), output_final_state=True, **options)


@call(LENS=PACKED)
def chunk_retention_packed(LENS: tuple[int, ...]) -> Any:
    return chunk_retention((sum(LENS), 60), initial_state=leaf(len(LENS), 2, 60, 64), **packed(LENS))


@call(TD=SHAPES)
def chunk_rwkv6(TD: tuple[int, int], **options: Any) -> Any:
    from fla.ops.rwkv6 import chunk_rwkv6

    t, d = TD
    r, k, v = qkv(t, d)
    return chunk_rwkv6(r, k, v, decay(1, t, 2, d, dtype=BF16), leaf(2, d, dtype=BF16), **options)


@call(LENS=PACKED)
def chunk_rwkv6_packed(LENS: tuple[int, ...]) -> Any:
    return chunk_rwkv6((sum(LENS), 60), **packed(LENS))


@call(TD=SHAPES)
def fused_recurrent_rwkv6(TD: tuple[int, int]) -> Any:
    from fla.ops.rwkv6 import fused_recurrent_rwkv6

    t, d = TD
    r, k, v = qkv(t, d)
    return fused_recurrent_rwkv6(r, k, v, decay(1, t, 2, d), leaf(2, d))


@call(TD=SHAPES)
def chunk_rwkv7(TD: tuple[int, int], **options: Any) -> Any:
    from fla.ops.rwkv7 import chunk_rwkv7

    t, d = TD
    r, k, v = qkv(t, d)
    direction = unit(constant(1, t, 2, d)).to(BF16)
    a, b = (-direction).requires_grad_(), (direction * 0.5).requires_grad_()
    w = (decay(1, t, 2, d) * 0.6).to(BF16).detach().requires_grad_()
    return chunk_rwkv7(r, w, k, v, a, b, output_final_state=True, **options)


@call(LENS=PACKED)
def chunk_rwkv7_packed(LENS: tuple[int, ...]) -> Any:
    return chunk_rwkv7((sum(LENS), 60), initial_state=leaf(len(LENS), 2, 60, 64), **packed(LENS))


@call(B=(1, 2), T=(1, 17, 65), D=(60, 100))
def fused_recurrent_rwkv4(B: int, T: int, D: int) -> Any:
    from fla.ops.rwkv4 import fused_recurrent_rwkv4

    return fused_recurrent_rwkv4(leaf(D), leaf(D), leaf(B, T, D), leaf(B, T, D), leaf(B, 3, 1, D))


@call(TD=SHAPES)
def parallel_attn(TD: tuple[int, int], **options: Any) -> Any:
    from fla.ops.attn import parallel_attn

    t, d = TD
    return parallel_attn(
        leaf(1, t, 4, d, dtype=BF16), leaf(1, t, 2, d, dtype=BF16), leaf(1, t, 2, d, dtype=BF16), **options
    )


@call(LENS=PACKED)
def parallel_attn_packed(LENS: tuple[int, ...]) -> Any:
    return parallel_attn((sum(LENS), 60), **packed(LENS))


@call(TD=SHAPES)
def parallel_forgetting_attn(TD: tuple[int, int], **options: Any) -> Any:
    from fla.ops.forgetting_attn import parallel_forgetting_attn

    t, d = TD
    q, k, _ = qkv(t, d)
    return parallel_forgetting_attn(q, k, leaf(1, t, 2, d, dtype=BF16), decay(1, t, 2), **options)


@call(LENS=PACKED)
def parallel_forgetting_attn_packed(LENS: tuple[int, ...]) -> Any:
    return parallel_forgetting_attn((sum(LENS), 60), **packed(LENS))


@call(TD=[(1, 64), (17, 64), (65, 60), (127, 64)])
def parallel_path_attn(TD: tuple[int, int], **options: Any) -> Any:
    module = first_of("fla.ops.path_attn.parallel")
    function = getattr(module, "parallel_path_attn", None) or module.parallel_path_attention  # until 0.3.1
    # Later versions insist on float32 for these two, before they had to be as the keys.
    kind = torch.float32 if "float32 to preserve" in inspect.getsource(module) else BF16

    t, d = TD
    q, k, _ = qkv(t, d)
    w = unit(constant(1, t, 2, d)).to(kind).requires_grad_()
    return function(q, k, leaf(1, t, 2, d, dtype=BF16), w, beta(1, t, 2, dtype=kind), **options)


@call(TD=[(17, 64), (65, 60), (127, 64)])
def parallel_path_attn_gated(TD: tuple[int, int]) -> Any:
    return parallel_path_attn(TD, g=decay(1, TD[0], 2))


@call(LENS=PACKED)
def parallel_path_attn_packed(LENS: tuple[int, ...]) -> Any:
    return parallel_path_attn((sum(LENS), 64), **packed(LENS))


@call(T=(65, 127), D=(60,))
def parallel_nsa(T: int, D: int) -> Any:
    from fla.ops.nsa import parallel_nsa

    blocks = integers(-(-T // 16), 1, T, 1, 4).sort(-1)[0]
    gates = [constant(1, T, 16).sigmoid().requires_grad_() for _ in range(2)]
    q, k, v = leaf(1, T, 16, D, dtype=BF16), leaf(1, T, 1, D, dtype=BF16), leaf(1, T, 1, D, dtype=BF16)
    return parallel_nsa(
        q, k, v, g_slc=gates[0], g_swa=gates[1], block_indices=blocks, block_counts=4, block_size=16
    )


@call(TD=SHAPES)
def parallel_based(TD: tuple[int, int]) -> Any:
    from fla.ops.based import parallel_based

    t, d = TD
    return parallel_based(
        leaf(1, t, 2, 16, dtype=BF16), leaf(1, t, 2, 16, dtype=BF16), leaf(1, t, 2, d, dtype=BF16)
    )


@call(TD=SHAPES)
def parallel_rebased(TD: tuple[int, int]) -> Any:
    from fla.ops.rebased import parallel_rebased

    t, d = TD
    return parallel_rebased(
        leaf(1, t, 2, 16, dtype=BF16), leaf(1, t, 2, 16, dtype=BF16), leaf(1, t, 2, d, dtype=BF16)
    )


@call(T=(1, 17, 65), D=(60,))
def chunk_comba(T: int, D: int, **options: Any) -> Any:
    from fla.ops.comba import chunk_comba

    q, k, v = qkv(T, D)
    return chunk_comba(
        q, k, v, leaf(1, T, 2, D, dtype=BF16), decay(1, T, 2), beta(1, T, 2), use_qk_l2norm_in_kernel=True,
        **options,
    )  # fmt: skip


@call(LENS=PACKED)
def chunk_comba_packed(LENS: tuple[int, ...]) -> Any:
    return chunk_comba(sum(LENS), 60, initial_state=leaf(len(LENS), 2, 60, 64), **packed(LENS))


@call(T=(1, 17, 65), D=(60,))
def chunk_mesa_net(T: int, D: int) -> Any:
    from fla.ops.mesa_net import chunk_mesa_net

    q, k, _ = qkv(T, D)
    v = leaf(1, T, 2, D, dtype=BF16)
    lamb = constant(2, D).sigmoid().add(0.25).requires_grad_()
    return chunk_mesa_net(unit(q), unit(k), v, decay(1, T, 2), beta(1, T, 2), lamb, max_CG_iteration=2)


@call(T=(1, 17, 65), D=(60,))
def chunk_gated_delta_product(T: int, D: int, **options: Any) -> Any:
    from fla.ops.gated_delta_product import chunk_gated_delta_product

    q, _, _ = qkv(T, D)
    k, v = unit(leaf(1, T * 2, 2, D, dtype=BF16)), leaf(1, T * 2, 2, D, dtype=BF16)
    return chunk_gated_delta_product(q, k, v, decay(1, T, 2), beta(1, T * 2, 2), num_householder=2, **options)


@call(LENS=PACKED)
def chunk_gated_delta_product_packed(LENS: tuple[int, ...]) -> Any:
    return chunk_gated_delta_product(sum(LENS), 60, **packed(LENS))


@call(T=(1, 17, 65), D=(60,))
def chunk_ttt_linear(T: int, D: int) -> Any:
    from fla.ops.ttt import chunk_ttt_linear

    q, k, _ = qkv(T, D)
    v = leaf(1, T, 2, D, dtype=BF16)
    eta = (constant(1, T, 2, 1) * 5e-3).to(BF16).requires_grad_()
    scale, bias = leaf(2, D, dtype=BF16), leaf(2, D, dtype=BF16)
    return chunk_ttt_linear(q, unit(k), v, scale, bias, eta)


@call(T=(1, 17, 65), D=(60,))
def chunk_iplr_delta_rule(T: int, D: int) -> Any:
    from fla.ops.generalized_delta_rule import chunk_iplr_delta_rule

    q, k, _ = qkv(T, D)
    a = unit(constant(1, T, 2, D)).to(BF16)
    with torch.no_grad():
        return chunk_iplr_delta_rule(q, k, leaf(1, T, 2, D, dtype=BF16), a, -a)


@call(T=(1, 17, 65), D=(60,))
def fused_recurrent_iplr_delta_rule(T: int, D: int) -> Any:
    from fla.ops.generalized_delta_rule import fused_recurrent_iplr_delta_rule

    q, k, _ = qkv(T, D)
    a = unit(constant(1, T, 2, D)).to(BF16)
    return fused_recurrent_iplr_delta_rule(
        q, k, leaf(1, T, 2, D, dtype=BF16), a.requires_grad_(), (-a).requires_grad_()
    )


@call(B=(0, 1, 2), T=(1, 65), D=(60, 100))
def chunk_local_cumsum(B: int, T: int, D: int) -> Any:
    from fla.ops.utils import chunk_local_cumsum

    return chunk_local_cumsum(constant(B, T, 3), 64), chunk_local_cumsum(
        constant(B, T, 3, D), 64, reverse=True
    )


@call(LENS=PACKED)
def chunk_local_cumsum_packed(LENS: tuple[int, ...]) -> Any:
    from fla.ops.utils import chunk_local_cumsum

    return chunk_local_cumsum(constant(1, sum(LENS), 3, 60), 64, **packed(LENS))


@call(T=T, D=(60,))
def chunk_global_cumsum(T: int, D: int) -> Any:
    from fla.ops.utils import chunk_global_cumsum

    return chunk_global_cumsum(constant(2, T, 3)), chunk_global_cumsum(constant(2, T, 3, D), reverse=True)


@call(LENS=PACKED)
def chunk_global_cumsum_packed(LENS: tuple[int, ...]) -> Any:
    from fla.ops.utils import chunk_global_cumsum

    given = packed(LENS)
    return chunk_global_cumsum(constant(1, sum(LENS), 3), **given), chunk_global_cumsum(
        constant(1, sum(LENS), 3, 60), **given
    )


@call(T=T, D=(60,))
def mean_pooling(T: int, D: int, **options: Any) -> Any:
    from fla.ops.utils import mean_pooling

    return mean_pooling(leaf(1, T, 3, D), 32, **options)


@call(LENS=PACKED)
def mean_pooling_packed(LENS: tuple[int, ...]) -> Any:
    return mean_pooling(sum(LENS), 60, **packed(LENS))


@call(T=T, BT=(16, 32, 64))
def solve_tril(T: int, BT: int, **options: Any) -> Any:
    from fla.ops.utils import solve_tril

    return solve_tril(constant(1, T, 3, BT).mul(0.1), **options)


@call(LENS=PACKED, BT=(16, 64))
def solve_tril_packed(LENS: tuple[int, ...], BT: int) -> Any:
    return solve_tril(sum(LENS), BT, **packed(LENS))


@call(N=(1, 17), D=(48, 60, 100))
def softmax(N: int, D: int) -> Any:
    from fla.ops.utils import softmax_bwd, softmax_fwd

    p = softmax_fwd(constant(N, D))
    return softmax_bwd(p, constant(N, D))


@call(N=(1, 17, 65), D=(60, 100, 5000))
def logsumexp(N: int, D: int) -> Any:
    from fla.ops.utils.logsumexp import logsumexp_fwd

    return logsumexp_fwd(constant(N, D))


@call(SIDE=("left", "right"), LENS=((1, 17, 46), (63, 1, 65), (5, 0, 3)))
def pack_and_unpack(SIDE: str, LENS: tuple[int, ...]) -> Any:
    from fla.ops.utils.pack import pack_sequence, unpack_sequence

    x = unpack_sequence(leaf(sum(LENS), 60), offsets(*LENS), SIDE)
    return pack_sequence(x, offsets(*LENS), SIDE)


@call(LENS=((1, 0, 17, 46), (63, 1, 65), (0, 0, 5)))
def position_ids(LENS: tuple[int, ...]) -> Any:
    from fla.ops.utils import prepare_position_ids

    return prepare_position_ids(offsets(*LENS))


@call(B=(0, 1, 2), T=(1, 17, 65), D=(60, 100))
def l2_norm(B: int, T: int, D: int) -> Any:
    l2_norm = first_of("fla.modules.norm.l2norm", "fla.modules.l2norm").l2_norm

    return l2_norm(leaf(B, T, 2, D))


@call(B=(1, 3), T=(1, 17, 65), D=(60, 100))
def rms_norm(B: int, T: int, D: int) -> Any:
    rms_norm = first_of("fla.modules.norm.layernorm", "fla.modules.layernorm").rms_norm

    return rms_norm(leaf(B, T, D), leaf(D), leaf(D), residual=leaf(B, T, D))


@call(T=(1, 65), D=(60, 100), GROUPS=(2, 4))
def group_norm(T: int, D: int, GROUPS: int) -> Any:
    group_norm = first_of("fla.modules.norm.layernorm", "fla.modules.layernorm").group_norm

    return group_norm(leaf(2, T, D), leaf(D), leaf(D), num_groups=GROUPS)


@call(T=(1, 17, 65), D=(60, 100), ACTIVATION=("swish", "sigmoid"))
def rms_norm_gated(T: int, D: int, ACTIVATION: str) -> Any:
    module = first_of("fla.modules.norm.fused_norm_gate", "fla.modules.fused_norm_gate")
    rms_norm_gated = module.rms_norm_gated

    return rms_norm_gated(leaf(2, T, D), leaf(2, T, D), leaf(D), None, activation=ACTIVATION)


@call(T=(1, 17, 65), D=(60, 100))
def layer_norm_gated(T: int, D: int) -> Any:
    module = first_of("fla.modules.norm.fused_norm_gate", "fla.modules.fused_norm_gate")
    layer_norm_gated = module.layer_norm_gated

    return layer_norm_gated(
        leaf(2, T, D), leaf(2, T, D), leaf(D), leaf(D), residual=leaf(2, T, D), prenorm=True
    )


@call(B=(0, 2), T=(1, 3, 17, 65), D=(60, 100))
def causal_conv1d(B: int, T: int, D: int, **options: Any) -> Any:
    causal_conv1d = first_of(
        "fla.modules.causal_conv1d.ops", "fla.modules.conv.triton.ops", "fla.modules.convolution"
    ).causal_conv1d

    return causal_conv1d(
        leaf(B, T, D),
        leaf(D, 4),
        leaf(D),
        residual=leaf(B, T, D),
        activation="swish",
        output_final_state=True,
        **options,
    )


@call(W=(2, 3, 5))
def causal_conv1d_width(W: int) -> Any:
    """Widths that are no power of two, too."""
    causal_conv1d = first_of(
        "fla.modules.causal_conv1d.ops", "fla.modules.conv.triton.ops", "fla.modules.convolution"
    ).causal_conv1d
    return causal_conv1d(leaf(2, 17, 60), leaf(60, W), leaf(60), activation="swish")


@call(LENS=PACKED)
def causal_conv1d_packed(LENS: tuple[int, ...]) -> Any:
    return causal_conv1d(1, sum(LENS), 60, initial_state=leaf(len(LENS), 60, 4), **packed(LENS))


@call(D=(60, 100))
def causal_conv1d_update(D: int) -> Any:
    module = first_of(
        "fla.modules.causal_conv1d.ops", "fla.modules.conv.triton.ops", "fla.modules.convolution"
    )
    causal_conv1d_update = module.causal_conv1d_update

    return causal_conv1d_update(
        constant(3, 1, D), constant(3, D, 4), None, constant(D, 4), constant(D), "swish"
    )


@call(T=(1, 17, 65), D=(48, 60), INTERLEAVED=(False, True))
def rotary(T: int, D: int, INTERLEAVED: bool, **options: Any) -> Any:
    from fla.modules.rotary import rotary_embedding

    batch = 1 if options else 2
    x = leaf(batch, T, 3, D + 8)  # the last 8 stay as they are
    return rotary_embedding(x, constant(T + 2, D // 2), constant(T + 2, D // 2), INTERLEAVED, **options)


@call(LENS=PACKED)
def rotary_packed(LENS: tuple[int, ...]) -> Any:
    return rotary(sum(LENS), 60, False, **packed(LENS))


@call(B=(0, 3), T=(1, 2, 65), D=(60, 100))
def token_shift(B: int, T: int, D: int, **options: Any) -> Any:
    from fla.modules.token_shift import token_shift

    return token_shift(leaf(B, T, D), **options)


@call(LENS=PACKED)
def token_shift_packed(LENS: tuple[int, ...]) -> Any:
    return token_shift(1, sum(LENS), 60, **packed(LENS))


@call(NAME=("swish", "logsigmoid", "sigmoid", "sqrelu", "bias_gelu_impl", "swiglu"), N=(0, 1, 1000))
def activation(NAME: str, N: int) -> Any:
    from fla.modules import activations

    function = getattr(activations, NAME)
    return function(leaf(N), leaf(N)) if NAME in ("bias_gelu_impl", "swiglu") else function(leaf(N))


@call(N=(1, 17), V=(100, 5000))
def cross_entropy(N: int, V: int) -> Any:
    from fla.modules.fused_cross_entropy import cross_entropy_loss

    return cross_entropy_loss(leaf(N, V), integers(V, N), label_smoothing=0.1, lse_square_scale=0.01)


@call(N=(1, 17), V=(100, 500), BIAS=(False, True))
def linear_cross_entropy(N: int, V: int, BIAS: bool) -> Any:
    from fla.modules.fused_linear_cross_entropy import fused_linear_cross_entropy_loss

    return fused_linear_cross_entropy_loss(
        leaf(N, 60), integers(V, N), leaf(V, 60), leaf(V) if BIAS else None
    )


@call(N=(1, 17), V=(100, 500))
def kl_div(N: int, V: int) -> Any:
    from fla.modules.fused_kl_div import fused_kl_div_loss

    return fused_kl_div_loss(leaf(N, 60), constant(N, 60), leaf(V, 60), constant(V, 60))


@call(T=(1, 17, 65), V=(100, 500))
def grpo_loss(T: int, V: int) -> Any:
    from fla.modules.grpo import fused_grpo_loss

    return fused_grpo_loss(leaf(2, T + 1, V), constant(2, T), integers(V, 2, T), constant(2))
