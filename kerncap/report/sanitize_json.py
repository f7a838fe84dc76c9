"""Sanitizer reports as data: the document of ``kerncap sanitize --json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from kerncap.report.documents import sanitize as documents
from kerncap.report.sanitize_answer import NO_PROGRAM, counts_of, unproven_of
from kerncap.report.sanitize_baseline import Baseline, counts_of_run
from kerncap.report.sanitize_causes import all_of, causes_of
from kerncap.report.sanitize_fingerprints import of_causes
from kerncap.report.sanitize_host_reads import message_of
from kerncap.sanitizer.findings import Finding, LaunchReport, OtherAccess, Program
from kerncap.sanitizer.ttir.ir import Location


def document(
    reports: Sequence[LaunchReport],
    program: Program = NO_PROGRAM,
    baseline: Baseline | None = None,
    notes: tuple[str, ...] = (),
    target_status: int | None = None,
) -> documents.SanitizeDocument:
    """One entry per different launch; ``target_status`` if a program made them."""
    return documents.SanitizeDocument(
        result=counts_of_run(reports, program, baseline).answer.value,
        causes=_causes(reports, baseline),
        launches=tuple(_launch(report) for report in reports),
        host_reads=tuple(
            documents.SanitizeHostRead(**vars(read), message=message_of(read)) for read in program.host_reads
        ),
        notes=notes,
        target_status=target_status,
    )


def _causes(
    reports: Sequence[LaunchReport], baseline: Baseline | None
) -> tuple[documents.SanitizeCause, ...]:
    causes = causes_of(reports)
    new = [] if baseline is None else baseline.new_causes(reports, causes)
    return tuple(
        documents.SanitizeCause(
            check=cause.finding.check,
            kernel=reports[cause.position].kernel,
            **_where(cause.finding.location),
            argument=cause.finding.argument,
            message=cause.finding.message,
            launches=cause.launch_count,
            accesses=cause.findings,
            configurations=cause.configurations,
            of_configurations=cause.of_configurations,
            fingerprint=fingerprint,
            baseline_state=None if baseline is None else "new" if cause in new else "unchanged",
        )
        for cause, fingerprint in zip(causes, of_causes(reports, causes), strict=True)
    )


def _launch(report: LaunchReport) -> documents.SanitizedLaunch:
    found = all_of(report)
    counts = counts_of(report)
    stated = report.for_all
    return documents.SanitizedLaunch(
        kernel=report.kernel,
        grid=report.grid,
        for_all=None
        if stated is None
        else documents.SanitizeForAll(intervals=dict(stated.sizes), grid=stated.grid, assumed=stated.assumed),
        result=counts.answer.value,
        label=report.label,
        configuration=dict(report.configuration),
        repeats=report.repeats,
        findings=tuple(_finding(each) for each in found if not each.note),
        noted=tuple(
            documents.SanitizeNote(**asdict(_finding(each)), note=each.note) for each in found if each.note
        ),
        proved=counts.proved,
        proved_for_these_contents=counts.contents,
        violated=counts.violated,
        unproven=tuple(
            documents.OpenQuestion(**_where(entry.location), check=entry.check, reason=entry.reason)
            for entry in unproven_of(report)
        ),
        notes=report.notes,
        python_stack=report.python_stack,
        seconds=round(report.seconds, 6),
    )


def _finding(finding: Finding) -> documents.SanitizeFinding:
    return documents.SanitizeFinding(
        check=finding.check,
        callers=tuple((each.file, each.line, each.column) for each in finding.location.frames[1:]),
        **asdict(_witness(finding, finding.argument)),
        message=finding.message,
        shape=finding.shape,
        strides=finding.strides,
        width_bytes=finding.width_bytes,
        beyond_bytes=finding.beyond_bytes,
        lands_in=finding.lands_in,
        address_expression=finding.expression,
        mask_expression=finding.mask_expression,
        suggestion=finding.suggestion,
        for_these_contents=finding.contents,
        at=dict(finding.sizes),
        smallest=finding.smallest,
        other=None if finding.other is None else _witness(finding.other),
    )


def _witness(found: Finding | OtherAccess, argument: str | None = None) -> documents.Witness:
    place = vars(found.place)
    if argument is not None:
        place = {**place, "argument": argument}
    return documents.Witness(access=found.access, **_where(found.location), **place)


def _where(location: Location) -> dict[str, Any]:
    """The fields of `documents.Where`, None if there is no place."""
    frame = location.frame
    return {name: frame and getattr(frame, name) for name in documents.Where.__struct_fields__}
