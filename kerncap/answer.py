"""What every verdict is: yes, no, or undecided.

A wrong word is worse than none: what could not be judged is no failure of what was to be judged, and no proof
of it either.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable


class Answer(enum.Enum):
    """The value is the word of ``--json``, `word` that of the last line."""

    YES = "pass"
    NO = "fail"
    UNDECIDED = "undecided"

    @property
    def word(self) -> str:
        return self.value.upper()


def of_all(answers: Iterable[Answer]) -> Answer:
    """The answer to all of several questions: a no decides, then an undecided; no question leaves it open."""
    given = set(answers)
    if Answer.NO in given:
        return Answer.NO
    return Answer.YES if given == {Answer.YES} else Answer.UNDECIDED
