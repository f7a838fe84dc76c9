"""A launch that ended badly in the application: what counts as the same end here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kerncap.answer import Answer
from kerncap.api.reproduced_faults import cause, end_again, ends_as_captured
from kerncap.format import schema
from kerncap.replay.engine import CANDIDATE, ORIGINAL
from kerncap.replay.outcome import Outcome

YES, NO, UNDECIDED = Answer.YES, Answer.NO, Answer.UNDECIDED
ASSERT = "RuntimeError: CUDA error: device-side assert triggered"
ILLEGAL = "CUDA_ERROR_ILLEGAL_ADDRESS in cuStreamSynchronize"


def engine(oracle: str, error: str | None, outcome: Outcome) -> Any:
    manifest = SimpleNamespace(oracle=schema.Oracle(kind=cast(Any, oracle), error=error))
    return SimpleNamespace(manifest=manifest, restore=lambda: None, launch=lambda which: outcome)


@pytest.mark.parametrize(
    ("oracle", "error", "outcome", "answer"),
    [
        ("fault", ASSERT, Outcome("fault", "the kernel: CUDA_ERROR_ASSERT"), YES),
        ("fault", ILLEGAL, Outcome("fault", "the kernel: CUDA_ERROR_ILLEGAL_ADDRESS"), YES),
        ("fault", ASSERT, Outcome("fault", "the kernel: CUDA_ERROR_ILLEGAL_ADDRESS"), NO),
        ("fault", "ended with SIGSEGV", Outcome("fault", ILLEGAL), YES),  # what the program died of
        ("fault", None, Outcome("fault", "the kernel: CUDA_ERROR_ASSERT"), YES),  # nobody named it
        ("fault", ASSERT, Outcome("ok"), NO),
        ("fault", ASSERT, Outcome("timeout", "the kernel did not end within 1 s"), UNDECIDED),
        ("timeout", None, Outcome("timeout", "the kernel did not end within 1 s"), YES),
        ("timeout", None, Outcome("ok"), NO),
    ],
)
def test_the_same_end(oracle: str, error: str | None, outcome: Outcome, answer: Answer) -> None:
    assert end_again(engine(oracle, error, outcome), ORIGINAL).answer is answer


def test_a_candidate_need_not_fault() -> None:
    assert end_again(engine("fault", ASSERT, Outcome("ok")), CANDIDATE).passed
    late = Outcome("timeout", "the kernel did not end within 1 s")
    assert end_again(engine("fault", ASSERT, late), CANDIDATE).answer is UNDECIDED


def test_causes_are_named_in_both_ways() -> None:
    assert cause("an illegal memory access was encountered") == cause(ILLEGAL) == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert cause("it ended") is cause(None) is None


def test_an_end_is_the_captured_one_if_both_name_it() -> None:
    again = Outcome("fault", "the kernel: CUDA_ERROR_ASSERT")
    assert ends_as_captured(engine("fault", ASSERT, again), again.message)
    assert not ends_as_captured(engine("trusted", None, again), again.message)
    assert not ends_as_captured(engine("fault", ILLEGAL, again), again.message)
    assert not ends_as_captured(engine("fault", None, again), "it ended")
