"""Sanitizer reports as data: the document of ``kerncap sanitize --json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kerncap.report.sanitize_answer import NO_PROGRAM, counts_of, unproven_of
from kerncap.report.sanitize_baseline import Baseline, counts_of_run
from kerncap.report.sanitize_causes import causes_of
from kerncap.report.sanitize_fingerprints import of_causes
from kerncap.report.sanitize_host_reads import data_of
from kerncap.sanitizer.findings import Finding, LaunchReport, Place, Program, Violated
from kerncap.sanitizer.ttir.ir import Location


def document(
    reports: Sequence[LaunchReport], program: Program = NO_PROGRAM, baseline: Baseline | None = None
) -> dict[str, Any]:
    """``{"result": "pass" | "fail" | "undecided", "launches": […]}``; one entry per different launch."""
    return {
        "result": counts_of_run(reports, program, baseline).answer.value,
        "causes": _causes(reports, baseline),
        "launches": [_launch(report) for report in reports],
        "host_reads": [data_of(read) for read in program.host_reads],
    }


def _causes(reports: Sequence[LaunchReport], baseline: Baseline | None) -> list[dict[str, Any]]:
    causes = causes_of(reports)
    new = [] if baseline is None else baseline.new_causes(reports, causes)
    return [
        {
            "check": cause.finding.check,
            "kernel": reports[cause.position].kernel,
            **_place(cause.finding.location),
            "argument": cause.finding.argument,
            "message": cause.finding.message,
            "launches": cause.launch_count,
            "accesses": cause.findings,
            "configurations": cause.configurations,
            "of_configurations": cause.of_configurations,
            "fingerprint": fingerprint,
            "baseline_state": None if baseline is None else "new" if cause in new else "unchanged",
        }
        for cause, fingerprint in zip(causes, of_causes(reports, causes), strict=True)
    ]


def _launch(report: LaunchReport) -> dict[str, Any]:
    found = [f for one in report.settled if isinstance(one.verdict, Violated) for f in one.verdict.findings]
    counts = counts_of(report)
    return {
        "kernel": report.kernel,
        "grid": list(report.grid),
        "for_all": None
        if (stated := report.for_all) is None
        else {"intervals": dict(stated.sizes), "grid": list(stated.grid), "assumed": list(stated.assumed)},
        "result": counts.answer.value,
        "label": report.label,
        "configuration": dict(report.configuration),
        "repeats": report.repeats,
        "findings": [_finding(finding) for finding in found if not finding.note],
        # Worth knowing and no findings.
        "noted": [{**_finding(finding), "note": finding.note} for finding in found if finding.note],
        # Memory operations; `findings` may be several of one.
        "proved": counts.proved,
        "proved_for_these_contents": counts.contents,
        "violated": counts.violated,
        "unproven": [
            {**_place(entry.location), "check": entry.check, "reason": entry.reason}
            for entry in unproven_of(report)
        ],
        "notes": list(report.notes),
        "python_stack": [list(frame) for frame in report.python_stack],
        "seconds": round(report.seconds, 6),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    other = finding.other
    return {
        "check": finding.check,
        "access": finding.access,
        **_place(finding.location),
        "callers": [[frame.file, frame.line, frame.column] for frame in finding.location.frames[1:]],
        **_witness(finding.place),
        "argument": finding.argument if finding.argument is not None else finding.place.argument,
        "message": finding.message,
        "shape": None if finding.shape is None else list(finding.shape),
        "strides": None if finding.strides is None else list(finding.strides),
        "width_bytes": finding.width_bytes,
        "beyond_bytes": finding.beyond_bytes,
        "lands_in": finding.lands_in,
        "address_expression": finding.expression,
        "mask_expression": finding.mask_expression,
        "suggestion": finding.suggestion,
        "for_these_contents": finding.contents,
        "at": dict(finding.sizes),
        "smallest": finding.smallest,
        "other": None
        if other is None
        else {"access": other.access, **_place(other.location), **_witness(other.place)},
    }


def _place(location: Location) -> dict[str, Any]:
    frame = location.frame
    if frame is None:
        return {"file": None, "line": None, "column": None}
    return {"file": frame.file, "line": frame.line, "column": frame.column}


def _witness(place: Place) -> dict[str, Any]:
    return {
        "argument": place.argument,
        "program_id": list(place.program_id),
        "lane": list(place.lane),
        "iterations": [[name, value] for name, value in place.iterations],  # outermost first
        "offset_bytes": place.offset_bytes,
        "element": place.element,
        "mask": place.mask,
    }
