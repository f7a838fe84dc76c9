"""The memory checks on real kernels, from Triton's source to a verdict; both tiers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import triton
import triton.language as tl

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks import alignment, descriptor, promises, uninit
from kerncap.sanitizer.checks.concrete_tier import settle
from kerncap.sanitizer.findings import Proved, Unproven, Violated
from tests.unit.sanitizer.checks.memory_runs import BLOCK, accesses, copied, finding_of, settled, with_memory
from tests.unit.sanitizer.compiled import analysis_of, launch_of


@triton.jit
def gather(index, x, y, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index + offs, mask=offs < n)
    tl.store(y + offs, tl.load(x + at, mask=offs < n, other=0.0), mask=offs < n)


def gathered(indices: npt.NDArray[np.int32], **memory: Any) -> Analysis:
    launch = launch_of(
        gather, (4,), {"index": "*i32", "x": "*fp32", "y": "*fp32", "n": "i32"}, {"BLOCK": BLOCK},
        index=(256,), x=(100,), y=(256,), n=200,
    )  # fmt: skip
    return analysis_of(with_memory(launch, contents={"index": indices}, **memory))


def test_an_undefined_index_under_the_same_mask_is_harmless() -> None:
    analysis = gathered(np.arange(256, dtype=np.int32) % 100)
    for access in analysis.walked.accesses:
        assert isinstance(uninit.check(analysis, access), Proved | None), access.location  # type: ignore[arg-type]
        for check in ("uninit", "oob", "alignment", "overflow"):
            verdict = settled(analysis, access.operation, check)
            assert verdict == Proved("evaluated", contents=True)


def test_an_index_from_memory_that_leaves_the_tensor() -> None:
    indices = np.arange(256, dtype=np.int32) % 100
    indices[[70, 130]] = 103, -5
    analysis = gathered(indices)
    load = accesses(analysis, "load")[1]
    finding = finding_of(settled(analysis, load.operation, "oob"))
    assert (finding.argument, finding.access, finding.contents) == ("x", "load", True)
    assert (finding.place.program_id, finding.place.lane) == ((1, 0, 0), (6,))
    assert (finding.place.element, finding.beyond_bytes) == (103, 12)
    assert "12 bytes past the end of x" in finding.message
    # the masked-off tail of the indices may hold anything
    indices = np.arange(256, dtype=np.int32) % 100
    indices[200:] = 1 << 30
    analysis = gathered(indices)
    load = accesses(analysis, "load")[1]
    assert isinstance(settled(analysis, load.operation, "oob"), Proved)


@triton.jit
def scaled_gather(index, x, y, step, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index + offs)
    tl.store(y + offs, tl.load(x + at * step))


def test_what_only_an_overflow_puts_outside_says_so_beside_the_overflow() -> None:
    indices = np.zeros(256, np.int32)
    indices[70] = 3
    for outside in (False, True):
        indices[200] = 1 if outside else 0  # 1 << 30 elements: outside without any overflow
        launch = launch_of(
            scaled_gather, (4,), {"index": "*i32", "x": "*fp32", "y": "*fp32", "step": "i32"},
            {"BLOCK": BLOCK}, index=(256,), x=(100,), y=(256,), step=1 << 30,
        )  # fmt: skip
        analysis = analysis_of(with_memory(launch, contents={"index": indices}))
        load = accesses(analysis, "load")[1].operation
        verdicts = settle(analysis, [(load, "oob"), (load, "overflow")]).verdicts
        overflow, bounds = finding_of(verdicts[load, "overflow"]), finding_of(verdicts[load, "oob"])
        assert overflow.place.lane == (6,)
        only = "only where an integer overflows" in bounds.message
        assert not bounds.note
        assert (only, bounds.place.lane) == ((False, (8,)) if outside else (True, (6,)))


def test_a_race_with_what_left_its_tensor_is_no_race() -> None:
    indices = np.arange(256, dtype=np.int32) % 100
    analysis = gathered(indices)
    addresses = [one.address for one in analysis.launch.storages]
    load = accesses(analysis, "load")[1].operation
    (store,) = accesses(analysis, "store")
    indices[70] = (addresses[2] - addresses[1]) // 4  # the first element of y, which program 0 writes
    verdicts = settle(analysis, [(load, "race"), (load, "oob"), (store.operation, "race")]).verdicts
    assert isinstance(verdicts[load, "oob"], Violated)
    assert isinstance(verdicts[load, "race"], Proved)
    assert isinstance(verdicts[store.operation, "race"], Proved)


def test_fresh_memory_reached_by_indices() -> None:
    indices = np.arange(256, dtype=np.int32) % 50
    analysis = gathered(indices, fresh={"x": [slice(200, 400)]})
    load = accesses(analysis, "load")[1]
    assert isinstance(settled(analysis, load.operation, "uninit"), Proved)
    indices[66] = 50
    analysis = gathered(indices, fresh={"x": [slice(200, 400)]})
    load = accesses(analysis, "load")[1]
    finding = finding_of(settled(analysis, load.operation, "uninit"))
    assert (finding.place.program_id, finding.place.lane) == ((1, 0, 0), (2,))


@triton.jit
def promised(x, y, M, BLOCK: tl.constexpr):
    offs = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) % M
    offs = tl.max_contiguous(tl.multiple_of(offs, BLOCK), BLOCK)
    tl.assume(M > 200)
    tl.store(y + offs, tl.load(x + offs))


@pytest.mark.parametrize("size, broken", [(256, set()), (250, {"contiguity"}), (192, {"assume"})])
def test_promises_of_a_kernel(size: int, broken: set[str]) -> None:
    launch = launch_of(
        promised, (4,), {"x": "*fp32", "y": "*fp32", "M": "i32"}, {"BLOCK": BLOCK}, x=(256,), y=(256,), M=size
    )
    analysis = analysis_of(launch)
    verdicts = {one.kind: promises.check(analysis, one) for one in analysis.walked.promises}
    assert {"contiguity", "divisibility", "assume"} <= set(verdicts)
    assert {kind for kind, one in verdicts.items() if isinstance(one, Violated)} == broken


@triton.jit
def described(x, y, rows, columns, stride, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [stride, 1], [BLOCK, BLOCK])
    tile = source.load([tl.program_id(0) * BLOCK, 0])
    i = tl.arange(0, BLOCK)
    tl.store(y + i[:, None] * BLOCK + i[None, :], tile)


@pytest.mark.parametrize("stride, expected", [(64, Proved), (66, Violated)])
def test_a_descriptor_made_in_a_kernel(stride: int, expected: Any) -> None:
    launch = launch_of(
        described, (2,), {"x": "*fp16", "y": "*fp16", "rows": "i32", "columns": "i32", "stride": "i32"},
        {"BLOCK": 32}, x=(64, 66), y=(32, 32), rows=64, columns=60, stride=stride,
    )  # fmt: skip
    analysis = analysis_of(launch)
    verdicts = [descriptor.check(analysis, one) for one in accesses(analysis, "load")]
    assert [type(one) for one in verdicts] == [expected]
    if expected is Violated:
        finding = finding_of(verdicts[0])
        assert "132 bytes, not a multiple of 16" in finding.message
        first = described.fn.__code__.co_firstlineno
        assert finding.location.frames[0].line == first + 2


@triton.jit
def reinterpreted(x, y, step, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    words = (x + tl.program_id(0) * step).to(tl.pointer_type(tl.int32))
    tl.store(y + tl.program_id(0) * BLOCK + lane, tl.load(words + lane))


@pytest.mark.parametrize("step, expected", [(256, Proved), (254, Violated)])
def test_a_cast_pointer_is_aligned_for_what_it_points_to(step: int, expected: Any) -> None:
    launch = launch_of(
        reinterpreted, (4,), {"x": "*i8", "y": "*i32", "step": "i32"}, {"BLOCK": BLOCK},
        x=(1024,), y=(256,), step=step,
    )  # fmt: skip
    analysis = analysis_of(with_memory(launch))
    (load,) = accesses(analysis, "load")
    for verdict in (alignment.check(analysis, load), settled(analysis, load.operation, "alignment")):
        assert isinstance(verdict, expected)
        if isinstance(verdict, Violated):
            finding = finding_of(verdict)
            assert (finding.place.program_id, finding.argument) == ((1, 0, 0), "x")


def test_a_limit_leaves_what_was_not_seen_unproven() -> None:
    analysis = gathered(np.full(256, 1000, np.int32))
    stopped = replace(analysis, options=replace(analysis.options, evaluation_limit=10))
    store = accesses(stopped, "store")[0]
    result = settle(stopped, [(store.operation, "oob")])
    assert result.reason is not None and "too large" in result.reason
    assert result.verdicts[store.operation, "oob"] == Unproven(result.reason)


def test_what_events_cannot_tell_is_unproven() -> None:
    analysis = copied(256, 256)
    (store,) = accesses(analysis, "store")
    assert isinstance(settled(analysis, store.operation, "descriptor"), Unproven)
