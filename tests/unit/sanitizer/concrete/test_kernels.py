"""What Triton's interpreter cannot run, against numpy: library functions, mapped regions, scaled products."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.language.extra import libdevice

from kerncap.sanitizer.concrete import formats
from kerncap.sanitizer.concrete.events import AccessEvent
from kerncap.sanitizer.concrete.run import Memory, evaluate
from kerncap.sanitizer.launch import DescriptorArgument, Launch, ScalarArgument, Storage, TensorArgument
from kerncap.sanitizer.ttir import read_module
from tests.unit.sanitizer.compiled import ttir_of
from tests.unit.sanitizer.concrete.launches import Array, Held, bytes_after, launch_of

_random = np.random.default_rng(11)
CUDA, HIP = ("cuda", 90, 32), ("hip", "gfx942", 64)


def _last(
    kernel: Any,
    signature: Mapping[str, str],
    arguments: Mapping[str, Any],
    constants: Mapping[str, Any],
    target: tuple[str, Any, int] = CUDA,
) -> Array:
    """The last array after the launch."""
    module = read_module(ttir_of(kernel, signature, constants, target))
    launch = launch_of("", (1,), arguments)
    memory = Memory(launch)
    outcome = evaluate(module, module.kernel, launch, memory)
    assert outcome.complete, outcome.reason
    assert outcome.notes == () and outcome.unknown_contents == ()
    before = list(arguments.values())[-1]
    result: Array = bytes_after(memory)[len(launch.storages) - 1].view(before.dtype).reshape(before.shape)
    return result


@triton.jit
def library(x_ptr, out_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, libdevice.tanh(x) + libdevice.erf(x) * libdevice.pow(x, x))


def test_library_functions_of_both_vendors() -> None:
    x = _random.random(16).astype("f4") + 0.1
    wanted = np.tanh(x) + np.array([math.erf(v) for v in x]) * x**x
    for target in (CUDA, HIP):
        found = _last(
            library,
            {"x_ptr": "*fp32", "out_ptr": "*fp32"},
            {"x": x, "out": np.zeros(16, "f4")},
            {"B": 16},
            target,
        )
        np.testing.assert_allclose(found, wanted, 1e-5)


@triton.jit
def _gap(a, b):
    if a > b:
        return a - b
    else:
        return b * 2


@triton.jit
def _crossed(a0, a1, b0, b1):
    return a0 + b1, a1 - b0, a0 * 2, b1 * 3


@triton.jit
def mapped(x_ptr, y_ptr, out_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(out_ptr + i, tl.map_elementwise(_gap, x, y))
    u, v = tl.map_elementwise(_crossed, x, y, pack=2)
    tl.store(out_ptr + B + i, u)
    tl.store(out_ptr + 2 * B + i, v)


def test_mapped_regions_branch_by_element() -> None:
    x, y = _random.random(16).astype("f4"), _random.random(16).astype("f4")
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32"}
    found = _last(mapped, signature, {"x": x, "y": y, "out": np.zeros((3, 16), "f4")}, {"B": 16})
    np.testing.assert_array_equal(found[0], np.where(x > y, x - y, y * 2))
    np.testing.assert_array_equal(found[1, ::2], x[::2] + y[1::2])
    np.testing.assert_array_equal(found[1, 1::2], x[1::2] - y[::2])
    np.testing.assert_array_equal(found[2, 1::2], y[1::2] * 3)


@triton.jit
def scaled(a_ptr, b_ptr, p_ptr, q_ptr, out_ptr):
    i = tl.arange(0, 64)
    j = tl.arange(0, 32)
    k = tl.arange(0, 2)
    a = tl.load(a_ptr + j[:, None] * 64 + i[None, :])
    b = tl.load(b_ptr + i[:, None] * 32 + j[None, :])
    p = tl.load(p_ptr + j[:, None] * 2 + k[None, :])
    q = tl.load(q_ptr + j[:, None] * 2 + k[None, :])
    tl.store(out_ptr + j[:, None] * 32 + j[None, :], tl.dot_scaled(a, p, "e4m3", b, q, "e5m2"))


def test_scaled_products() -> None:
    a = _random.integers(0, 126, (32, 64)).astype("u1")
    b = _random.integers(0, 123, (64, 32)).astype("u1")
    p = _random.integers(120, 132, (32, 2)).astype("u1")
    q = _random.integers(120, 132, (32, 2)).astype("u1")
    signature = {"a_ptr": "*fp8e4nv", "b_ptr": "*fp8e5", "p_ptr": "*u8", "q_ptr": "*u8", "out_ptr": "*fp32"}
    out = np.zeros((32, 32), "f4")
    found = _last(scaled, signature, {"a": a, "b": b, "p": p, "q": q, "out": out}, {})
    left = formats.decode(a, "f8E4M3FN") * np.repeat(2.0 ** (p.astype(int) - 127), 32, axis=1)
    right = formats.decode(b, "f8E5M2") * np.repeat(2.0 ** (q.astype(int) - 127), 32, axis=1).T
    np.testing.assert_allclose(found, left @ right, 1e-5)


HOST = """
module {
  tt.func public @kernel(
    %d: !tt.tensordesc<4x4xf32>, %h: i32, %w: i32, %s: i64, %t: i64, %out: !tt.ptr<f32>
  ) {
    %zero = arith.constant 0 : i32
    %two = arith.constant 2 : i32
    %v = tt.descriptor_load %d[%two, %zero] : !tt.tensordesc<4x4xf32> -> tensor<4x4xf32>
    tt.descriptor_reduce add, %d[%zero, %two], %v : !tt.tensordesc<4x4xf32>, tensor<4x4xf32>
    tt.return
  }
}
"""


class _Touched:
    def __init__(self) -> None:
        self.events: list[AccessEvent] = []

    def access(self, event: AccessEvent) -> None:
        self.events.append(event)


def test_a_host_descriptor_has_a_shape_of_its_own() -> None:
    x = np.arange(30, dtype="f4").reshape(5, 6)  # the descriptor sees 3 rows of 5
    storages = (Storage(4096, 120, 4096, 120, "d"), Storage(8192, 64, 8192, 64, "out"))
    tensor = TensorArgument("d", 0, 4096, "float32", 4, (5, 6), (6, 1))
    arguments = (
        DescriptorArgument("d", tensor, (3, 5), (6, 1), (4, 4)),
        *(ScalarArgument(name, value) for name, value in (("h", 3), ("w", 5), ("s", 6), ("t", 1))),
        TensorArgument("out", 1, 8192, "float32", 4, (16,), (1,)),
    )
    launch = Launch("kernel", HOST, (1, 1, 1), arguments, storages, Held([x, np.zeros(16, "f4")]))
    module, memory, touched = read_module(HOST), Memory(launch), _Touched()
    outcome = evaluate(module, module.kernel, launch, memory, observer=touched)
    assert outcome.complete, outcome.reason
    load, reduce = touched.events
    assert load.argument == 0 and load.kind == "load" and reduce.kind == "atomic"
    assert (load.offsets[load.mask] // 4).tolist() == [12, 13, 14, 15]
    assert (reduce.offsets[reduce.mask] // 4).tolist() == [2, 3, 4, 8, 9, 10, 14, 15, 16]
    after = bytes_after(memory)[0].view("f4").reshape(5, 6)
    wanted = x.copy()
    wanted[0, 2:5] += x[2, 0:3]
    np.testing.assert_array_equal(after, wanted)
