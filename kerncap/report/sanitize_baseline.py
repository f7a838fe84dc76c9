"""Findings that were known before: those of a SARIF log that an earlier `kerncap sanitize` wrote.

Source: OASIS, Static Analysis Results Interchange Format 2.1.0, partialFingerprints and baselineState.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kerncap.errors import UsageError
from kerncap.log import one_line
from kerncap.printable import visible
from kerncap.regular_file import read_regular
from kerncap.report.sanitize_answer import NO_PROGRAM, Counts, counts_of_all
from kerncap.report.sanitize_causes import Cause, causes_of
from kerncap.report.sanitize_finding import TITLES
from kerncap.report.sanitize_fingerprints import NAME, of_causes, of_host_reads
from kerncap.sanitizer.findings import HostRead, LaunchReport, Program

MAX_BYTES = 64 << 20
_MOST_RESULTS = 100_000
_MOST_TEXT = 4000
_REMEDY = "give what `kerncap sanitize --sarif FILE` wrote"


@dataclass(frozen=True)
class KnownResult:
    """One result of the log, as far as it is needed here."""

    fingerprint: str
    is_finding: bool  # an error; what is noted or open excuses no finding
    rule: str
    level: str
    message: str
    location: tuple[str, int] | None  # uri, line


@dataclass(frozen=True)
class Baseline:
    """``name`` is the file's, as the user gave it."""

    name: str
    results: tuple[KnownResult, ...] = ()
    findings: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        found = frozenset(one.fingerprint for one in self.results if one.is_finding)
        object.__setattr__(self, "findings", found)

    def new_causes(self, reports: Sequence[LaunchReport], causes: Sequence[Cause]) -> list[Cause]:
        """Those that the log does not have, in the order given."""
        return [
            cause
            for cause, one in zip(causes, of_causes(reports, causes), strict=True)
            if one not in self.findings
        ]

    def known_reads(self, program: Program) -> list[HostRead]:
        """The program's own findings that the log has, too."""
        found = zip(program.host_reads, of_host_reads(program.host_reads), strict=True)
        return [read for read, one in found if one in self.findings]

    def absent(self, fingerprints: Sequence[str]) -> Iterator[KnownResult]:
        """What the log has and this run has not."""
        left = Counter(fingerprints)
        for result in self.results:
            if left[result.fingerprint]:
                left[result.fingerprint] -= 1
            else:
                yield result


def counts_of_run(
    reports: Sequence[LaunchReport], program: Program = NO_PROGRAM, baseline: Baseline | None = None
) -> Counts:
    """All launches together. With a baseline, causes of findings are counted, the known ones apart."""
    counts = counts_of_all(reports, program)
    if baseline is None:
        return counts
    causes = causes_of(reports)
    new = len(baseline.new_causes(reports, causes))
    known = len(baseline.known_reads(program))
    new_reads = len(program.host_reads) - known
    return replace(counts, findings=new + new_reads, known=len(causes) - new + known)


def read(path: Path) -> Baseline:
    """The results of a log that kerncap wrote. Raises UsageError."""
    name = visible(str(path))
    data = read_regular(path, MAX_BYTES)
    try:
        log = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name}: not JSON ({one_line(error)}); {_REMEDY}") from error
    if not isinstance(log, dict) or log.get("version") != "2.1.0" or not isinstance(log.get("runs"), list):
        raise UsageError(f"{name}: not a SARIF 2.1.0 log; {_REMEDY}")
    runs = [one for one in log["runs"] if _driver(one) == "kerncap"]
    if not runs:
        raise UsageError(f"{name}: none of its runs is kerncap's; {_REMEDY}")
    results: list[KnownResult] = []
    for run in runs:
        entries = run.get("results")
        if not isinstance(entries, list) or len(entries) > _MOST_RESULTS:
            raise UsageError(f"{name}: results is not a list of at most {_MOST_RESULTS:,}; {_REMEDY}")
        for entry in entries:
            found = _result(entry)
            if found is None:
                raise UsageError(f"{name}: a result has no {NAME} fingerprint; {_REMEDY}")
            if entry.get("baselineState") != "absent":
                results.append(found)
    return Baseline(name, tuple(results))


def _driver(run: object) -> object:
    return _at(run, "tool", "driver", "name")


def _result(entry: object) -> KnownResult | None:
    fingerprint = _at(entry, "partialFingerprints", NAME)
    rule, level = _at(entry, "ruleId"), _at(entry, "level")
    if not isinstance(fingerprint, str) or not isinstance(rule, str) or rule not in TITLES:
        return None
    if level not in ("error", "note", "none"):
        return None
    text = _at(entry, "message", "text")
    place = _at(entry, "locations", 0, "physicalLocation")
    uri, line = _at(place, "artifactLocation", "uri"), _at(place, "region", "startLine")
    known = isinstance(uri, str) and len(uri) <= _MOST_TEXT and isinstance(line, int) and 0 < line < 1 << 31
    return KnownResult(
        fingerprint[:64],
        level == "error",
        str(rule),
        str(level),
        one_line(text)[:_MOST_TEXT] if isinstance(text, str) else "",
        (str(uri), int(line)) if known else None,
    )


def _at(value: object, *path: str | int) -> Any:
    """What lies at the end of a path; None if a step of it is missing."""
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value
