"""Mutants of kernels: that there are such as should be, and that verify and the judge agree on some."""

from __future__ import annotations

import ast
import importlib.util
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.mutants import campaign
from tests.fuzz.mutants.judge import DIFFERS, EQUAL
from tests.fuzz.mutants.mutate import mutants

KERNEL = """
@triton.jit
def kernel(x, out, n, B: tl.constexpr):
    lane = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + lane, tl.load(x + lane, mask=lane < n, other=0.0) * 2.0, mask=lane < n)

def host(n):
    return n + 1
"""


def test_each_mutant_differs_in_one_place_of_a_kernel() -> None:
    found = mutants(KERNEL)
    original = ast.unparse(ast.parse(KERNEL)).splitlines()
    for one in found:
        changed = [a for a, b in zip(original, one.source.splitlines(), strict=True) if a != b]
        assert len(changed) == 1, one
        assert "n + 1" not in changed[0]
    kinds = {one.what for one in found}
    assert {"Lt is LtE", "Add is Sub", "2.0 is 2.02", "not in the first program", "other is 1"} <= kinds
    assert len({one.source for one in found}) == len(found)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
def test_verify_and_the_judge_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "TARGETS", campaign.TARGETS[:1])
    lines = []
    for path in campaign.captured(tmp_path):
        lines += campaign.judge_kernel(path, count=6, seed=1, done=frozenset())
    assert not [line for line in lines if campaign.is_wrong(line)]
    words = Counter(line[3] for line in lines)
    assert words[DIFFERS] >= 5 and words[EQUAL] >= 5, words
