"""Launches that did not end well in the application: whether they end the same way here."""

from __future__ import annotations

import re

from kerncap.answer import Answer
from kerncap.replay.engine import CANDIDATE, Engine
from kerncap.replay.verdict_words import Verdict, badly_ended, fail

_NAMED = re.compile(r"\bCUDA_ERROR_[A-Z_]+\b")
# As CUDA's runtime words them, and with it torch. Source: cudaGetErrorString of CUDA 12 and 13.
_WORDED = {
    "device-side assert triggered": "CUDA_ERROR_ASSERT",
    "an illegal memory access was encountered": "CUDA_ERROR_ILLEGAL_ADDRESS",
    "misaligned address": "CUDA_ERROR_MISALIGNED_ADDRESS",
    "an illegal instruction was encountered": "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "hardware stack error": "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "operation not supported on global/shared address space": "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    "invalid program counter": "CUDA_ERROR_INVALID_PC",
}
ASSERT = "CUDA_ERROR_ASSERT"


def cause(text: str | None) -> str | None:
    """The driver's name of an error in what was said of it; None if none is named.

    A signal does not count: a program may die of another cause than what its kernel did.
    """
    if text is None:
        return None
    named = _NAMED.search(text)
    if named is not None:
        return named[0]
    return next((name for words, name in _WORDED.items() if words in text), None)


def end_again(engine: Engine, which: str) -> Verdict:
    """For an oracle that is a fault or a timeout: whether the launch ends that way again.

    If both sides name their fault, another kind does not reproduce it.
    """
    oracle = engine.manifest.oracle
    expected = oracle.kind
    engine.restore()
    outcome = engine.launch(which)
    if outcome.status == "killed":
        return badly_ended(outcome)
    again = outcome.status == "timeout" if expected == "timeout" else outcome.status in ("fault", "error")
    if which == CANDIDATE:
        if outcome.ok:
            return Verdict(
                Answer.YES,
                f"the candidate ends without the captured {expected}; verify says if it is correct",
            )
        ended = badly_ended(outcome)
        ended.summary = f"the candidate ended with {outcome.status}: {ended.summary}"
        return ended
    before, now = cause(oracle.error), cause(outcome.message)
    if again and None not in (before, now) and before != now:
        return fail(f"{expected} not reproduced: it was {before} in the application, and is {now} here")
    if again:
        return Verdict(Answer.YES, f"{expected} reproduced: {outcome.message}")
    if outcome.status == "timeout":
        ended = badly_ended(outcome)
        ended.summary = f"{expected} not reproduced: {ended.summary}"
        return ended
    return fail(
        f"{expected} not reproduced: the launch ended {'well' if outcome.ok else f'with {outcome.message}'}"
    )


def ends_as_captured(engine: Engine, message: str) -> bool:
    """Whether the same error ended the launch in the application and here, and both name it."""
    return cause(message) is not None and cause(message) == cause(engine.manifest.oracle.error)
