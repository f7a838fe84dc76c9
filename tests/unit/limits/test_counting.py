"""A launch's bytes and operations, held against those of every program run one by one."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import numpy as np
import pytest

from kerncap.api.limits.alike_programs import representatives
from kerncap.api.limits.counting import count
from kerncap.replay.limits.launch_work import SECTOR_BYTES, Work
from kerncap.sanitizer.concrete.dataflow import Dataflow
from kerncap.sanitizer.concrete.events import AccessEvent
from kerncap.sanitizer.concrete.machine import Limits, Machine
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.plan import STEPS
from kerncap.sanitizer.concrete.run import evaluate
from kerncap.sanitizer.concrete.values import shape_of
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.paged_bytes import PagedBytes
from kerncap.sanitizer.ttir import read_module
from tests.unit.limits import kernels
from tests.unit.sanitizer.compiled import launch_of


@dataclasses.dataclass(frozen=True)
class Held:
    """Contents of the storages by name; the others are zeros."""

    launch: Launch
    values: dict[str, np.ndarray[Any, Any]]

    def read(self, storage: int) -> PagedBytes | None:
        described = self.launch.storages[storage]
        given = self.values.get(described.name)
        return PagedBytes.of(np.zeros(described.size_bytes, dtype=np.uint8) if given is None else given)

    def unwritten(self, storage: int) -> None:
        return None


def with_contents(launch: Launch, **values: np.ndarray[Any, Any]) -> Launch:
    return dataclasses.replace(launch, contents=Held(launch, values))


def vector_add(n: int = 1000, block: int = 128) -> Launch:
    signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}
    grid = (-(-n // block),)
    return launch_of(kernels.add, grid, signature, {"BLOCK": block}, x=(n,), y=(n,), out=(n,), n=n)


def softmax() -> Launch:
    signature = {"x": "*fp32", "out": "*fp32", "stride": "i32", "columns": "i32"}
    return launch_of(
        kernels.softmax, (24,), signature, {"BLOCK": 128}, x=(24, 112), out=(24, 112), stride=112, columns=100
    )


def matmul(m: int = 70, n: int = 48, k: int = 100) -> Launch:
    signature = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "M": "i32", "N": "i32", "K": "i32"}
    blocks = {"BM": 32, "BN": 16, "BK": 32, "GROUP": 2}
    grid = (-(-m // 32) * -(-n // 16),)
    return launch_of(kernels.matmul, grid, signature, blocks, a=(m, k), b=(k, n), c=(m, n), M=m, N=n, K=k)


def attention(length: int = 100) -> Launch:
    signature = {"q": "*fp16", "k": "*fp16", "v": "*fp16", "out": "*fp16", "length": "i32"}
    blocks, shape = {"DIM": 16, "BM": 32, "BN": 16}, (length, 16)
    return launch_of(
        kernels.attention, (-(-length // 32),), signature, blocks, q=shape, k=shape, v=shape, out=shape,
        length=length,
    )  # fmt: skip


def gather() -> Launch:
    signature = {"x": "*fp32", "index": "*i64", "out": "*fp32", "n": "i32"}
    launch = launch_of(
        kernels.gather, (4,), signature, {"BLOCK": 64}, x=(500,), index=(200,), out=(200,), n=200
    )
    return with_contents(launch, index=np.random.default_rng(7).integers(0, 500, 200))


def ragged() -> Launch:
    signature = {"x": "*fp32", "lengths": "*i32", "out": "*fp32"}
    launch = launch_of(kernels.ragged, (6,), signature, {"BLOCK": 16}, x=(6, 256), lengths=(6,), out=(6,))
    return with_contents(launch, lengths=np.array([0, 16, 240, 33, 1, 128], dtype=np.int32))


def histogram() -> Launch:
    signature = {"x": "*i32", "bins": "*i32", "n": "i32"}
    launch = launch_of(kernels.histogram, (3,), signature, {"BLOCK": 64}, x=(150,), bins=(40,), n=150)
    return with_contents(launch, x=np.arange(150, dtype=np.int32) % 20)


CASES = [vector_add, softmax, matmul, attention, gather, ragged, histogram]


class Naive:
    """Sets of single bytes: slow, and too simple to be wrong."""

    def __init__(self, launch: Launch) -> None:
        self.memory = Memory(launch)
        self.launch = launch
        self.bytes: dict[str, set[int]] = {"read": set(), "written": set()}
        self.requested: Counter[str] = Counter()

    def access(self, event: AccessEvent) -> None:
        address = self.memory.absolute(event.argument, event.offsets)[event.mask]
        for name in {"load": ["read"], "store": ["written"]}.get(event.kind, ["read", "written"]):
            self.requested[name] += address.size * event.width_bytes
            for byte in range(event.width_bytes):
                self.bytes[name].update((address + byte).tolist())


def brute_force(launch: Launch) -> Naive:
    module = read_module(launch.ttir)
    observer = Naive(launch)
    outcome = evaluate(module, module.kernel, launch, Memory(launch), addresses_only=True, observer=observer)
    assert outcome.complete, outcome.reason
    return observer


@pytest.mark.parametrize("case", CASES)
def test_bytes_are_those_of_all_programs(case: Any) -> None:
    launch = case()
    work, naive = count(launch), brute_force(launch)
    assert work.exact, work.notes
    for name, traffic in (("read", work.read), ("written", work.written)):
        assert traffic is not None
        assert traffic.unique_bytes == len(naive.bytes[name])
        assert (
            traffic.sector_bytes == len({byte // SECTOR_BYTES for byte in naive.bytes[name]}) * SECTOR_BYTES
        )
        assert traffic.requested_bytes == naive.requested[name]
    assert sum(read for _, read, _ in work.tensors) == len(naive.bytes["read"])
    assert sum(written for _, _, written in work.tensors) == len(naive.bytes["written"])


@pytest.mark.parametrize("case", CASES)
def test_operations_are_those_that_are_executed(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operation of the full evaluation counts its executions itself."""
    launch = case()
    executed: Counter[str] = Counter()
    names = ("arith.addf", "arith.subf", "arith.mulf", "math.exp", "arith.divf", "tt.dot", "arith.truncf")
    for name in names:
        monkeypatch.setitem(STEPS, name, counting(STEPS[name], name, executed))
    module = read_module(launch.ttir)
    outcome = evaluate(module, module.kernel, launch, Memory(launch))
    assert outcome.complete, outcome.reason
    work = count(launch).operations
    assert work.get("special", 0) == executed["math.exp"] + executed["arith.divf"]
    assert work.get("tensor fp16", 0) == executed["tt.dot"]
    assert work.get("conversion", 0) == executed["arith.truncf"]
    plain = executed["arith.addf"] + executed["arith.subf"] + executed["arith.mulf"]
    assert work.get("fp32", 0) == plain + reduced(case)


def counting(build: Any, name: str, executed: Counter[str]) -> Any:
    def built(plan: Any, operation: Any) -> Any:
        step = build(plan, operation)
        shape = shape_of(operation.results[0].type)
        each = int(np.prod(shape, dtype=np.int64))
        if name == "tt.dot":
            each *= 2 * shape_of(operation.operands[0].type)[-1]

        def counted(m: Machine) -> None:
            executed[name] += each * (m.count if m.active is None else int(m.active.sum()))
            step(m)

        # An operation in a reduction's region runs once for a whole tree: it is counted by hand.
        parent = operation.parent.parent.parent
        return step if getattr(parent, "name", "") == "tt.reduce" else counted

    return built


def reduced(case: Any) -> int:
    """Additions of the sums: one less than there are elements along the axis."""
    return {softmax: 24 * 127, ragged: 6 * 15, attention: (2 + 4 + 6 + 7) * 32 * 15}.get(case, 0)


def test_flops_of_a_matrix_product() -> None:
    work = count(matmul(128, 64, 96))
    assert work.operations["tensor fp16"] == 2 * 128 * 64 * 96
    assert work.read is not None and work.read.unique_bytes == 2 * (128 * 96 + 96 * 64)
    assert work.l2_bytes == 2 * (128 * 96 * 4 + 96 * 64 * 4 + 128 * 64)  # each factor by the other's blocks
    assert work.flops == work.operations["tensor fp16"] + work.operations.get("fp32", 0)


def test_loops_run_as_often_as_their_bounds_say_for_each_program() -> None:
    work = count(attention(128))
    assert work.operations["tensor fp16"] == (2 + 4 + 6 + 8) * 2 * (2 * 32 * 16 * 16)
    assert not work.contents


@pytest.mark.parametrize("case", [gather, ragged, histogram])
def test_what_depends_on_memory_is_said(case: Any) -> None:
    assert count(case()).contents


def test_masks_and_atomics_are_counted() -> None:
    work = count(vector_add())
    assert (work.lanes, work.masked_lanes) == (3 * 1024, 3 * 24)
    assert count(histogram()).atomics == 150


def test_scattered_lanes_ask_for_whole_sectors() -> None:
    signature = {"x": "*fp32", "out": "*fp32", "rows": "i32"}
    launch = launch_of(kernels.column, (2,), signature, {"BLOCK": 64}, x=(128, 16), out=(128,), rows=128)
    work = count(launch)
    assert work.read is not None and work.written is not None
    assert (work.read.unique_bytes, work.read.sector_bytes, work.read.l2_bytes) == (512, 4096, 4096)
    assert work.written.l2_bytes == work.written.sector_bytes == 512


@pytest.mark.parametrize(
    ("precision", "kind", "times"),
    [("tf32", "tensor tf32", 1), ("tf32x3", "tensor tf32", 3), ("ieee", "fp32", 1)],
)
def test_products_of_float32_by_precision(precision: str, kind: str, times: int) -> None:
    signature = dict.fromkeys(("a", "b", "c"), "*fp32")
    launch = launch_of(
        kernels.precise, (1,), signature, {"PRECISION": precision}, a=(16, 16), b=(16, 16), c=(16, 16)
    )
    assert count(launch).operations[kind] == times * 2 * 16**3


def test_one_program_of_each_sort_stands_for_the_others() -> None:
    """Loads of a factor need one program for each of its rows of blocks, the store all of them."""
    launch = matmul(256, 128, 64)
    module = read_module(launch.ttir)
    flow = Dataflow(module, module.kernel, launch)
    found = {}
    for operation in flow.operations:
        if operation.name in ("tt.load", "tt.store"):
            programs, weights = representatives(module, module.kernel, launch, flow, operation, Limits())
            assert weights.sum() == launch.program_count == 64
            found.setdefault(operation.name, []).append(len(programs))
    assert found == {"tt.load": [8, 8], "tt.store": [64]}


def test_a_product_too_large_to_evaluate_whole_is_counted_exactly() -> None:
    m = n = k = 2048
    work: Work = count(matmul(m, n, k))
    assert work.exact, work.notes
    assert work.read is not None and work.read.unique_bytes == 2 * (m * k + k * n)
    assert work.read.requested_bytes == 2 * m * n * k // 16 + 2 * m * n * k // 32


def test_without_time_bytes_are_an_upper_bound_and_said_to_be() -> None:
    work = count(vector_add(1 << 16), seconds=0.0)
    assert not work.exact
    assert any("upper bound" in note for note in work.notes)
    assert work.read is not None and work.read.unique_bytes <= 2 * 4 << 16
