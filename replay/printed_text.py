"""A candidate for a launch that leaves nothing in memory: the text that it and the captured kernel print.

The application's text is not kept: it is in its standard output, among whatever else it writes there
(docs/decisions/0011-printed-text.md). So both kernels are replayed, and their text is read from the worker's
log.
"""

from __future__ import annotations

from collections import Counter

from kerncap.answer import Answer
from kerncap.printable import visible
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.judge_requests import FLOATS, redraw
from kerncap.replay.outcome import Outcome
from kerncap.replay.units import units
from kerncap.replay.wording import Verdict, badly_ended, fail, nothing_written, undecided

Lines = Counter[bytes]  # in no order: that of blocks is another one in each run

# A device keeps what is printed in a ring of 1 MiB, and loses the rest; at least one byte of text comes of a
# record, which has 8 bytes for each argument and a few more.
_SURE_BYTES = 32 << 10
_MOST_BYTES = 1 << 20
_SHOWN = 80


def judge(engine: Engine) -> Verdict:
    """The verdict on a candidate that left memory as it was, and as it should be.

    Undecided if the captured kernel prints nothing, or not the same in two replays.
    """
    views = _redrawable(engine)
    texts = []
    for which in (ORIGINAL, ORIGINAL, CANDIDATE):
        outcome, text = _printed(engine, which, [])
        if not outcome.ok:
            return badly_ended(outcome)
        texts.append(text)
    first, second, found = map(_lines, texts)
    if not first:
        return nothing_written()
    limit = _MOST_BYTES if engine.choice.memory == "host" else _SURE_BYTES
    if max(map(len, texts[:2])) > limit:
        return _open(f"more than {limit:,} bytes are printed, of which a device may lose some")
    if first != second:
        return _open("what the captured kernel prints is not the same in two replays")
    if reason := _difference(found, first):
        return fail(reason)
    reason, shown = _on_other_values(engine, views, first)
    if reason:
        return fail(reason)
    count = sum(first.values())
    return Verdict(
        Answer.YES,
        f"it prints the same as the captured kernel in a replay ({count:,} line{'s' * (count > 1)}"
        f"{', and on other values' if shown else ''}); nothing is written",
        notes=["what the application itself printed is not kept"],
        exact=True,
    )


def _on_other_values(engine: Engine, views: list[int], before: Lines) -> tuple[str, bool]:
    """What is wrong with the candidate's text there, and whether the captured kernel prints another there."""
    if not views:
        return "", False
    (here, text), (again, more) = (_printed(engine, ORIGINAL, views) for _ in range(2))
    expected = _lines(text)
    if not (here.ok and again.ok) or expected != _lines(more) or expected == before:
        return "", False
    outcome, text = _printed(engine, CANDIDATE, views)
    reason = outcome.ending or _difference(_lines(text), expected)
    return (f"on other values: {reason}" if reason else ""), True


def _redrawable(engine: Engine) -> list[int]:
    """Floats if there are any, else integers: which of them are read, no written byte can show."""
    kinds: tuple[list[int], list[int]] = [], []
    for unit in units(engine.manifest):
        floats = [engine.manifest.views[view].dtype.startswith(FLOATS) for view in unit.views]
        if all(floats) or not any(floats):
            kinds[not all(floats)].extend(unit.views)
    return kinds[0] or kinds[1]


def _printed(engine: Engine, which: str, redrawn: list[int]) -> tuple[Outcome, bytes]:
    engine.restore()
    if redrawn:
        redraw(engine, redrawn, 1)
    return engine.printed(which, _MOST_BYTES + 1)


def _lines(text: bytes) -> Lines:
    return Counter(text.splitlines())


def _difference(found: Lines, expected: Lines) -> str:
    """A line of which there are fewer or more than the captured kernel prints, or nothing."""
    for line, count in (expected - found).items():
        return (
            f"prints {_text(line)} {found[line]:,} times, the captured kernel {count + found[line]:,} times"
        )
    for line in found - expected:
        return f"prints {_text(line)} {found[line]:,} times, the captured kernel {expected[line]:,} times"
    return ""


def _text(line: bytes) -> str:
    return repr(visible(line.decode(errors="replace"), _SHOWN))


def _open(why: str) -> Verdict:
    return undecided(f"nothing to compare: nothing is written, and {why}", why)
