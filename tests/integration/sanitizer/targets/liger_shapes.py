"""Liger-Kernel's operators on CPU tensors, forward and backward, in the shapes of its own tests.

Where those are large, there are fewer rows: launches then have fewer programs, and their kernels and
specialisations stay the same. Prints one line per operator.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from types import SimpleNamespace

import liger_kernel.ops as ops
import torch
from liger_kernel.ops import dyt as dyt_module
from liger_kernel.ops.experimental import mm_int8int2

torch.manual_seed(0)
# What some operators size their grids by: a GPU of few multiprocessors stands in.
torch.cuda.get_device_properties = lambda *_: SimpleNamespace(multi_processor_count=4)  # type: ignore[assignment]
dyt_module.infer_device = lambda: "cuda"

OPERATORS: list[Callable[[], None]] = []


def operator(function: Callable[[], None]) -> Callable[[], None]:
    OPERATORS.append(function)
    return function


def rand(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = True) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype).requires_grad_(grad)


def backward(result: object) -> None:
    outputs = result if isinstance(result, tuple) else (result,)
    sums = [one.float().sum() for one in outputs if isinstance(one, torch.Tensor) and one.requires_grad]
    (2 * torch.stack(sums).sum()).backward()


def labels(rows: int, classes: int, ignored: bool = True) -> torch.Tensor:
    target = torch.randint(0, classes, (rows,))
    if ignored:
        target[rows // 3] = -100
    return target


# --- activations -----------------------------------------------------------------------------------


@operator
def swiglu() -> None:
    for shape in ((2, 8, 8), (9, 7, 41)):
        backward(ops.LigerSiLUMulFunction.apply(rand(*shape), rand(*shape)))
    backward(ops.LigerFusedGateUpSiLUMulFunction.apply(rand(9, 82)))


@operator
def swiglu_tiled() -> None:
    from liger_kernel.ops import swiglu as module

    module._should_tile = lambda n_cols: True  # what a GPU's shared memory decides
    backward(
        ops.LigerSiLUMulFunction.apply(
            rand(4, 4136, dtype=torch.bfloat16), rand(4, 4136, dtype=torch.bfloat16)
        )
    )


@operator
def geglu() -> None:
    for shape in ((2, 2, 8), (9, 7, 41)):
        backward(ops.LigerGELUMulFunction.apply(rand(*shape), rand(*shape)))


@operator
def relu_squared() -> None:
    backward(ops.LigerReLUSquaredFunction.apply(rand(9, 7, 41)))


@operator
def softmax() -> None:
    backward(ops.LigerSoftmaxFunction.apply(rand(2, 8)))
    backward(ops.LigerSoftmaxFunction.apply(rand(9, 7, 41)))
    # Not the kernels of more than one block: they call a dtype, which Triton 3.9 does not compile (and a
    # limit on the block's size keeps everybody from them).


@operator
def sparsemax() -> None:
    backward(ops.LigerSparsemaxFunction.apply(rand(5, 123), -1))
    backward(ops.LigerSparsemaxFunction.apply(rand(3, 10, 17), 1))


# --- norms -----------------------------------------------------------------------------------------


@operator
def rms_norm() -> None:
    for casting in ("llama", "gemma", "none"):
        backward(
            ops.LigerRMSNormFunction.apply(rand(5, 123, 123), rand(123), 1e-6, 0.0, casting, False, None)
        )
    backward(ops.LigerRMSNormFunction.apply(rand(2, 8, 64), rand(64), 1e-6, 1.0, "gemma", True, True))
    # Many short rows: several of them in a program.
    backward(ops.LigerRMSNormFunction.apply(rand(32768, 16), rand(16), 1e-6, 0.0, "llama", False, False))


@operator
def fused_add_rms_norm() -> None:
    for shape in ((2, 8, 64), (5, 123, 123)):
        backward(
            ops.LigerFusedAddRMSNormFunction.apply(
                rand(*shape), rand(*shape), rand(shape[-1]), 1e-6, 0.0, "llama", False
            )
        )


@operator
def modulated_rms_norm() -> None:
    backward(
        ops.LigerModulatedRMSNormFunction.apply(
            rand(2, 8, 64), rand(64), rand(2, 64), rand(2, 64), 1e-6, 0.0, "llama", False
        )
    )
    backward(
        ops.LigerModulatedRMSNormFunction.apply(
            rand(5, 12, 123), None, rand(60, 123), None, 1e-6, 0.0, "gemma", False
        )
    )


@operator
def layer_norm() -> None:
    for shape in ((2, 8, 64), (5, 123, 123)):
        backward(ops.LigerLayerNormFunction.apply(rand(*shape), rand(shape[-1]), rand(shape[-1]), 1e-6))


@operator
def group_norm() -> None:
    for batch, channels, hidden, groups in ((1, 1, 3, 1), (1, 4, 10, 2), (16, 12, 123, 4)):
        result = ops.LigerGroupNormFunction.apply(
            rand(batch, channels, hidden), rand(channels), rand(channels), channels, groups, 1e-6
        )
        backward(result)


@operator
def poly_norm() -> None:
    weight, bias = rand(3), torch.zeros(1, requires_grad=True)
    result = ops.LigerPolyNormFunction.apply(rand(5, 12, 123), weight, bias, 1e-6, False)
    try:
        backward(result)
    except RuntimeError as error:  # its gradient of the bias has another shape, after the kernels ran
        if "invalid gradient" not in str(error):
            raise


@operator
def dyt() -> None:
    for shape in ((2, 8, 64), (3, 7, 256), (1, 1, 1023)):
        backward(ops.LigerDyTFunction.apply(rand(*shape), rand(1), rand(shape[-1]), rand(shape[-1])))
    backward(ops.LigerDyTFunction.apply(rand(3, 7, 256), rand(1), rand(256), None))


# --- positions, embeddings ---------------------------------------------------------------------------


@operator
def rope() -> None:
    for batch, length, q_heads, kv_heads, size in ((2, 18, 4, 4, 64), (3, 23, 73, 13, 92)):
        q, k = rand(batch, q_heads, length, size), rand(batch, kv_heads, length, size)
        angle = torch.randn(1, length, size)
        backward(ops.LigerRopeFunction.apply(q, k, angle.cos(), angle.sin()))


@operator
def llama4_rope() -> None:
    q, k = rand(2, 16, 8, 64), rand(2, 16, 4, 64)
    backward(ops.LigerLlama4RopeFunction.apply(q, k, torch.polar(torch.ones(16, 32), torch.randn(16, 32))))


@operator
def qwen2vl_mrope() -> None:
    for batch, length, q_heads, kv_heads, size, sections in (
        (2, 18, 4, 4, 64, [16, 8, 8]),
        (3, 23, 7, 3, 96, [16, 16, 16]),
    ):
        q, k = rand(batch, q_heads, length, size), rand(batch, kv_heads, length, size)
        angle = torch.randn(3, batch, length, size)
        backward(ops.LigerQwen2VLMRopeFunction.apply(q, k, angle.cos(), angle.sin(), sections, 1))


@operator
def embedding() -> None:
    backward(ops.LigerEmbeddingFunction.apply(rand(100, 64), torch.randint(0, 100, (3, 11))))
    backward(ops.LigerEmbeddingFunction.apply(rand(37, 123), torch.randint(0, 37, (2, 8))))


# --- losses ------------------------------------------------------------------------------------------


@operator
def cross_entropy() -> None:
    rows, classes = 3 * 41, 3271
    for arguments in (
        (None, -100, 0.0, 0.0, "mean", None, False),
        (None, -100, 1e-4, 0.1, "sum", None, True),
        (None, -100, 0.0, 0.0, "none", 30.0, False),
        (torch.rand(classes), -100, 0.0, 0.1, "mean", None, False),
        (None, -100, 0.0, 0.0, "mean", None, False, True, True),
    ):
        backward(ops.LigerCrossEntropyFunction.apply(rand(rows, classes), labels(rows, classes), *arguments))


@operator
def kl_div() -> None:
    for log_target in (False, True):
        for reduction in ("batchmean", "none"):
            prediction = torch.log_softmax(rand(41, 1271), -1)
            target = torch.softmax(rand(41, 1271, grad=False), -1)
            target = target.log() if log_target else target
            backward(ops.LigerKLDivLossFunction.apply(prediction, target, reduction, log_target, 1e-10))


@operator
def jsd() -> None:
    for beta, shifted in ((0.5, None), (0.1, labels(41, 1271)), (0.0, None), (1.0, None)):
        log_q, log_p = (
            torch.log_softmax(rand(41, 1271), -1),
            torch.log_softmax(rand(41, 1271, grad=False), -1),
        )
        backward(ops.LigerJSDFunction.apply(log_q, log_p, shifted, beta, -100, False))


@operator
def tvd() -> None:
    for reduction in ("batchmean", "none"):
        p, q = torch.softmax(rand(41, 1271), -1), torch.softmax(rand(41, 1271, grad=False), -1)
        backward(ops.LigerTVDLossFunction.apply(p, q, labels(41, 1271), reduction, -100))


@operator
def fused_ce_tvd() -> None:
    backward(ops.LigerFusedCETVDFunction.apply(rand(41, 1271), rand(41, 1271, grad=False), labels(41, 1271)))


@operator
def fused_linear_cross_entropy() -> None:
    result = ops.LigerFusedLinearCrossEntropyFunction.apply(
        rand(3 * 47, 31), rand(123, 31), labels(141, 123), rand(123)
    )
    backward(result)


@operator
def fused_linear_jsd() -> None:
    backward(
        ops.LigerFusedLinearJSDFunction.apply(
            rand(3 * 47, 31),
            rand(123, 31),
            rand(141, 62, grad=False),
            rand(123, 62, grad=False),
            labels(141, 123),
            0.5,
        )
    )


@operator
def fused_linear_kl_div() -> None:
    target = torch.softmax(rand(141, 123, grad=False), -1)
    backward(ops.LigerFusedLinearKLDivFunction.apply(rand(141, 31), rand(123, 31), target, labels(141, 123)))


@operator
def vocab_parallel_cross_entropy() -> None:
    backward(
        ops.LigerVocabParallelCEFunction.apply(
            rand(47, 3, 123), labels(141, 123).view(47, 3), None, -100, 0.1, "pytorch", "global"
        )
    )


@operator
def grpo_loss() -> None:
    from liger_kernel.ops.grpo_loss import fused_selective_log_softmax

    batch, length, classes = 3, 17, 1271
    for level in ("token", "sequence"):
        logits = rand(batch, length + 1, classes)
        ids = torch.randint(0, classes, (batch, length))
        mask = (torch.arange(length) < torch.tensor([[17], [9], [1]])).to(torch.int32)
        old, ref = -torch.rand(batch, length), -torch.rand(batch, length)
        result = ops.GrpoLossFunction.apply(
            logits,
            old,
            ref,
            ids,
            torch.randn(batch),
            mask,
            0.9,
            0.04,
            0.2,
            0.4,
            False,
            "grpo",
            None,
            True,
            level,
        )
        backward(result[0] if isinstance(result, tuple) else result)
        fused_selective_log_softmax(logits.detach(), ids, 0.9, mask)


# --- attention, mixtures, connections ----------------------------------------------------------------


@operator
def attn_res() -> None:
    for depth, batch, length, size in ((4, 2, 8, 64), (5, 3, 7, 123)):
        backward(
            ops.LigerAttnResFunction.apply(rand(depth, batch, length, size), rand(size), rand(size), 1e-6)
        )


@operator
def multi_token_attention() -> None:
    for sparse in (False, True):
        weight = rand(4, 4, 3, 3)
        backward(
            ops.LigerMultiTokenAttentionFunction.apply(
                rand(2, 4, 16, 16), weight, rand(4), 1, 1, 1, 1, sparse
            )
        )


@operator
def fused_neighborhood_attention() -> None:
    q, k, v = (rand(1, 2, 32, 16) for _ in range(3))
    backward(ops.LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, 7, 1, None))
    q, k, v = (rand(2, 3, 37, 33) for _ in range(3))
    backward(ops.LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, 5, 2, None))


@operator
def fused_moe() -> None:
    for tokens, experts, hidden, inner, chosen in ((7, 4, 64, 32, 2), (100, 7, 97, 47, 3)):
        logits = torch.randn(tokens, experts)
        index = torch.topk(logits, chosen, dim=-1).indices.to(torch.int32)
        weights = torch.softmax(torch.gather(logits, 1, index.long()), dim=-1).requires_grad_()
        up, down = rand(experts, 2 * inner, hidden), rand(experts, hidden, inner)
        backward(ops.LigerFusedMoEFunction.apply(rand(tokens, hidden), up, down, index, weights))


@operator
def mhc() -> None:
    streams, channels = 4, 64
    x = rand(2, 8, streams, channels)
    outputs = streams * streams + 2 * streams
    scalars = [torch.tensor(0.5, requires_grad=True) for _ in range(3)]
    coefficients = ops.LigerMHCCoeffsFunction.apply(
        x, rand(streams * channels, outputs), rand(outputs), *scalars, True, 8, 1e-6, 0.0, 1e-6, 2.0
    )
    h_pre, h_post, h_res = coefficients
    mixed = ops.LigerMHCPreFunction.apply(x, h_pre)
    backward(ops.LigerMHCPostResFunction.apply(x, mixed, h_post, h_res))
    with torch.no_grad():
        ops.LigerMHCCoeffsFunction.apply(
            x, rand(streams * channels, outputs), rand(outputs), *scalars, True, 8, 1e-6, 0.0, 1e-6, 2.0
        )
    from liger_kernel.ops.mhc import mhc_sinkhorn_bwd

    mix, bias = rand(16, outputs, grad=False), rand(outputs, grad=False)
    gradient = rand(16, streams, streams, grad=False)
    mhc_sinkhorn_bwd(mix, bias, torch.tensor(0.5), gradient, tmax=8, sinkhorn_eps=1e-6)


@operator
def mlp() -> None:
    """Its autograd function insists on a GPU: the same calls, without it."""
    from liger_kernel.ops import mlp as module

    x, gate, up = rand(2, 64, 128, grad=False), rand(256, 128, grad=False), rand(256, 128, grad=False)
    module.gemm_swiglu(x, gate, up, 1.0, False)
    stored, config = module.gemm_swiglu(x, gate, up, 1.0, True)
    module.swiglu_backward_dGU(
        rand(2, 64, 128, grad=False), rand(128, 256, grad=False), stored, config, 1.0, 1.0
    )
    module.swiglu_backward_dI(gate, up, stored)


@operator
def mm_int8_int2() -> None:
    a = torch.randint(-128, 127, (48, 128), dtype=torch.int8)
    mm_int8int2.matmul(a, torch.randint(0, 255, (32, 40), dtype=torch.uint8))


def main() -> int:
    failed = 0
    for one in OPERATORS:
        if len(sys.argv) > 1 and one.__name__ not in sys.argv[1:]:
            continue
        try:
            one()
        except Exception as error:
            failed += 1
            text = str(error).strip().splitlines() or [""]
            print(f"{one.__name__}: cannot run here: {type(error).__name__}: {text[-1][:200]}", flush=True)
        else:
            print(f"{one.__name__}: ok", flush=True)
    return failed


if __name__ == "__main__":
    with tempfile.TemporaryDirectory():
        main()
