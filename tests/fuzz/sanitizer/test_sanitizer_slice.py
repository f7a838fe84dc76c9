"""A seeded slice of the generated kernels: brute force and the sanitizer must not differ."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from tests.fuzz.sanitizer.campaign import Tally, complaint
from tests.fuzz.sanitizer.compare import run
from tests.parameters import first_of

KERNELS = int(os.environ.get("KERNCAP_FUZZ_KERNELS", "180"))
PARTS = 6


@first_of("part", range(PARTS))
def test_brute_force_and_the_sanitizer_agree(part: int) -> None:
    tally = Tally()
    complaints = []
    for seed in range(part, KERNELS, PARTS):
        outcome = run(seed, seed % 4)
        tally.add(outcome)
        complaints += [complaint(outcome)] if outcome.disagreements else []
    assert not complaints, "\n".join(complaints)
    # Kernels that are all clean, all broken or not understood would prove nothing.
    assert tally.compared >= 0.9 * KERNELS / PARTS, tally.text()
    assert 0.15 <= tally.cases["buggy"] / tally.compared <= 0.7, tally.text()
    assert tally.unproven_share <= 0.05, tally.text()
