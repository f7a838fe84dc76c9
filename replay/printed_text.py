"""A launch that prints: its text in a replay, and the application's, or the captured kernel's.

The application's is in the oracle if the CUDA shim saw all of it (docs/decisions/0011-printed-text.md). A
replay's is read from the worker's log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kerncap.answer import Answer
from kerncap.errors import KerncapError
from kerncap.format.schema import IntValue
from kerncap.log import counted
from kerncap.printable import visible
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.judge_requests import FLOATS, redraw
from kerncap.replay.other_scalars import described, scalar_variants
from kerncap.replay.outcome import Outcome
from kerncap.replay.verdict_words import Verdict, badly_ended, fail, nothing_written, undecided
from kerncap.replay.write_set_units import units

Lines = Counter[bytes]  # in no order: that of blocks is another one in each run

# A device keeps what is printed in a ring, and loses what does not fit; each printf takes 256 bytes of it on
# an H100, and gives at least one byte of text.
_RECORD_BYTES = 256
_RING_BYTES = 1 << 20  # the least that a driver has without being asked
_MOST_BYTES = 1 << 20
_SHOWN = 80
_MOST_NUMBERS = 8


def judge(engine: Engine, which: str) -> Verdict:
    """The verdict on a kernel that left memory as it was, and as it should be.

    Undecided if there is no text to compare with, or the captured kernel prints something else in each run.
    """
    verdict, lines = _compared(engine, which)
    if verdict is not None:
        return verdict
    if not lines:
        return nothing_written(engine.side_inputs.prints)
    same = _same(engine, lines)
    if which == ORIGINAL:
        return Verdict(Answer.YES, f"{same}; nothing is written", exact=True)
    shown = []
    for views, scalars in _changes(engine):
        what = described(engine.manifest, scalars) or "other values"
        reason, told = _with(engine, views, scalars, lines)
        if reason:
            return fail(f"on {what}: {reason}")
        shown += [what] if told else []
    summary = f"{same[:-1]}{''.join(f', on {what} too' for what in shown)}); nothing is written"
    notes = [] if _of_application(engine) else ["what the application itself printed is not known"]
    return Verdict(Answer.YES, summary, notes=notes, exact=True)


def judge_too(engine: Engine, which: str, verdict: Verdict) -> Verdict:
    """The verdict on a kernel that left memory as it should be, with what its text says."""
    other, lines = _compared(engine, which)
    if other is None:
        if lines:
            verdict.notes.append(_same(engine, lines))
    elif other.answer is Answer.UNDECIDED:
        verdict.notes.append(f"what it prints is not compared: {other.reasons[0]}")
    else:
        other.notes += verdict.notes
        return other
    return verdict


def _of_application(engine: Engine) -> Lines:
    """What the application printed; nothing if that is not known, or printed by other means here."""
    printed = engine.manifest.oracle.printed
    return _lines(printed.encode()) if printed and engine.choice.memory == "cuda" else Lines()


def _same(engine: Engine, lines: Lines) -> str:
    what = (
        "what the application printed"
        if _of_application(engine)
        else "the same as the captured kernel in a replay"
    )
    return f"it prints {what} ({counted(sum(lines.values()), 'line')})"


def _compared(engine: Engine, which: str) -> tuple[Verdict | None, Lines]:
    """A verdict if the texts differ or can't be compared; what both print, if that is the same.

    The captured kernel is compared with the application, and a candidate with the captured kernel.
    """
    wanted = _of_application(engine)
    if which == ORIGINAL and not wanted:
        return None, Lines()
    texts = []
    for each in (ORIGINAL, ORIGINAL) if which == ORIGINAL else (ORIGINAL, ORIGINAL, which):
        outcome, text = _printed(engine, each, [], {})
        if not outcome.ok:
            return badly_ended(outcome), Lines()
        texts.append(text)
    first, second, found = _lines(texts[0]), _lines(texts[1]), _lines(texts[-1])
    limit = _MOST_BYTES if engine.choice.memory == "host" else _sure_bytes(engine)
    if max(map(len, texts[:2])) > limit:
        return _open(f"more than {limit:,} bytes are printed, of which a device may lose some"), first
    if first != second:
        return _open("what the captured kernel prints is not the same in two replays"), first
    if wanted and (reason := _difference(first, wanted, "in the application")):
        if which == ORIGINAL and not engine.doubt():
            return fail(reason), first
        why = engine.doubt() or "no measure for another kernel's"
        return _open(f"the captured kernel {reason}: {why}"), first
    reason = _difference(found, first, "the captured kernel")
    return fail(reason) if reason else None, first


def _sure_bytes(engine: Engine) -> int:
    """Of text that a device surely keeps. A replay has the limits of the captured launch."""
    limits = engine.manifest.launch.limits
    ring = limits.print_bytes if limits is not None else 0
    return (ring or _RING_BYTES) // _RECORD_BYTES


def _with(engine: Engine, views: list[int], scalars: dict[str, str], before: Lines) -> tuple[str, bool]:
    """What is wrong with the candidate's text there, and whether the captured kernel prints another there."""
    try:
        runs = [_printed(engine, ORIGINAL, views, scalars) for _ in range(2)]
        expected, again = (_lines(text) for _, text in runs)
        if not all(outcome.ok for outcome, _ in runs) or expected != again or expected == before:
            return "", False
        outcome, text = _printed(engine, CANDIDATE, views, scalars)
    except KerncapError:  # a number whose place among the parameters is not known
        return "", False
    return outcome.ending or _difference(_lines(text), expected, "the captured kernel"), True


def _changes(engine: Engine) -> Iterator[tuple[list[int], dict[str, str]]]:
    """Other contents of tensors; other floats; integers that are one less, each for itself: a size may be
    smaller, and nothing is written."""
    views = _redrawable(engine)
    if views:
        yield views, {}
    for floats in scalar_variants(engine.manifest, integers=False):
        yield [], floats
    numbers = [
        (argument.name, int(argument.value.value))
        for argument in engine.manifest.arguments
        if argument.role == "runtime" and isinstance(argument.value, IntValue)
    ]
    for name, number in [each for each in numbers if each[1] > 1][:_MOST_NUMBERS]:
        yield [], {name: str(number - 1)}


def _redrawable(engine: Engine) -> list[int]:
    """Floats if there are any, else integers: which of them are read, no written byte can show."""
    kinds: tuple[list[int], list[int]] = [], []
    for unit in units(engine.manifest):
        floats = [engine.manifest.views[view].dtype.startswith(FLOATS) for view in unit.views]
        if all(floats) or not any(floats):
            kinds[not all(floats)].extend(unit.views)
    return kinds[0] or kinds[1]


def _printed(
    engine: Engine, which: str, redrawn: list[int], scalars: dict[str, str]
) -> tuple[Outcome, bytes]:
    which = engine.variant(which, scalars)
    engine.restore()
    if redrawn:
        redraw(engine, redrawn, 1)
    return engine.printed(which, _MOST_BYTES + 1)


def _lines(text: bytes) -> Lines:
    return Counter(text.splitlines())


def _difference(found: Lines, expected: Lines, other: str) -> str:
    """A line of which there are fewer or more than expected, or nothing. ``other`` says whose they are."""
    for line in (*(expected - found), *(found - expected)):
        return f"prints {_text(line)} {found[line]:,} times, {other} {expected[line]:,} times"
    return ""


def _text(line: bytes) -> str:
    return repr(visible(line.decode(errors="replace"), _SHOWN))


def _open(why: str) -> Verdict:
    return undecided(f"nothing to compare: nothing is written, and {why}", why)
