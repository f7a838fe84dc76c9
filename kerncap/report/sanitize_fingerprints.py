"""What distinguishes the cause of a finding from others, in this run and in earlier and later ones.

A check, a kernel, how memory is accessed, the tensor, and the text of the line: lines that are inserted above
it, another tile and another grid change none of these. An expression is in it only if no text is known.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kerncap.report.sanitize_answer import UnprovenEntry
from kerncap.report.sanitize_causes import Cause
from kerncap.report.sanitize_host_reads import location_of
from kerncap.sanitizer.diagnose.render import source_context
from kerncap.sanitizer.findings import Finding, HostRead, LaunchReport
from kerncap.sanitizer.ttir.ir import Location

# By the standard a name with a version: what is made in another way has another one.
NAME = "kerncapCause/v1"
_NOT_TEXT = frozenset((tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT))


def of_causes(reports: Sequence[LaunchReport], causes: Sequence[Cause]) -> list[str]:
    """One for each; causes at lines of one text are numbered from the first line on."""
    return _numbered(
        [(_of_finding(reports[one.position], one.finding), one.finding.location) for one in causes]
    )


def of_host_reads(reads: Sequence[HostRead]) -> list[str]:
    """One for each."""
    parts = [
        (["uninit", one.operation, one.argument, line_text(location_of(one), {})], location_of(one))
        for one in reads
    ]
    return _numbered(parts)


def of_unproven(found: Sequence[tuple[LaunchReport, UnprovenEntry]]) -> list[str]:
    """One for each. The reason is left out: it says how far the analysis came."""
    parts = [
        (["open", entry.check, report.kernel, line_text(entry.location, report.sources)], entry.location)
        for report, entry in found
    ]
    return _numbered(parts)


def line_text(location: Location, sources: Mapping[str, str]) -> str:
    """The text of a line without its comment, one blank between words; empty if nobody has the text."""
    line = next((text for _, text, here in source_context(location, sources) if here), "")
    return " ".join(_words(line))


def _of_finding(report: LaunchReport, finding: Finding) -> list[str]:
    places = [(finding.access, finding.location)]
    if finding.other is not None:
        places.append((finding.other.access, finding.other.location))
    texts = sorted(f"{access} {line_text(location, report.sources)}" for access, location in places)
    kind = finding.note or "error"
    argument = finding.argument or finding.place.argument or ""
    if not line_text(finding.location, report.sources):
        texts.append(re.sub(r"\d+", "#", finding.expression or ""))
    return [kind, finding.check, report.kernel, argument, *texts]


def _words(line: str) -> Iterator[str]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(line.strip()).readline):
            if token.type not in _NOT_TEXT and token.string:
                yield token.string
    except (tokenize.TokenError, SyntaxError):  # a call that goes on in the next line
        pass


def _numbered(found: Iterable[tuple[list[str], Location]]) -> list[str]:
    """Digests, in the order given; of equal parts the second by line has another one than the first."""
    parts = [(json.dumps(one), location) for one, location in found]
    order = sorted(range(len(parts)), key=lambda at: _position(parts[at][1]))
    seen: Counter[str] = Counter()
    digests = [""] * len(parts)
    for at in order:
        text = parts[at][0]
        digests[at] = hashlib.sha256(f"{text} {seen[text]}".encode()).hexdigest()[:32]
        seen[text] += 1
    return digests


def _position(location: Location) -> tuple[str, int, int]:
    frame = location.frame
    return ("", 0, 0) if frame is None else (frame.file, frame.line, frame.column)
