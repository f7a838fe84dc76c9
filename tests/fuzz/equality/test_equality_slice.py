"""A slice of the campaign of proofs: some mutants, and all that is asked of them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.equality.campaign import judged

MUTANTS = 16


@pytest.mark.long
def test_no_mutant_that_differs_is_proved() -> None:
    tally = Counter(judged(number, MUTANTS, seed=4, runs=6)[1] for number in range(MUTANTS))
    assert not tally["WRONG"], tally
    assert sum(tally.values()) == MUTANTS
    assert tally["proved"], tally
    assert tally["shown to differ"], tally
