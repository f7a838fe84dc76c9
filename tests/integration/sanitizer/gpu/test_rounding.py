"""How far a device's own approximations are from IEEE's: inside of what the sanitizer takes for granted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from kerncap.sanitizer.concrete.rounding import approximation_error

pytestmark = pytest.mark.gpu

BLOCK = 1024
STEP = 2.0**-23
POINTS = 1 << 24


@triton.jit
def approximate(x, y, out, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + lane, lane < n, other=1.0)
    if HOW == "arith.divf":
        result = a / tl.load(y + lane, lane < n, other=1.0)
    elif HOW == "math.sqrt":
        result = tl.sqrt(a)
    elif HOW == "math.rsqrt":
        result = tl.rsqrt(a)
    elif HOW == "math.exp":
        result = tl.exp(a)
    elif HOW == "math.exp2":
        result = tl.exp2(a)
    elif HOW == "math.log":
        result = tl.log(a)
    else:
        result = tl.log2(a)
    tl.store(out + lane, result, lane < n)


REFERENCE: dict[str, Any] = {
    "arith.divf": np.divide, "math.sqrt": np.sqrt, "math.rsqrt": lambda x: 1.0 / np.sqrt(x),
    "math.exp": np.exp, "math.exp2": np.exp2, "math.log": np.log, "math.log2": np.log2,
}  # fmt: skip


def operands(name: str, count: int) -> list[Any]:
    """Positive floats of every exponent, subnormal ones too; for exponentials, what does not overflow."""
    random = np.random.default_rng(7)
    if name in ("math.exp", "math.exp2"):
        most = 88.0 if name == "math.exp" else 127.5
        return [random.uniform(-1.2 * most, most, count).astype(np.float32)]
    bits = random.integers(1, 0x7F800000, count, dtype=np.int32)
    dense = random.uniform(0.5, 2.0, count // 4).astype(np.float32)  # where a logarithm is small
    x = np.concatenate([bits.view(np.float32)[: count - dense.size], dense])
    return [x, random.permutation(x)] if name == "arith.divf" else [x]


def shares_of_the_bound(name: str, device: str, count: int) -> Any:
    """For each operand, the error that the device makes as a share of the error that it may make."""
    given = operands(name, count)
    x = torch.from_numpy(given[0]).to(device)
    out = torch.empty_like(x)
    y = torch.from_numpy(given[-1]).to(device)
    approximate[(triton.cdiv(count, BLOCK),)](x, y, out, count, HOW=name, BLOCK=BLOCK)
    found = out.cpu().numpy().astype(np.float64)
    wide = [one.astype(np.float64) for one in given]
    with np.errstate(all="ignore"):
        exact = REFERENCE[name](*wide)
        # The evaluator's own result is that, rounded to a float32.
        rounded = exact.astype(np.float32).astype(np.float64)
        bound = approximation_error(name, rounded, wide[0], STEP)
        share = np.abs(found - rounded) / bound
    share[~np.isfinite(rounded) | np.isinf(bound)] = 0.0  # nothing is taken for granted there
    # At the largest float a result may round to infinity: the next float is one rounding away.
    share[np.isinf(found) & (np.abs(rounded) > 3.4e38)] = 0.0
    return share


@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_a_devices_error_is_inside_of_the_bound(name: str) -> None:
    share = shares_of_the_bound(name, "cuda", POINTS)
    at = int(np.nanargmax(share))
    print(f"{name}: {share[at]:.3f} of the bound at {operands(name, POINTS)[0][at]!r}")
    assert not np.isnan(share).any()
    assert share[at] <= 1.0
