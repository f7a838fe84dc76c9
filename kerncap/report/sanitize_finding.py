"""One finding as lines of text: what, where in the source, and the facts of its witness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kerncap.log import from_here, one_line
from kerncap.printable import printable
from kerncap.sanitizer.diagnose.finding_sentence import count_bytes, describe_place, spot_of
from kerncap.sanitizer.diagnose.render import source_context
from kerncap.sanitizer.findings import Finding, LaunchReport
from kerncap.sanitizer.ttir.ir import Location

TITLES = {
    "oob": "out of bounds",
    "race": "race between programs",
    "uninit": "read of unwritten memory",
    "overflow": "integer overflow in an address",
    "promise": "broken promise to the compiler",
    "alignment": "misaligned access",
    "descriptor": "invalid tensor descriptor",
    "shared": "shared memory used out of order",
}
_SHOWN_FRAMES = 6
_SOURCE_WIDTH = 200
_LIBRARY = "/triton/language/"  # frames that no user can change


def finding_lines(report: LaunchReport, finding: Finding, more: Sequence[tuple[str, str]] = ()) -> list[str]:
    """Message, source with its context, the callers inside the kernel, then facts by name, ``more`` last."""
    lines = [f"  error[{finding.check}]: {one_line(finding.message)}"]
    lines.append(f"    --> {place(finding.location)}")
    lines += source_lines(finding.location, report.sources)
    for caller in finding.location.frames[1:]:
        if _LIBRARY not in caller.file:
            lines.append(f"    called from {shown_path(caller.file)}:{caller.line}")
    facts = [*_facts(finding), *more]
    column = max((len(name) for name, _ in facts), default=0)
    lines += [f"    {one_line(name):<{column}}  {one_line(value)}" for name, value in facts]
    return lines


def source_lines(location: Location, sources: Mapping[str, str]) -> list[str]:
    """The place's line between its neighbours, blank ones at the ends left out."""
    context = [(number, _shown(text), here) for number, text, here in source_context(location, sources)]
    while context and not context[-1][1] and not context[-1][2]:
        context.pop()
    while context and not context[0][1] and not context[0][2]:
        context.pop(0)
    width = max((len(str(number)) for number, _, _ in context), default=0)
    return [
        f"    {'>' if here else ' '} {number:>{width}} | {text}".rstrip() for number, text, here in context
    ]


def _shown(line: str) -> str:
    """A source line as it is, without what could steer a terminal: it may be a stranger's."""
    plain = printable(line.rstrip("\r\n")).expandtabs(4).rstrip()
    return plain if len(plain) <= _SOURCE_WIDTH else plain[: _SOURCE_WIDTH - 1] + "…"


def note_line(finding: Finding) -> str:
    """What is worth knowing and is no finding, on one line."""
    here = place(finding.location)
    if finding.other is not None:
        there = place(finding.other.location)
        both = here if here == there else f"{here} and {there}"
        programs = f"{finding.place.program_id} and {finding.other.place.program_id}"
        return f"  note[race]: {both}: programs {programs} store the same value to {spot_of(finding.place)}"
    return f"  note[{finding.check}]: {here}: {one_line(finding.message)}"


def known_line(finding: Finding) -> str:
    """A finding that a baseline has, on one line."""
    return f"  known[{finding.check}]: {place(finding.location)}: {one_line(finding.message)}"


def place(location: Location) -> str:
    """``kernel.py:12:5``."""
    frame = location.frame
    if frame is None:
        return "an unknown place"
    column = f":{frame.column}" if frame.column else ""
    return f"{shown_path(frame.file)}:{frame.line}{column}"


def shown_path(name: str) -> str:
    """A file's name as it is opened from here."""
    return one_line(from_here(name))


def _facts(finding: Finding) -> list[tuple[str, str]]:
    facts = [("witness", _witness(finding))]
    if finding.expression:
        facts.append(("address", finding.expression))
    if finding.mask_expression and finding.mask_expression != "True":
        held = "" if finding.place.mask is None else f"  ({finding.place.mask} there)"
        facts.append(("mask", f"{finding.mask_expression}{held}"))
    if finding.argument and finding.shape is not None:
        strides = f", strides {_tuple(finding.strides)}" if finding.strides is not None else ""
        facts.append(("tensor", f"{finding.argument}: shape {_tuple(finding.shape)}{strides}"))
    if finding.lands_in:
        facts.append(("lands in", finding.lands_in))
    if finding.other is not None:
        other = finding.other
        apart = finding.check == "race" and other.location != finding.location
        also = "; counted as a separate finding" if apart else ""
        spot = f"{other.access} at {place(other.location)}, {describe_place(other.place)}{also}"
        facts.append(("other", spot))
    if finding.suggestion:
        facts.append(("try", finding.suggestion))
    if finding.contents:
        facts.append(("holds", "for these contents of memory"))
    for file, line, function in reversed(finding.python_stack[-_SHOWN_FRAMES:]):
        facts.append(("launched", f"{shown_path(file)}:{line} in {function}"))
    return facts


def _witness(finding: Finding) -> str:
    """``program (3, 0, 0), lane 232: 4 bytes at scores_ptr + 1000 (byte 4,000)``."""
    text = describe_place(finding.place)
    if not finding.width_bytes:
        return text
    spot = spot_of(finding.place)
    if finding.beyond_bytes:
        side = "before the start" if finding.beyond_bytes < 0 else "past the end"
        spot += f", {count_bytes(abs(finding.beyond_bytes))} {side}"
    return f"{text}: {count_bytes(finding.width_bytes)} at {spot}"


def _tuple(numbers: tuple[int, ...]) -> str:
    return str(tuple(numbers))
