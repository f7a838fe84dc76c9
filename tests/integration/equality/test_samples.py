"""Launches that are too large to run whole: some programs, and never a proof."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kerncap.api.prove.proof_words import said
from kerncap.sanitizer.concrete.run import Limits
from kerncap.sanitizer.equality.kernel_runs import kernel_of
from kerncap.sanitizer.equality.proof import Proof, prove
from tests.integration.equality.kernels import large
from tests.integration.equality.pairs import Run, launched

N, BLOCK = 1 << 17, 32
PROGRAMS = N // BLOCK
SMALL = Limits(element_operations=5_000_000, seconds=100.0)  # less than they take


def run(kernel: Any, block: int = BLOCK, times: int = 1) -> Run:
    return Run(kernel, (times * N // block,), {"BLOCK": block})


def flat(**types: torch.dtype) -> tuple[Any, ...]:
    return torch.zeros(N), torch.zeros(N, dtype=types.get("y", torch.float32)), N


def found(first: Run, second: Run, arguments: tuple[Any, ...], limits: Limits = SMALL) -> Proof:
    return prove(*(kernel_of(launched(arguments, one)) for one in (first, second)), limits=limits)


def test_a_sample_is_not_a_proof() -> None:
    proof = found(run(large.doubled), run(large.doubled, 128), flat())
    assert proof.equal is None
    assert proof.sample is not None
    (some, every), (others, all_others) = proof.sample.programs
    assert (every, all_others) == (PROGRAMS, PROGRAMS // 4)
    assert 64 <= others <= some < every
    assert proof.elements == some * BLOCK
    words = said(proof, "one", "other")
    assert words.result == "undecided"
    assert words.reasons == ["not proved: too large to run whole; equal in a sample"]
    [shown] = words.shown
    assert shown.startswith(
        f"in a sample, what {some} of 4,096 programs of one and {others} of 1,024 of other"
    )
    assert "PROVED" not in shown
    assert words.not_shown[0] == "that the other programs store the same"


def test_one_program_of_many_is_not_seen_and_not_claimed() -> None:
    proof = found(run(large.doubled), run(large.doubled_but_one), flat())
    assert proof.equal is None
    assert found(run(large.doubled), run(large.doubled_but_one), flat(), Limits()).equal is False


def test_the_first_and_the_last_are_in_each_sample() -> None:
    proof = found(run(large.doubled), run(large.doubled_but_the_last), flat())
    assert proof.witness is not None
    assert proof.witness.element == N - 1


@pytest.mark.long
def test_a_program_reads_what_it_stores() -> None:
    proof = found(run(large.added_in_place), run(large.added_in_place, 128), flat())
    assert proof.sample is not None, proof.reason


def test_all_programs_that_add_to_one_place_are_run() -> None:
    proof = found(run(large.added_in_place), run(large.added_by_halves, times=2), flat())
    assert proof.sample is not None, proof.reason
    (some, _), (others, _) = proof.sample.programs
    assert others == 2 * some


@pytest.mark.long
def test_integers_are_compared_where_the_sample_stores() -> None:
    integers = flat(y=torch.int32)
    assert found(run(large.places), run(large.places, 128), integers).sample is not None
    assert found(run(large.places), run(large.places_from_one), integers).witness is not None


@pytest.mark.parametrize(
    ("kernel", "arguments", "reason"),
    [
        (large.added_to_the_next, flat(), "programs that read what others store"),
        (
            large.doubled_by_counter, (*flat()[:2], torch.zeros(1, dtype=torch.int32), N),
            "decides which memory is accessed",
        ),
    ],
)  # fmt: skip
def test_what_depends_on_other_programs_is_refused(
    kernel: Any, arguments: tuple[Any, ...], reason: str
) -> None:
    proof = found(run(kernel), run(kernel), arguments)
    assert proof.equal is None
    assert proof.sample is None
    assert proof.reason.startswith("too large to run whole, and a sample is not possible: ")
    assert reason in proof.reason
