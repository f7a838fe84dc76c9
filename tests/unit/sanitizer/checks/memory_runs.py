"""Runs the memory checks on kernels, with the memory that a test gives them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import triton
import triton.language as tl

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.concrete_tier import settle
from kerncap.sanitizer.findings import Finding, Verdict, Violated
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.ttir.ir import Operation
from kerncap.sanitizer.walk.access import Access
from tests.unit.sanitizer.checks.memory_launches import ArrayContents
from tests.unit.sanitizer.compiled import analysis_of, launch_of

BLOCK = 64


def with_memory(
    launch: Launch, contents: dict[str, npt.NDArray[Any]] | None = None, fresh: dict[str, Any] | None = None
) -> Launch:
    """``fresh``: per storage the slices of bytes that nobody wrote; all else was written."""
    written = []
    for one in launch.storages:
        mask = np.ones(one.size_bytes, np.bool_)
        for part in (fresh or {}).get(one.name, ()):
            mask[part] = False
        written.append(mask)
    arrays = [(contents or {}).get(one.name) for one in launch.storages]
    return replace(launch, contents=ArrayContents(arrays, written))


def accesses(analysis: Analysis, kind: str) -> list[Access]:
    return [one for one in analysis.walked.accesses if one.kind == kind]


def finding_of(verdict: Verdict | None) -> Finding:
    assert isinstance(verdict, Violated), verdict
    (finding,) = verdict.findings
    return finding


def settled(analysis: Analysis, operation: Operation, check: str) -> Verdict:
    return settle(analysis, [(operation, check)]).verdicts[operation, check]


@triton.jit
def copy(x, y, n, m, BLOCK: tl.constexpr, EXP: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offs, mask=offs < n)
    tl.store(y + offs, tl.exp(value) if EXP else value, mask=offs < m)


def copied(n: int, m: int, exp: bool = True, **memory: Any) -> Analysis:
    launch = launch_of(
        copy, (4,), {"x": "*fp32", "y": "*fp32", "n": "i32", "m": "i32"}, {"BLOCK": BLOCK, "EXP": exp},
        x=(256,), y=(256,), n=n, m=m,
    )  # fmt: skip
    return analysis_of(with_memory(launch, **memory))
