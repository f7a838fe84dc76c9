"""The last line of a command that judges."""

from __future__ import annotations

from kerncap.answer import Answer


def result_line(answer: Answer, said: str) -> str:
    """``Result: PASS (said)``."""
    return f"Result: {answer.word} ({said})"
