"""Three autotuned kernels at three shapes each: `tune_kernels.py KERNEL MODE [FILE]`.

``counted`` launches each shape with an autotuner that takes the first configuration (to be captured);
``autotune`` lets Triton's autotuner choose, as it does (25 ms warm-up, 100 ms of runs), and prints what;
``compare`` times the configurations of FILE (a JSON list by shape of lists) in turns, and prints that.
"""

import json
import os
import statistics
import sys
from pathlib import Path

import torch

ON_DEVICE = torch.cuda.is_available()
if not ON_DEVICE:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when it is imported

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

DEVICE = "cuda" if ON_DEVICE else "cpu"
COUNTED = len(sys.argv) > 2 and sys.argv[2] == "counted"
calls = []


def first_wins(call, quantiles):
    call()
    calls.append(1)
    return [float(len(calls))] * len(quantiles)


def tuned(configs, key):
    extra = {"do_bench": first_wins} if COUNTED else {}
    return triton.autotune(configs=configs, key=key, **extra)


MATMUL = [
    triton.Config({"BM": m, "BN": n, "BK": k, "GROUP": 8}, num_warps=w, num_stages=s)
    for m, n, k, w, s in (
        (64, 64, 32, 4, 3), (64, 64, 64, 4, 4), (64, 128, 32, 4, 4), (64, 128, 64, 4, 3), (64, 256, 32, 4, 4),
        (128, 64, 32, 4, 4), (128, 64, 64, 4, 4), (128, 128, 32, 4, 4), (128, 128, 32, 8, 3),
        (128, 128, 64, 4, 3), (128, 128, 64, 8, 3), (128, 128, 64, 8, 4), (128, 256, 32, 8, 3),
        (128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (256, 64, 32, 4, 4), (256, 128, 32, 8, 3),
        (256, 128, 64, 8, 3), (256, 128, 64, 8, 4), (64, 32, 64, 4, 5), (32, 64, 64, 4, 5),
        (64, 256, 64, 8, 3), (32, 128, 64, 4, 4), (128, 32, 64, 4, 4),
    )
]  # fmt: skip
SOFTMAX = [
    triton.Config({"BLOCK": block}, num_warps=w, num_stages=s)
    for block in (512, 1024, 2048, 4096, 8192) for w in (4, 8, 16) for s in (2, 3)
]  # fmt: skip
ATTENTION = [
    triton.Config({"BM": m, "BN": n}, num_warps=w, num_stages=s)
    for m in (64, 128) for n in (32, 64, 128) for w in (4, 8) for s in (2, 3)
]  # fmt: skip


@tuned(MATMUL, ["M", "N", "K"])
@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    width = GROUP * tiles_n
    group = pid // width
    size = min(tiles_m - group * GROUP, GROUP)
    tile_m = group * GROUP + (pid % width) % size
    tile_n = (pid % width) // size
    rows = (tile_m * BM + tl.arange(0, BM)) % M
    columns = (tile_n * BN + tl.arange(0, BN)) % N
    inner = tl.arange(0, BK)
    a_at = a_ptr + rows[:, None] * K + inner[None, :]
    b_at = b_ptr + inner[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(tl.cdiv(K, BK)):
        a = tl.load(a_at, mask=inner[None, :] < K - start * BK, other=0.0)
        b = tl.load(b_at, mask=inner[:, None] < K - start * BK, other=0.0)
        total = tl.dot(a, b, total)
        a_at += BK
        b_at += BK * N
    out_rows = tile_m * BM + tl.arange(0, BM)
    out_columns = tile_n * BN + tl.arange(0, BN)
    mask = (out_rows[:, None] < M) & (out_columns[None, :] < N)
    tl.store(c_ptr + out_rows[:, None] * N + out_columns[None, :], total.to(tl.float16), mask=mask)


LOWEST = tl.constexpr(-65504.0)  # of a half: -infinity less itself is not a number


@tuned(SOFTMAX, ["columns"])
@triton.jit
def softmax(out_ptr, in_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    highest = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    weight = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        here = start + offsets
        x = tl.load(in_ptr + row * columns + here, mask=here < columns, other=LOWEST).to(tl.float32)
        new = tl.maximum(highest, x)
        weight = weight * tl.exp(highest - new) + tl.exp(x - new)
        highest = new
    largest = tl.max(highest, axis=0)
    total = tl.sum(weight * tl.exp(highest - largest), axis=0)
    for start in range(0, columns, BLOCK):
        here = start + offsets
        x = tl.load(in_ptr + row * columns + here, mask=here < columns, other=LOWEST).to(tl.float32)
        tl.store(out_ptr + row * columns + here, tl.exp(x - largest) / total, mask=here < columns)


@tuned(ATTENTION, ["length"])
@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, length, DIM: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    head = tl.program_id(1) * length * DIM
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    inner = tl.arange(0, DIM)
    q = tl.load(q_ptr + head + rows[:, None] * DIM + inner[None, :], mask=rows[:, None] < length, other=0.0)
    highest = tl.full((BM,), float("-inf"), dtype=tl.float32)
    weight = tl.zeros((BM,), dtype=tl.float32)
    total = tl.zeros((BM, DIM), dtype=tl.float32)
    for start in range(0, length, BN):
        columns = start + tl.arange(0, BN)
        at = head + columns[:, None] * DIM + inner[None, :]
        k = tl.load(k_ptr + at, mask=columns[:, None] < length, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        scores = tl.where(columns[None, :] < length, scores, float("-inf"))
        new = tl.maximum(highest, tl.max(scores, axis=1))
        p = tl.exp(scores - new[:, None])
        shrink = tl.exp(highest - new)
        v = tl.load(v_ptr + at, mask=columns[:, None] < length, other=0.0)
        total = total * shrink[:, None] + tl.dot(p.to(v.dtype), v)
        weight = weight * shrink + tl.sum(p, axis=1)
        highest = new
    out = (total / weight[:, None]).to(q.dtype)
    tl.store(out_ptr + head + rows[:, None] * DIM + inner[None, :], out, mask=rows[:, None] < length)


def random(*shape):
    return torch.randn(*shape, device=DEVICE, dtype=torch.float16)


MATMULS = ((512, 512, 512), (2048, 2048, 2048), (4096, 1024, 4096)) if ON_DEVICE else ((64, 64, 64),)
SOFTMAXES = ((4096, 2000), (8192, 8192), (2048, 32000)) if ON_DEVICE else ((4, 100),)
ATTENTIONS = ((64, 1024), (32, 4096), (128, 512)) if ON_DEVICE else ((1, 64),)


def matmul_launch(m, n, k):
    a, b, c = random(m, k), random(k, n), torch.empty(m, n, device=DEVICE, dtype=torch.float16)
    return matmul, lambda META: (triton.cdiv(m, META["BM"]) * triton.cdiv(n, META["BN"]),), (a, b, c, m, n, k)


def softmax_launch(rows, columns):
    x = random(rows, columns)
    return softmax, (rows,), (torch.empty_like(x), x, columns)


def attention_launch(heads, length):
    q, k, v = (random(heads, length, 64) for _ in range(3))
    arguments = (q, k, v, torch.empty_like(q), 0.125, length, 64)
    return attention, lambda META: (triton.cdiv(length, META["BM"]), heads), arguments


def launches(kernel):
    """(function, grid, arguments) of each shape."""
    make, shapes = {
        "matmul": (matmul_launch, MATMULS), "softmax": (softmax_launch, SOFTMAXES),
        "attention": (attention_launch, ATTENTIONS),
    }[kernel]  # fmt: skip
    for shape in shapes:
        yield make(*shape)


def main() -> None:
    kernel, mode = sys.argv[1:3]
    if mode == "compare":
        wanted = json.loads(Path(sys.argv[3]).read_text())
        found = [compared(*launch, configs) for launch, configs in zip(launches(kernel), wanted, strict=True)]
        print(json.dumps(found))
        return
    chosen = []
    for function, grid, arguments in launches(kernel):
        function[grid](*arguments)
        chosen.append(function.best_config.all_kwargs())
    if ON_DEVICE:
        torch.cuda.synchronize()
    print(json.dumps({"chosen": chosen}, default=str))


def compared(function, grid, arguments, configs):
    """Median milliseconds of each configuration, in turns, with a cache that was flushed."""
    times = [[] for _ in configs]
    for _ in range(7):
        for number, config in enumerate(configs):

            def run(config=config):
                function.fn[grid](*arguments, **config)

            times[number].append(triton.testing.do_bench(run, warmup=10, rep=40, return_mode="median"))
    return [statistics.median(each) for each in times]


if __name__ == "__main__":
    main()
