"""Answers for all sizes against the launch of each size, checked one by one, on random kernels."""

from __future__ import annotations

import pytest

from kerncap.sanitizer.all_sizes.launches import AllSizes, all_sizes
from kerncap.sanitizer.all_sizes.sizes_engine import CHECKS, sanitize_all_sizes
from kerncap.sanitizer.all_sizes.stated_sizes import parse
from kerncap.sanitizer.engine import sanitize
from kerncap.sanitizer.findings import Proved, Violated
from kerncap.sanitizer.options import Options
from tests.unit.sanitizer.all_sizes.random_kernels import case

MOST = 6  # of each of the two sizes


def one_by_one(problem: AllSizes) -> dict[tuple[int, str], list[tuple[int, int, int]]]:
    """By operation and check: the sizes at which it is violated, as (sum, n, m)."""
    found: dict[tuple[int, str], list[tuple[int, int, int]]] = {}
    [n], [m] = (size.variables for size in problem.sizes.values())
    for a in range(1, MOST + 1):
        for b in range(1, MOST + 1):
            if problem.holds_at({n: a, m: b}):
                launch = problem.launch_at({n: a, m: b})
                for one in sanitize(launch, Options(checks=frozenset(CHECKS))).settled:
                    if isinstance(one.verdict, Violated):
                        found.setdefault((one.order, one.check), []).append((a + b, a, b))
    return found


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.long) for first in range(6, 106, 25))]
)
def test_no_proof_is_wrong_and_no_smaller_sizes_fail(first: int) -> None:
    for seed in range(first, first + (4 if first == 0 else 25)):
        drawn = case(seed)
        statement = parse([f"n=1..{MOST},m=1..{MOST}", *drawn.stated], ["n", "m"], ["x", "idx"])
        problem = all_sizes(drawn.ttir, statement, [drawn.grid], drawn.arguments, {}, "k.ttir")
        wrong = one_by_one(problem)
        for one in sanitize_all_sizes(problem, Options()).settled:
            verdict, sizes = one.verdict, wrong.get((one.order, one.check))
            if isinstance(verdict, Proved):
                assert not sizes, (seed, one.order, one.check, sizes)
            elif isinstance(verdict, Violated):
                finding = verdict.findings[0]
                at = sum(number for _, number in finding.sizes), *(number for _, number in finding.sizes)
                # What memory holds is made up one by one, and chosen for the worst for all sizes.
                if finding.contents:
                    assert not sizes or not finding.smallest or at <= min(sizes), (seed, one.order, sizes)
                else:
                    assert sizes and at in sizes, (seed, one.order, at, sizes)
                    assert not finding.smallest or at == min(sizes), (seed, one.order, at, sizes)
