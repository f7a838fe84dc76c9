"""flag_gems: the functions that stand in for ATen's, called as they are."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import torch
from call import DEVICE, call, constant, integers, leaf, offsets

UNARY = (
    "abs acos angle arcsinh atan ceil celu cos elu erf exp exp2 expm1 gelu i0 isfinite isnan log log10 "
    "log_sigmoid logical_not logit nan_to_num neg reciprocal relu rsqrt sigmoid silu sin "
    "softplus sqrt square tan tanh"
)
BINARY = (
    "add sub mul true_divide floor_divide remainder maximum minimum atan2 hypot pow_tensor_tensor eq lt ge "
    "logical_and isclose lerp_scalar logaddexp copysign fmin"
)
SHAPES = {
    "scalar": lambda: constant(),
    "empty": lambda: constant(0, 5),
    "odd": lambda: constant(3, 65),
    "strided": lambda: constant(65, 6)[:, ::2].t(),
    "expanded": lambda: constant(1, 65).expand(3, 65),
    "broadcast": lambda: constant(3, 1),
}


@cache
def ops() -> Any:
    """FlagGems' operations, told that their device is the CPU: some refuse tensors of any other device."""
    import flag_gems.ops

    for name, module in sys.modules.items():
        if name.split(".")[0] == "flag_gems" and getattr(module, "device", None) == DEVICE:
            module.device = "cpu"
    return flag_gems.ops


def op(name: str, *given: Any, **named: Any) -> Any:
    return getattr(ops(), name)(*given, **named)


@call(NAME=UNARY, X=("odd", "strided", "expanded"))
def unary(NAME: str, X: str) -> Any:
    return op(NAME, SHAPES[X]())


@call(NAME=("exp", "relu", "gelu"), X=("scalar", "empty"))
def unary_at(NAME: str, X: str) -> Any:
    return op(NAME, SHAPES[X]())


@call(NAME=BINARY, X=("odd", "strided", "expanded"), Y=("odd", "broadcast"))
def binary(NAME: str, X: str, Y: str) -> Any:
    return op(NAME, SHAPES[X](), SHAPES[Y](), *((0.5,) if NAME == "lerp_scalar" else ()))


@call(NAME=("sum", "mean", "prod", "max", "min", "all", "any", "argmax", "argmin"), N=(1, 17, 1000, 5000))
def reduction(NAME: str, N: int) -> Any:
    return op(NAME, constant(N))


@call(
    NAME="sum mean prod max min all any argmax argmin amax aminmax count_nonzero var_mean std vector_norm "
    "_is_all_true median",
    X=("strided", "expanded"),
)  # fmt: skip
def reduction_of_all(NAME: str, X: str) -> Any:
    x = SHAPES[X]()
    return op(NAME, x > 0 if NAME == "_is_all_true" else x)


@call(NAME="sum_dim mean_dim var_mean amax all_dim any_dim max_dim min_dim argmax argmin prod_dim "
    "count_nonzero std aminmax cumsum cummax softmax log_softmax logsumexp", DIM=(0, 1))  # fmt: skip
def along_of_expanded(NAME: str, DIM: int) -> Any:
    x = SHAPES["expanded"]()
    if NAME == "aminmax":
        return op(NAME, x, dim=DIM)
    if NAME in ("softmax", "log_softmax"):
        return op(NAME, x, DIM, False)
    listed = NAME in ("sum_dim", "mean_dim", "var_mean", "amax", "std", "logsumexp")
    return op(NAME, x, [DIM] if listed else DIM)


def spread(*shape: int) -> torch.Tensor:
    """One number behind all."""
    return constant(*(1 for _ in shape)).expand(shape)


@call(NAME="dot vdot mv addmv addr mm addmm bmm baddbmm kron outer")
def product_of_expanded(NAME: str) -> Any:
    v, m, b = spread(65), spread(65, 65), spread(3, 65, 65)
    given = {
        "mv": (m, v), "addmv": (v, m, v), "addr": (m, v, v), "mm": (m, m), "addmm": (m, m, m), "bmm": (b, b),
        "baddbmm": (b, b, b), "kron": (m[:3, :3], m[:3, :5]),
    }  # fmt: skip
    return op(NAME, *given.get(NAME, (v, v)))


@call(NAME="trace diag diagonal_copy flip roll repeat tile tril triu topk sort pad one_hot isin unique "
    "nonzero masked_select masked_fill index_select gather scatter_add_ index_add where glu "
    "hadamard_transform cat stack t_copy alias_copy nll_loss mse_loss weight_norm group_norm layer_norm "
    "rms_norm avg_pool2d max_pool2d_with_indices upsample_nearest1d upsample_nearest2d pixel_unshuffle "
    "reflection_pad1d replication_pad1d batch_norm conv1d conv2d conv3d embedding repeat_interleave_self_int "
    "multinomial quantile cross_entropy_loss dropout")  # fmt: skip
def moved_from_expanded(NAME: str) -> Any:
    x = spread(6, 64)
    image = spread(2, 4, 6, 6)
    places = integers(6, 6, 64)
    given: dict[str, Any] = {
        "flip": (x, [1]), "roll": (x, 3, 1), "repeat": (x, [2, 3]), "tile": (x, [2, 3]), "topk": (x, 5),
        "pad": (x, [1, 2]), "one_hot": (places[:, :1].expand(6, 64), 6), "isin": (x, x[0]),
        "masked_select": (x, x > 0), "masked_fill": (x, x > 0, 1.0), "index_select": (x, 0, places[0]),
        "gather": (x, 0, places), "scatter_add_": (constant(6, 64), 0, places, x),
        "index_add": (constant(6, 64), 0, places[0, :6], x), "where": (x > 0, x, constant(6, 64)),
        "cat": ([x, x],), "stack": ([x, x],), "nll_loss": (x, integers(64, 6)), "mse_loss": (x, x),
        "weight_norm": (x, constant(6, 1), 0), "layer_norm": (x, [64]), "rms_norm": (x, [64], constant(64)),
        "group_norm": (image, constant(4), constant(4), 2, 4, 36, 2, 1e-5),
        "avg_pool2d": (image, [2, 2]), "max_pool2d_with_indices": (image, [2, 2]),
        "upsample_nearest1d": (image[0], [9]), "upsample_nearest2d": (image, [9, 9]),
        "pixel_unshuffle": (image, 2), "reflection_pad1d": (image[0], [1, 2]),
        "replication_pad1d": (image[0], [1, 2]),
        "batch_norm": (image, constant(4), constant(4), None, None, True),
        "conv1d": (image[0], constant(5, 6, 3)), "conv2d": (image, constant(5, 4, 3, 3)),
        "conv3d": (spread(1, 3, 5, 5, 5), constant(5, 3, 3, 3, 3)), "embedding": (x, places[0]),
        "repeat_interleave_self_int": (x, 3, 1), "multinomial": (x.abs(), 3),
        "quantile": (x, torch.tensor([0.5])), "cross_entropy_loss": (x, integers(64, 6)),
        "dropout": (x, 0.5, True),
    }  # fmt: skip
    return op(NAME, *given.get(NAME, (x,)))


@call(
    NAME=(
        "sum_dim",
        "mean_dim",
        "var_mean",
        "amax",
        "all_dim",
        "any_dim",
        "max_dim",
        "min_dim",
        "argmax",
        "argmin",
        "prod_dim",
        "count_nonzero",
        "std",
    ),
    SHAPE=((3, 65), (17, 5, 60)),
    DIM=(0, 1),
)
def reduction_of_dim(NAME: str, SHAPE: tuple[int, ...], DIM: int) -> Any:
    listed = NAME in ("sum_dim", "mean_dim", "var_mean", "amax", "std")
    return op(NAME, constant(*SHAPE), [DIM] if listed else DIM)


@call(NAME=("cumsum", "cummax", "cummin", "normed_cumsum"), SHAPE=((17,), (3, 65), (5, 3000)), DIM=(-1, 0))
def scan(NAME: str, SHAPE: tuple[int, ...], DIM: int) -> Any:
    return op(NAME, constant(*SHAPE), DIM)


@call(NAME=("softmax", "log_softmax"), SHAPE=((1, 1), (17, 65), (3, 65, 60), (2, 5000)), DIM=(0, 1))
def softmax(NAME: str, SHAPE: tuple[int, ...], DIM: int) -> Any:
    x = constant(*SHAPE)
    y = op(NAME, x, DIM, False)
    return op(f"{NAME}_backward", constant(*SHAPE), y, DIM, torch.float32)


@call(M=(1, 17, 65), N=(1, 60), K=(1, 17, 100))
def mm(M: int, N: int, K: int) -> Any:
    return op("mm", constant(M, K), constant(K, N))


@call(M=(1, 65), N=(60,), K=(17, 100))
def mm_strided(M: int, N: int, K: int) -> Any:
    return op("mm", constant(K, M).t(), constant(N, 2 * K)[:, ::2].t())


@call(B=(0, 1, 3), M=(1, 17), N=(60,), K=(17,))
def bmm(B: int, M: int, N: int, K: int) -> Any:
    return op("bmm", constant(B, M, K), constant(B, K, N))


@call(M=(1, 17), N=(60,), K=(17,))
def addmm(M: int, N: int, K: int) -> Any:
    return op("addmm", constant(N), constant(M, K), constant(K, N), beta=0.5, alpha=2.0)


@call(B=(1, 3), M=(1, 17), N=(60,), K=(17,))
def baddbmm(B: int, M: int, N: int, K: int) -> Any:
    return op("baddbmm", constant(B, M, N), constant(B, M, K), constant(B, K, N))


@call(M=(1, 17, 65), N=(1, 17, 100))
def mv(M: int, N: int) -> Any:
    return op("mv", constant(M, N), constant(N)), op("addmv", constant(M), constant(M, N), constant(N))


@call(M=(1, 17, 65), N=(1, 17, 100))
def addr(M: int, N: int) -> Any:
    return op("addr", constant(M, N), constant(M), constant(N))


@call(N=(1, 17, 1000, 5000), NAME=("dot", "vdot"))
def dot(N: int, NAME: str) -> Any:
    return op(NAME, constant(N), constant(N))


@call(N=(0, 1, 17, 65), D=(60, 100, 5000))
def layer_norm(N: int, D: int) -> Any:
    x, w, b = constant(N, D), constant(D), constant(D)
    y, mean, rstd = op("layer_norm", x, [D], w, b, 1e-5)
    return op("layer_norm_backward", constant(N, D), x, [D], mean, rstd, w, b, [True, True, True])


@call(N=(1, 17, 65), D=(60, 100, 5000))
def rms_norm(N: int, D: int) -> Any:
    return op("rms_norm", constant(N, D), [D], constant(D))


@call(N=(1, 3), C=(4, 6), HW=(1, 17, 65), GROUPS=(1, 2))
def group_norm(N: int, C: int, HW: int, GROUPS: int) -> Any:
    x, w, b = constant(N, C, HW), constant(C), constant(C)
    y, mean, rstd = op("group_norm", x, w, b, N, C, HW, GROUPS, 1e-5)
    return op(
        "group_norm_backward", constant(N, C, HW), x, mean, rstd, w, N, C, HW, GROUPS, [True, True, True]
    )


@call(N=(1, 3), C=(1, 5), HW=(17, 60))
def batch_norm(N: int, C: int, HW: int) -> Any:
    x, w = constant(N, C, HW), constant(C)
    y, mean, invstd = op("batch_norm", x, w, constant(C), constant(C), constant(C).abs(), True, 0.1, 1e-5)
    return op(
        "batch_norm_backward",
        constant(N, C, HW),
        x,
        w,
        constant(C),
        constant(C).abs(),
        mean,
        invstd,
        True,
        1e-5,
        [True] * 3,
    )


@call(M=(1, 17, 65), N=(60,), DIM=(0, 1))
def weight_norm(M: int, N: int, DIM: int) -> Any:
    v, g = constant(M, N), constant(M, 1) if DIM == 0 else constant(1, N)
    w, norm = op("weight_norm_interface", v, g, DIM)
    return op("weight_norm_interface_backward", constant(M, N), v, g, norm, DIM)


@call(N=(1, 17, 65), ORD=(0, 1, 2, 3, float("inf")))
def vector_norm(N: int, ORD: float) -> Any:
    return op("vector_norm", constant(N, 60), ORD, [1]), op("vector_norm", constant(N, 60), ORD)


@call(N=(1, 17), V=(10,), D=(60, 100), PADDING=(-1, 3))
def embedding(N: int, V: int, D: int, PADDING: int) -> Any:
    ids = integers(V, 2, N)
    op("embedding", constant(V, D), ids, PADDING)
    return op("embedding_backward", constant(2, N, D), ids, V, PADDING)


@call(N=(1, 17, 65), C=(5, 100), REDUCTION=(0, 1, 2))
def nll_loss(N: int, C: int, REDUCTION: int) -> Any:
    x, target = constant(N, C), integers(C, N)
    weight = constant(C).abs()
    loss, total = op("nll_loss_forward", x, target, weight, REDUCTION, -100)
    grad = constant(N) if REDUCTION == 0 else constant()
    return op("nll_loss_backward", grad, x, target, weight, REDUCTION, -100, total)


@call(N=(1, 2), C=(5,), D=(3, 17), REDUCTION=(0, 1))
def nll_loss2d(N: int, C: int, D: int, REDUCTION: int) -> Any:
    x, target = constant(N, C, D, D), integers(C, N, D, D)
    loss, total = op("nll_loss2d_forward", x, target, None, REDUCTION, -100)
    grad = constant(N, D, D) if REDUCTION == 0 else constant()
    return op("nll_loss2d_backward", grad, x, target, None, REDUCTION, -100, total)


@call(N=(1, 17, 1000, 5000), REDUCTION=(0, 1, 2))
def mse_loss(N: int, REDUCTION: int) -> Any:
    return op("mse_loss", constant(N), constant(N), REDUCTION)


@call(SHAPE=((17,), (3, 65)), DIM=(0, -1), K=(1, 3))
def topk(SHAPE: tuple[int, ...], DIM: int, K: int) -> Any:
    return op("topk", constant(*SHAPE), K, -1)


@call(SHAPE=((17,), (3, 65), (2, 300)), DESCENDING=(False, True))
def sort(SHAPE: tuple[int, ...], DESCENDING: bool) -> Any:
    return op("sort", constant(*SHAPE), -1, DESCENDING)


@call(N=(1, 17, 300))
def unique(N: int) -> Any:
    return op("_unique2", integers(5, N), True, True, True)


@call(N=(0, 1, 17, 300))
def nonzero(N: int) -> Any:
    return op("nonzero", integers(2, N, 3))


@call(N=(1, 17, 300))
def masked(N: int) -> Any:
    x, mask = constant(N, 3), integers(2, N, 3).bool()
    return op("masked_select", x, mask), op("masked_fill", x, mask, 1.0)


@call(N=(1, 17, 300))
def masked_scatter(N: int) -> Any:
    return op("masked_scatter", constant(N, 3), integers(2, N, 3).bool(), constant(N, 3))


@call(N=(1, 17), D=(60, 100), DIM=(0, 1))
def gather_and_scatter(N: int, D: int, DIM: int) -> Any:
    x, index = constant(N, D), integers(N if DIM == 0 else D, N, D)
    op("gather", x, DIM, index)
    if DIM == 1:
        index = torch.stack([torch.randperm(D) for _ in range(N)])  # each place once
    return op(
        "scatter",
        x,
        1 if DIM == 1 else 0,
        index if DIM == 1 else torch.arange(N).unsqueeze(1).expand(N, D).contiguous(),
        constant(N, D),
    )


@call(N=(1, 17), D=(60,), DIM=(0, 1))
def index_select_and_add(N: int, D: int, DIM: int) -> Any:
    x = constant(N, D)
    index = torch.randperm(x.shape[DIM])
    y = op("index_select", x, DIM, index)
    return op("index_add", x, DIM, index, y, 2)


@call(N=(1, 17), D=(60,), ACCUMULATE=(False, True))
def index_put(N: int, D: int, ACCUMULATE: bool) -> Any:
    x = constant(N, D)
    op("index", x, [torch.randperm(N)])
    return op("index_put", x, [torch.randperm(N)], constant(N, D), ACCUMULATE)


@call(N=(1, 17, 65), DIAGONAL=(-1, 0, 3), NAME=("tril", "triu"))
def triangle(N: int, DIAGONAL: int, NAME: str) -> Any:
    return op(NAME, constant(N, 60), DIAGONAL)


@call(N=(1, 17), DIAGONAL=(-2, 0, 3))
def diag(N: int, DIAGONAL: int) -> Any:
    return op("diag", constant(N), DIAGONAL), op("diag_embed", constant(3, N), DIAGONAL)


@call(N=(1, 17, 65), DIM=(0, 1))
def join(N: int, DIM: int) -> Any:
    parts = [constant(N, 60), constant(N, 60)]
    return op("cat", parts, DIM), op("stack", parts, DIM), op("hstack", parts), op("vstack", parts)


@call(N=(1, 17), REPEATS=(1, 3))
def repeat(N: int, REPEATS: int) -> Any:
    x = constant(N, 60)
    op("repeat", x, [REPEATS, 2])
    op("tile", x, [REPEATS, 2])
    op("repeat_interleave_self_int", x, REPEATS, 0)
    return op("repeat_interleave_self_tensor", x, integers(3, N), 0)


@call(N=(1, 17), SHIFTS=(1, -3))
def roll_and_flip(N: int, SHIFTS: int) -> Any:
    x = constant(N, 60)
    return op("roll", x, [SHIFTS], [1]), op("flip", x, [1])


@call(N=(3, 17), PAD=((1, 2), (2, 1, 0, 3)), MODE=("constant", "reflect", "replicate", "circular"))
def pad(N: int, PAD: tuple[int, ...], MODE: str) -> Any:
    return op(
        "pad",
        constant(2, 3, N, N) if len(PAD) == 4 else constant(2, 3, N),
        list(PAD),
        MODE,
        0.0 if MODE == "constant" else None,
    )


@call(N=(2, 17, 60), DIM=(0, 1), START=(0, 1))
def slices(N: int, DIM: int, START: int) -> Any:
    x = constant(N, 60)
    part = torch.narrow(x, DIM, START, x.shape[DIM] - START)[::2] if DIM == 0 else x[:, START::2]
    op("slice_scatter", x, torch.randn_like(part).contiguous(), DIM, START, x.shape[DIM], 2)
    op("select_scatter", x, constant(60) if DIM == 0 else constant(N), DIM, 1)
    return op(
        "slice_backward", torch.randn_like(part).contiguous(), list(x.shape), DIM, START, x.shape[DIM], 2
    )


@call(SIZE=(0, 1, 3), STEP=(1, 2), N=(5, 16))
def unfold_backward(SIZE: int, STEP: int, N: int) -> Any:
    x = constant(2, N).unfold(1, SIZE, STEP)
    return op("unfold_backward", torch.randn(x.shape), [2, N], 1, SIZE, STEP)


@call(N=(5, 17), K=(2, 3), STRIDE=(1, 2), PADDING=(0, 1))
def max_pool(N: int, K: int, STRIDE: int, PADDING: int) -> Any:
    x = constant(2, 3, N, N + 1)
    y, indices = op("max_pool2d_with_indices", x, [K, K], [STRIDE, STRIDE], [PADDING, PADDING])
    return op(
        "max_pool2d_backward",
        torch.randn(y.shape),
        x,
        indices,
        [K, K],
        [STRIDE, STRIDE],
        [PADDING, PADDING],
        [1, 1],
        False,
    )


@call(N=(5, 17), K=(2, 3), STRIDE=(1, 2), PADDING=(0, 1), CEIL=(False, True))
def avg_pool(N: int, K: int, STRIDE: int, PADDING: int, CEIL: bool) -> Any:
    x = constant(2, 3, N, N + 1)
    y = op("avg_pool2d", x, [K, K], [STRIDE, STRIDE], [PADDING, PADDING], CEIL)
    return op(
        "avg_pool2d_backward",
        torch.randn(y.shape),
        x,
        [K, K],
        [STRIDE, STRIDE],
        [PADDING, PADDING],
        CEIL,
        True,
        None,
    )


@call(N=(5, 17), C=(3, 4), K=(1, 3), STRIDE=(1, 2), PADDING=(0, 1), GROUPS=(1,))
def conv2d(N: int, C: int, K: int, STRIDE: int, PADDING: int, GROUPS: int) -> Any:
    return op(
        "conv2d",
        constant(2, C, N, N + 1),
        constant(5, C // GROUPS, K, K),
        constant(5),
        STRIDE,
        PADDING,
        1,
        GROUPS,
    )


@call(N=(5, 17), K=(1, 3), STRIDE=(1, 2), PADDING=(0, 1))
def conv1d(N: int, K: int, STRIDE: int, PADDING: int) -> Any:
    return op("conv1d", constant(2, 3, N), constant(5, 3, K), constant(5), STRIDE, PADDING)


@call(N=(5,), K=(1, 3), STRIDE=(1, 2), PADDING=(0, 1))
def conv3d(N: int, K: int, STRIDE: int, PADDING: int) -> Any:
    return op("conv3d", constant(1, 3, N, N, N), constant(5, 3, K, K, K), constant(5), STRIDE, PADDING)


@call(
    NAME=("upsample_nearest1d", "upsample_nearest2d", "upsample_linear1d", "upsample_bicubic2d"),
    N=(1, 5, 17),
    OUT=(3, 10),
)
def upsample(NAME: str, N: int, OUT: int) -> Any:
    two = NAME.endswith("2d")
    x = constant(2, 3, N, N) if two else constant(2, 3, N)
    more = (False,) if NAME in ("upsample_linear1d", "upsample_bicubic2d") else ()
    return op(NAME, x, [OUT, OUT] if two else [OUT], *more)


@call(T=(1, 17, 65), D=(64, 96), CAUSAL=(False, True))
def attention(T: int, D: int, CAUSAL: bool) -> Any:
    q, k, v = (constant(1, 2, T, D, dtype=torch.float16) for _ in range(3))
    return op("scaled_dot_product_attention", q, k, v, None, 0.0, CAUSAL)


@call(LENS=((1, 17, 46), (63, 1, 65)), D=(64, 96), CAUSAL=(False, True))
def attention_packed(LENS: tuple[int, ...], D: int, CAUSAL: bool) -> Any:
    q, k, v = (constant(sum(LENS), 2, D, dtype=torch.float16) for _ in range(3))
    at = offsets(*LENS).to(torch.int32)
    return op("flash_attn_varlen_func", q, k, v, max(LENS), at, max(LENS), at, causal=CAUSAL)


@call(NAME=("gelu", "silu", "sigmoid", "tanh", "threshold", "glu", "elu"), N=(1, 17))
def activation_backward(NAME: str, N: int) -> Any:
    grad, x = constant(N, 60), constant(N, 60)
    if NAME == "glu":
        return op("glu_backward", constant(N, 30), x, -1)
    more: tuple[Any, ...] = {"threshold": (0.5,), "elu": (1.0, 1.0, 1.0, False)}.get(NAME, ())
    if NAME == "elu":
        return op("elu_backward", grad, *more, x)
    return op(f"{NAME}_backward", grad, x, *more)


@call(NAME=("arange", "eye", "linspace", "zeros", "ones", "full", "randn", "randperm"), N=(0, 1, 17, 1000))
def creation(NAME: str, N: int) -> Any:
    more: tuple[Any, ...] = {"full": (2.0,)}.get(NAME, ())
    if NAME == "linspace":
        return op(NAME, 0, 1, N, device=DEVICE)
    size: Any = N if NAME in ("arange", "eye", "randperm") else [N, 3]
    return op(NAME, size, *more, device=DEVICE)


@call(M=(1, 17), N=(3, 60))
def kron(M: int, N: int) -> Any:
    return op("kron", constant(M, N), constant(3, 5))


@call(N=(1, 17), Q=(1, 3))
def quantile(N: int, Q: int) -> Any:
    return op("quantile", constant(N, 60), torch.rand(Q), 1)


@call(N=(1, 17), C=(3, 60))
def one_hot_and_isin(N: int, C: int) -> Any:
    return op("one_hot", integers(C, N), C), op("isin", integers(C, N), integers(C, 3))


@call(N=(16, 65), P=(0.1, 0.5))
def dropout(N: int, P: float) -> Any:
    y, mask = op("dropout", constant(N, 60), P, True)
    return op("dropout_backward", constant(N, 60), mask, 1 / (1 - P))


@call(M=(1, 17, 65), GROUP=(32, 64))
def quantize_per_group(M: int, GROUP: int) -> Any:
    return op("per_token_group_quant_fp8", constant(M, 128), GROUP)


@call(N=(1, 17, 65), NAME=("trace", "diagonal"))
def diagonal(N: int, NAME: str) -> Any:
    if NAME == "trace":
        return op("trace", constant(N, 60))
    return op("diagonal_backward", constant(min(N, 60)), [N, 60], 0, 0, 1)


@call(R=(2, 3), N=(2, 5))
def pixel_unshuffle(R: int, N: int) -> Any:
    return op("pixel_unshuffle", constant(2, 3, N * R, N * R), R)


def fused(name: str, *given: Any, **named: Any) -> Any:
    import importlib

    for module in ("", *_FUSED):
        found = getattr(importlib.import_module(f"flag_gems.fused{module}"), name, None)
        if callable(found):
            return found(*given, **named)
    raise AttributeError(f"flag_gems.fused has no {name}")


_FUSED = (".mhc",)


@call(N=(1, 17), D=(60, 100, 5000))
def fused_norms(N: int, D: int) -> Any:
    x, r, w, b = constant(N, D), constant(N, D), constant(D), constant(D)
    return fused("fused_add_rms_norm", x, r, [D], w), fused(
        "skip_layer_norm", x.clone(), r.clone(), [D], w, b
    )


@call(N=(1, 3), C=(1, 5), HW=(1, 17, 60))
def instance_norm(N: int, C: int, HW: int) -> Any:
    return fused("instance_norm", leaf(N, C, HW), leaf(C), leaf(C), constant(C), constant(C).abs())


@call(N=(1, 17, 65), C=(5, 100), REDUCTION="mean sum none", SMOOTHING=(0.0, 0.1))
def fused_cross_entropy(N: int, C: int, REDUCTION: str, SMOOTHING: float) -> Any:
    return fused(
        "cross_entropy_loss", leaf(N, C), integers(C, N), constant(C).abs(), REDUCTION, -100, SMOOTHING
    )


@call(N=(1, 17), D=(60, 100), NAME="geglu reglu swiglu")
def gated(N: int, D: int, NAME: str) -> Any:
    x = constant(N, 2 * D)
    return fused(NAME, x), fused(f"d{NAME}", constant(N, D), x)


@call(N=(1, 17), D=(60, 100), NAME="gelu_and_mul silu_and_mul")
def gated_pair(N: int, D: int, NAME: str) -> Any:
    return fused(NAME, leaf(N, D), leaf(N, D))


@call(T=(1, 17), H=(1, 3), D=(48, 60, 96), INTERLEAVED=(False, True))
def rotary(T: int, H: int, D: int, INTERLEAVED: bool) -> Any:
    q, k = constant(2, T, H, D), constant(2, T, 1, D)
    return fused("apply_rotary_pos_emb", q, k, constant(T, D // 2), constant(T, D // 2), None, INTERLEAVED)


@call(N=(1, 17, 1000), BINS=(5, 100))
def bincount(N: int, BINS: int) -> Any:
    return fused("bincount", integers(BINS, N)), fused("bincount", integers(BINS, N), constant(N), BINS + 3)


@call(N=(1, 17), EXPERTS=(4, 60), K=(1, 3))
def topk_softmax(N: int, EXPERTS: int, K: int) -> Any:
    indices = [torch.empty(N, K, dtype=torch.int32) for _ in range(2)]
    return fused("topk_softmax", torch.empty(N, K), *indices, constant(N, EXPERTS))


@call(N=(1, 17, 65), EXPERTS=(4, 5), K=(1, 2), BLOCK=(16, 32))
def moe_align_block_size(N: int, EXPERTS: int, K: int, BLOCK: int) -> Any:
    return fused("moe_align_block_size", integers(EXPERTS, N, K).to(torch.int32), BLOCK, EXPERTS)


@call(N=(1, 17), K=(1, 2, 3), D=(60, 100))
def moe_sum(N: int, K: int, D: int) -> Any:
    return fused("moe_sum", constant(N, K, D), torch.empty(N, D))


@call(N=(1, 17), EXPERTS=(16, 24), GROUPS=(2, 4))
def grouped_topk(N: int, EXPERTS: int, GROUPS: int) -> Any:
    return fused("grouped_topk", constant(N, EXPERTS), GROUPS, 1, 2, True, 1.0, constant(EXPERTS))


@call(N=(1, 17), H=(1, 3), D=(60, 64), BLOCK=(8, 16), FLASH=(False, True))
def reshape_and_cache(N: int, H: int, D: int, BLOCK: int, FLASH: bool) -> Any:
    key, value = constant(N, H, D), constant(N, H, D)
    slots = torch.randperm(4 * BLOCK)[:N]
    slots[0] = -1
    one = torch.ones(1)
    if FLASH:
        caches = torch.zeros(4, BLOCK, H, D), torch.zeros(4, BLOCK, H, D)
        return fused("reshape_and_cache_flash", key, value, *caches, slots, "auto", one, one)
    caches = torch.zeros(4, H, D // 4, BLOCK, 4), torch.zeros(4, H, D, BLOCK)
    return fused("reshape_and_cache", key, value, *caches, slots, "auto", one, one)


@call(N=(1, 17), V=(100, 5000))
def repetition_penalties(N: int, V: int) -> Any:
    masks = integers(2, N, V).bool(), integers(2, N, V).bool()
    return fused("apply_repetition_penalties", constant(N, V), *masks, constant(N).abs())


@call(M=(1, 17), N=(3, 60))
def outer(M: int, N: int) -> Any:
    return fused("outer", leaf(M), leaf(N))


@call(N=(1, 17), C=(2, 5), DIM=(0, 1))
def fused_weight_norm(N: int, C: int, DIM: int) -> Any:
    return fused("weight_norm", leaf(N, C), leaf(N, 1) if DIM == 0 else leaf(1, C), DIM)


@call(T=(1, 17), H=(2,), N=(48, 64))
def rwkv(T: int, H: int, N: int) -> Any:
    c = H * N
    return fused("rwkv_ka_fusion", constant(T, c), constant(c), constant(T, c), constant(c), H, N)


@call(N=(2, 17, 65), PAD=((1, 2), (0, 3)), NAME="replication_pad1d reflection_pad1d")
def pads(N: int, PAD: tuple[int, int], NAME: str) -> Any:
    return op(NAME, constant(2, 3, N), PAD)


@call(N=(3, 17), NAME="replication_pad3d reflection_pad2d")
def pads_of_more(N: int, NAME: str) -> Any:
    if NAME == "replication_pad3d":
        return op(NAME, constant(2, 3, N, N, N), (1, 0, 2, 1, 0, 1))
    return op(NAME, constant(2, 3, N, N), (1, 0, 2, 1))


@call(N=(1, 17, 65), D=(1, 60))
def losses(N: int, D: int) -> Any:
    x, y = constant(N, D), constant(N, D)
    op("soft_margin_loss", x, y.sign())
    return op("margin_ranking_loss", x, y, y.sign())


@call(N=(1, 17, 65), C=(3, 60))
def trivial(N: int, C: int) -> Any:
    x = constant(N, C)
    op("unique_consecutive", integers(3, N))
    op("threshold", x, 0.1, 2.0), op("softshrink", x), op("celu", x, 1.0), op("glu", constant(N, 2 * C), -1)
    return op("diag", constant(N, C)), op("t_copy", x), op("one_hot", integers(C, N), C)


@call(D=(1, 2, 60, 64), N=(1, 17))
def hadamard_transform(D: int, N: int) -> Any:
    return op("hadamard_transform", constant(N, D), 1.0)


@call(G=(1, 3), M=(1, 17), K=(16, 60), N=(48,))
def group_mm(G: int, M: int, K: int, N: int) -> Any:
    ends = torch.arange(1, G + 1, dtype=torch.int32) * M
    return op(
        "group_mm", constant(G * M, K, dtype=torch.bfloat16), constant(G, K, N, dtype=torch.bfloat16), ends
    )


@call(N=(1, 5), C=(3,), OUT=(3, 10), NAME="upsample_nearest3d _upsample_bicubic2d_aa")
def more_upsample(N: int, C: int, OUT: int, NAME: str) -> Any:
    if NAME == "upsample_nearest3d":
        return op(NAME, constant(1, C, N, N, N), [OUT, OUT, OUT])
    return op(NAME, constant(1, C, N, N), [OUT, OUT], False)


@call(N=(5, 17), C=(2, 3), K=(3,), STRIDE=(1, 2))
def depthwise(N: int, C: int, K: int, STRIDE: int) -> Any:
    return op(
        "_conv_depthwise2d",
        constant(2, C, N, N),
        constant(C, 1, K, K),
        [K, K],
        constant(C),
        [STRIDE] * 2,
        [1, 1],
        [1, 1],
    )


@call(N=(5, 17), START=(0, 2, -3), STEP=(1, 2))
def slice_backward_to_the_end(N: int, START: int, STEP: int) -> Any:
    """As `x[START::STEP]` calls it: the end is the largest integer."""
    x = constant(N, 6)
    return op("slice_backward", torch.randn_like(x[START % N :: STEP]), [N, 6], 0, START, 2**63 - 1, STEP)
