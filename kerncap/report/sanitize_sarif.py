"""Sanitizer reports as SARIF 2.1.0, which code hosts show at the lines.

Source: OASIS, Static Analysis Results Interchange Format 2.1.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

import kerncap
from kerncap.report.sanitize_answer import NO_PROGRAM, UnprovenEntry, unproven_of
from kerncap.report.sanitize_baseline import Baseline
from kerncap.report.sanitize_causes import Cause, causes_of
from kerncap.report.sanitize_finding import TITLES
from kerncap.report.sanitize_fingerprints import NAME, of_causes, of_host_reads, of_unproven
from kerncap.report.sanitize_host_reads import location_of, message_of
from kerncap.sanitizer.findings import NOT_KNOWN, HostRead, LaunchReport, Program
from kerncap.sanitizer.ttir.ir import Frame, Location

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def document(
    reports: Sequence[LaunchReport], program: Program = NO_PROGRAM, baseline: Baseline | None = None
) -> dict[str, Any]:
    """One run with a result for each cause of findings; of notes, too, with the level "note".

    What is unproven is a result as well, of the kind "open": a code host must not take silence for a proof.
    With a baseline each result has a ``baselineState``, and what only the baseline has is "absent".
    """
    results: list[dict[str, Any]] = []
    for causes in (causes_of(reports), causes_of(reports, notes=True)):
        found = zip(causes, of_causes(reports, causes), strict=True)
        results += [_result(reports[cause.position], cause, one) for cause, one in found]
    results += _unproven(reports)
    reads = zip(program.host_reads, of_host_reads(program.host_reads), strict=True)
    results += [_host_read(read, one) for read, one in reads]
    if baseline is not None:
        _compare(results, baseline)
    rules = [{"id": name, "shortDescription": {"text": title}} for name, title in TITLES.items()]
    driver = {"name": "kerncap", "version": kerncap.__version__, "rules": rules}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def joined(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One document of what several processes found; the same finding once, with all its occurrences.

    What only the baseline has is absent only if no process found it.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for document in documents:
        for result in document["runs"][0]["results"]:
            key = (result["partialFingerprints"][NAME], result["level"])
            same = found.get(key)
            if same is None or (_is_absent(same) and not _is_absent(result)):
                found[key] = dict(result)
            elif not _is_absent(result) and "occurrenceCount" in same:
                same["occurrenceCount"] += result["occurrenceCount"]
    run = {**documents[0]["runs"][0], "results": list(found.values())}
    return {**documents[0], "runs": [run]}


def _is_absent(result: dict[str, Any]) -> bool:
    return result.get("baselineState") == "absent"


def _result(report: LaunchReport, cause: Cause, fingerprint: str) -> dict[str, Any]:
    finding = cause.finding
    level = "note" if finding.note else "error"
    text = f"{report.kernel}[{report.grid_text}]: {finding.message}"
    result = _of_rule(finding.check, level, text, _locations(finding.location), fingerprint)
    result["occurrenceCount"] = cause.launch_count
    result["properties"] = {
        "argument": finding.argument,
        "program_id": list(finding.place.program_id),
        "lane": list(finding.place.lane),
        "offset_bytes": finding.place.offset_bytes,
        "launches": cause.launch_count,
        "accesses": cause.findings,
        "configurations": cause.configurations,
        "of_configurations": cause.of_configurations,
    }
    related = _locations(finding.other.location) if finding.other is not None else []
    if related:
        related[0]["message"] = {"text": f"the other access: {finding.other.access}"}  # type: ignore[union-attr]
        result["relatedLocations"] = related
    return result


def _host_read(read: HostRead, fingerprint: str) -> dict[str, Any]:
    result = _of_rule("uninit", "error", message_of(read), _locations(location_of(read)), fingerprint)
    if read.allocated:
        file, line, _ = read.allocated[-1]
        (related,) = _locations(Location((Frame(file, line, 0),)))
        result["relatedLocations"] = [{**related, "message": {"text": "the allocation"}}]
    return result


def _unproven(reports: Sequence[LaunchReport]) -> list[dict[str, Any]]:
    """One for a place, a check and a reason of a kernel."""
    grouped: dict[tuple[str, UnprovenEntry], list[LaunchReport]] = {}
    for report in reports:
        for entry in unproven_of(report):
            if entry.reason != NOT_KNOWN:  # which leaves the answer as it is
                grouped.setdefault((report.kernel, entry), []).append(report)
    found = [(group[0], entry) for (_, entry), group in grouped.items()]
    results = []
    for (report, entry), one, group in zip(found, of_unproven(found), grouped.values(), strict=True):
        text = f"{report.kernel}[{report.grid_text}]: unproven: {entry.reason}"
        # The only level that goes with a kind other than "fail" (3.27.10).
        result = _of_rule(entry.check, "none", text, _locations(entry.location), one)
        result["kind"] = "open"
        result["occurrenceCount"] = sum(1 + one.repeats for one in group)
        results.append(result)
    return results


def _of_rule(
    rule: str, level: str, text: str, locations: list[dict[str, Any]], fingerprint: str
) -> dict[str, Any]:
    return {
        "ruleId": rule,
        "ruleIndex": list(TITLES).index(rule),
        "level": level,
        "message": {"text": text},
        "locations": locations,
        "partialFingerprints": {NAME: fingerprint},
    }


def _compare(results: list[dict[str, Any]], baseline: Baseline) -> None:
    """Say of each result whether the baseline has it, and add what only the baseline has."""
    before = {(one.fingerprint, one.level) for one in baseline.results}
    for result in results:
        known = (result["partialFingerprints"][NAME], result["level"]) in before
        result["baselineState"] = "unchanged" if known else "new"
    for one in list(baseline.absent([result["partialFingerprints"][NAME] for result in results])):
        place = one.location
        locations = [] if place is None else [_physical(place[0], {"startLine": place[1]})]
        gone = _of_rule(one.rule, one.level, one.message, locations, one.fingerprint)
        if one.level == "none":
            gone["kind"] = "open"
        results.append({**gone, "baselineState": "absent"})


def _locations(location: Location) -> list[dict[str, Any]]:
    frame = location.frame
    if frame is None:
        return []
    region = {"startLine": max(1, frame.line)}
    if frame.column:
        region["startColumn"] = frame.column
    return [_physical(_uri(frame.file), region)]


def _physical(uri: str, region: dict[str, int]) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}


def _uri(name: str) -> str:
    path = PurePosixPath(name)
    return path.as_uri() if path.is_absolute() else quote(name)
