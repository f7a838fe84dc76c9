"""Memory that nobody wrote, in real kernels, from Triton's source to a verdict; both tiers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import triton
import triton.language as tl

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks import uninit
from kerncap.sanitizer.checks.events.watchers import FOREIGN
from kerncap.sanitizer.engine import sanitize
from kerncap.sanitizer.findings import Proved, Unproven, Violated
from kerncap.sanitizer.ttir.ir import Operation
from tests.unit.sanitizer.checks.memory_runs import BLOCK, accesses, copied, finding_of, settled, with_memory
from tests.unit.sanitizer.compiled import analysis_of, launch_of


def test_fresh_memory_that_is_loaded() -> None:
    fresh = {"x": [slice(800, 1024)]}
    dirty, clean = copied(256, 256, fresh=fresh), copied(200, 200, fresh=fresh)
    (load,) = accesses(dirty, "load")
    for verdict in (uninit.check(dirty, load), settled(dirty, load.operation, "uninit")):
        finding = finding_of(verdict)
        assert (finding.argument, finding.access) == ("x", "load")
        assert (finding.place.program_id, finding.place.lane) == ((3, 0, 0), (8,))
        assert finding.place.element == 200
    (load,) = accesses(clean, "load")
    assert isinstance(uninit.check(clean, load), Proved)
    assert isinstance(settled(clean, load.operation, "uninit"), Proved)


@triton.jit
def drops(x, table, y, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offs < n
    value = tl.load(x + offs)
    if HOW == "where":
        tl.store(y + offs, tl.where(inside, tl.exp(value), 0.0))
    elif HOW == "mask":
        tl.store(y + offs, value, mask=inside)
    elif HOW == "masked sum":
        tl.atomic_add(y, tl.sum(tl.where(inside, value, 0.0)))
    elif HOW == "integer times zero":
        tl.store(y + offs, value.to(tl.int32) * inside.to(tl.int32))
    elif HOW == "sum":
        tl.atomic_add(y, tl.sum(value))
    elif HOW == "times zero":
        tl.store(y + offs, value * inside.to(tl.float32))
    elif HOW == "one too many":
        tl.store(y + offs, tl.where(offs <= n, value, 0.0))
    elif HOW == "address":
        tl.store(y + offs, tl.load(table + (value > 0).to(tl.int32)), mask=inside)
    elif HOW == "mask of it":
        tl.store(y + offs, 1.0, mask=(value > 0) | inside)
    elif HOW == "branch":
        if tl.max(tl.abs(value)) > 0:
            tl.store(y + offs, 1.0)
    else:
        tl.store(y + offs, tl.where(value > 0, 1.0, 0.0))


_DROPPED = ("where", "mask", "masked sum", "integer times zero")
_USED = ("sum", "times zero", "one too many", "address", "mask of it", "branch", "condition")


@pytest.mark.parametrize("how", [*_DROPPED, *_USED])
def test_memory_that_nobody_wrote_is_a_finding_where_it_is_used(how: str) -> None:
    launch = launch_of(
        drops, (4,), {"x": "*fp32", "table": "*fp32", "y": "*fp32", "n": "i32"},
        {"BLOCK": BLOCK, "HOW": how}, x=(256,), table=(2,), y=(256,), n=200,
    )  # fmt: skip
    contents = {"x": np.ones(256, np.float32), "table": np.ones(2, np.float32), "y": np.ones(256, np.float32)}
    report = sanitize(with_memory(launch, contents=contents, fresh={"x": [slice(800, 1024)]}))
    found = [(one.check, one.access, one.argument) for one in report.findings]
    assert found == ([("uninit", "load", "x")] if how in _USED else [])
    assert not [one for one in report.settled if isinstance(one.verdict, Unproven)]


@triton.jit
def either(x, y, out, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offs, tl.load(tl.where(offs < n, x + offs, y + (offs - n))))


def test_each_of_two_fresh_tensors_that_one_load_reads() -> None:
    launch = launch_of(
        either, (4,), {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}, {"BLOCK": BLOCK},
        x=(100,), y=(156,), out=(256,), n=100,
    )  # fmt: skip
    whole = [slice(None)]
    for fresh, expected in (({"x": whole, "y": whole}, {"x", "y"}), ({"y": whole}, {"y"})):
        analysis = analysis_of(with_memory(launch, fresh=fresh))
        (load,) = accesses(analysis, "load")
        verdict = uninit.check(analysis, load)
        assert isinstance(verdict, Violated)
        assert {finding.argument for finding in verdict.findings} == expected


@triton.jit
def workspace(scratch, y, shift, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    tl.store(scratch + pid * BLOCK + lane, lane.to(tl.float32))
    tl.debug_barrier()
    tl.store(y + pid * BLOCK + lane, tl.load(scratch + pid * BLOCK + (lane + shift)))


def worked(shift: int) -> tuple[Analysis, Operation]:
    launch = launch_of(
        workspace, (4,), {"scratch": "*fp32", "y": "*fp32", "shift": "i32"}, {"BLOCK": BLOCK},
        scratch=(5 * BLOCK,), y=(4 * BLOCK,), shift=shift,
    )  # fmt: skip
    analysis = analysis_of(with_memory(launch, fresh={"scratch": [slice(None)]}))
    (load,) = accesses(analysis, "load")
    return analysis, load.operation


def test_a_workspace_is_read_by_whom_it_was_written() -> None:
    analysis, load = worked(0)
    assert uninit.check(analysis, accesses(analysis, "load")[0]) == Unproven(uninit.WRITTEN_BY_LAUNCH)
    assert settled(analysis, load, "uninit") == Proved("evaluated", contents=True)


def test_a_workspace_of_which_others_wrote_a_part() -> None:
    analysis, load = worked(1)
    # the last program reads one element that nobody writes
    assert finding_of(settled(analysis, load, "uninit")).place.program_id == (3, 0, 0)
    smaller = replace(analysis.launch, grid=(3, 1, 1))
    contents = with_memory(smaller, fresh={"scratch": [slice(0, 3 * BLOCK * 4)]})
    analysis = analysis_of(contents)
    (load_again,) = accesses(analysis, "load")
    assert settled(analysis, load_again.operation, "uninit") == Unproven(FOREIGN)


@triton.jit
def accumulate(x, total, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total, tl.sum(tl.load(x + offs)))


def test_an_accumulator_that_nobody_zeroed() -> None:
    launch = launch_of(
        accumulate, (4,), {"x": "*fp32", "total": "*fp32"}, {"BLOCK": BLOCK}, x=(256,), total=(1,)
    )
    for fresh, expected in (({"total": [slice(None)]}, Violated), ({}, Proved)):
        analysis = analysis_of(with_memory(launch, fresh=fresh))
        (atomic,) = accesses(analysis, "atomic")
        assert isinstance(uninit.check(analysis, atomic), expected)
        assert isinstance(settled(analysis, atomic.operation, "uninit"), expected)
