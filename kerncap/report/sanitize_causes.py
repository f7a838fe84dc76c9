"""Findings of one cause: over configurations, launches and accesses of one line they are shown once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kerncap.sanitizer.findings import Finding, LaunchReport, Violated
from kerncap.sanitizer.ttir.ir import Location

# What corrupts memory first: the rest is often a consequence.
_ORDER = ("oob", "shared", "overflow", "race", "uninit", "alignment", "descriptor", "promise")

_Line = tuple[str, int] | None


@dataclass
class Cause:
    """``finding``, of the report at ``position``, is the strongest witness of ``findings`` findings."""

    position: int
    finding: Finding
    findings: int = 0
    launches: dict[int, int] = field(default_factory=dict)  # by the report's position: equal ones, too
    configurations: int = 0
    of_configurations: int = 0

    @property
    def launch_count(self) -> int:
        return sum(self.launches.values())


def causes_of(reports: Sequence[LaunchReport], notes: bool = False) -> list[Cause]:
    """Of the findings, or of the notes: the worst kind first, then as they came."""
    causes: dict[object, Cause] = {}
    for position, report in enumerate(reports):
        for finding in once_each([one for one in all_of(report) if bool(one.note) == notes]):
            key = (report.kernel, finding.check, finding.note, _lines_of(finding), finding.argument)
            cause = causes.setdefault(key, Cause(position, finding))
            cause.findings += 1
            cause.launches[position] = 1 + report.repeats
            if _strength(finding) > _strength(cause.finding):
                cause.position, cause.finding = position, finding
    for cause in causes.values():
        kernel = reports[cause.position].kernel
        cause.configurations = _configurations([reports[one] for one in cause.launches], kernel)
        cause.of_configurations = _configurations(reports, kernel)
    return sorted(causes.values(), key=lambda cause: _ORDER.index(cause.finding.check))


def all_of(report: LaunchReport) -> list[Finding]:
    """Findings and notes."""
    return [f for one in report.settled if isinstance(one.verdict, Violated) for f in one.verdict.findings]


def once_each(found: list[Finding]) -> list[Finding]:
    """Of a race, which is found at both of its accesses, the first one."""
    shown: list[Finding] = []
    races: set[tuple[Location, Location]] = set()
    for finding in found:
        if finding.other is not None:
            pair = (finding.location, finding.other.location)
            if pair[::-1] in races or (finding.note and pair in races):
                continue
            races.add(pair)
        shown.append(finding)
    return shown


def _lines_of(finding: Finding) -> frozenset[_Line]:
    """Of the access; of a race's both."""
    places = [finding.location, *([finding.other.location] if finding.other is not None else [])]
    return frozenset(line_of(one) for one in places)


def line_of(location: Location) -> _Line:
    return None if location.frame is None else (location.frame.file, location.frame.line)


def _strength(finding: Finding) -> tuple[bool, int]:
    """What holds for all contents is more than what holds for these, and far outside more than near."""
    return not finding.contents, abs(finding.beyond_bytes or 0)


def _configurations(reports: Sequence[LaunchReport], kernel: str) -> int:
    return len({tuple(sorted(one.configuration.items())) for one in reports if one.kernel == kernel})


def seen(cause: Cause) -> Iterator[str]:
    """``in 4 of 7 configurations, 12 launches, 3 accesses``; what is one is left out."""
    if cause.of_configurations > 1:
        yield f"{cause.configurations} of {cause.of_configurations} configurations"
    if cause.launch_count > 1:
        yield f"{cause.launch_count:,} launches"
    if cause.findings > len(cause.launches):
        yield f"{cause.findings:,} accesses"
