"""What a command ends with; docs/reference/cli.md explains each."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from kerncap.answer import Answer


class ExitStatus(enum.IntEnum):
    """Beside these, 128 + n for a signal n, and under `capture` and `list` the program's own."""

    YES = 0
    NO = 1
    USAGE = 2
    MALFORMED = 3
    MISSING = 4
    UNDECIDED = 5
    INTERNAL = 70


class NotStarted(enum.IntEnum):
    """Of a program that could not be started, as shells have it."""

    NOT_EXECUTABLE = 126
    NOT_FOUND = 127


class Bisect(enum.IntEnum):
    """For `git bisect run`."""

    GOOD = 0
    BAD = 1
    UNTESTABLE = 125
    STOP = 128


_WORST_FIRST = (
    ExitStatus.NO, ExitStatus.INTERNAL, ExitStatus.MALFORMED, ExitStatus.USAGE, ExitStatus.MISSING,
    ExitStatus.UNDECIDED, ExitStatus.YES,
)  # fmt: skip
_OF = {Answer.YES: ExitStatus.YES, Answer.NO: ExitStatus.NO, Answer.UNDECIDED: ExitStatus.UNDECIDED}


def worst(statuses: Iterable[int]) -> int:
    """Of several: a no, then an error, then one that is undecided. At least one is given."""
    found = set(statuses)
    return next(status for status in _WORST_FIRST if status in found)


def exit_status(answer: Answer, strict: bool = False) -> ExitStatus:
    """``strict`` takes undecided for a no."""
    return ExitStatus.NO if strict and answer is Answer.UNDECIDED else _OF[answer]
