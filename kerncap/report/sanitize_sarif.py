"""Sanitizer reports as SARIF 2.1.0, which code hosts show at the lines.

Source: OASIS, Static Analysis Results Interchange Format 2.1.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

import kerncap
from kerncap.report.sanitize_counts import NO_PROGRAM, UnprovenEntry, unproven_of
from kerncap.report.sanitize_finding import TITLES
from kerncap.report.sanitize_host_reads import location_of, message_of
from kerncap.sanitizer.findings import NOT_KNOWN, Finding, HostRead, LaunchReport, Program, Violated
from kerncap.sanitizer.ttir.ir import Frame, Location

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def document(reports: Sequence[LaunchReport], program: Program = NO_PROGRAM) -> dict[str, Any]:
    """One run with a result per finding; what is only noted has the level "note".

    What is unproven is a result too, of the kind "open": a code host must not take silence for a proof.
    """
    names = list(TITLES)
    results = [
        _result(report, finding, names.index(finding.check))
        for report in reports
        for one in report.settled
        if isinstance(one.verdict, Violated)
        for finding in one.verdict.findings
    ]
    results += [
        _open(report, entry, names.index(entry.check))
        for report in reports
        for entry in unproven_of(report)
        if entry.reason != NOT_KNOWN  # which leaves the answer as it is
    ]
    results += [_host_read(read, names.index("uninit")) for read in program.host_reads]
    rules = [{"id": name, "shortDescription": {"text": title}} for name, title in TITLES.items()]
    driver = {"name": "kerncap", "version": kerncap.__version__, "rules": rules}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(report: LaunchReport, finding: Finding, rule: int) -> dict[str, Any]:
    grid = ", ".join(str(n) for n in report.grid)
    result: dict[str, Any] = {
        "ruleId": finding.check,
        "ruleIndex": rule,
        "level": "note" if finding.note else "error",
        "message": {"text": f"{report.kernel}[{grid}]: {finding.message}"},
        "locations": _locations(finding.location),
        "properties": {
            "argument": finding.argument,
            "program_id": list(finding.place.program_id),
            "lane": list(finding.place.lane),
            "offset_bytes": finding.place.offset_bytes,
        },
    }
    related = _locations(finding.other.location) if finding.other is not None else []
    if related:
        related[0]["message"] = {"text": f"the other access: {finding.other.access}"}  # type: ignore[union-attr]
        result["relatedLocations"] = related
    return result


def _host_read(read: HostRead, rule: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": "uninit",
        "ruleIndex": rule,
        "level": "error",
        "message": {"text": message_of(read)},
        "locations": _locations(location_of(read)),
    }
    if read.allocated:
        file, line, _ = read.allocated[-1]
        (related,) = _locations(Location((Frame(file, line, 0),)))
        result["relatedLocations"] = [{**related, "message": {"text": "the allocation"}}]
    return result


def _open(report: LaunchReport, entry: UnprovenEntry, rule: int) -> dict[str, Any]:
    grid = ", ".join(str(n) for n in report.grid)
    return {
        "ruleId": entry.check,
        "ruleIndex": rule,
        "kind": "open",
        "level": "none",  # the only one that goes with a kind other than "fail" (3.27.10)
        "message": {"text": f"{report.kernel}[{grid}]: unproven: {entry.reason}"},
        "locations": _locations(entry.location),
    }


def _locations(location: Location) -> list[dict[str, Any]]:
    frame = location.frame
    if frame is None:
        return []
    region = {"startLine": max(1, frame.line)}
    if frame.column:
        region["startColumn"] = frame.column
    return [{"physicalLocation": {"artifactLocation": {"uri": _uri(frame.file)}, "region": region}}]


def _uri(name: str) -> str:
    path = PurePosixPath(name)
    return path.as_uri() if path.is_absolute() else quote(name)
