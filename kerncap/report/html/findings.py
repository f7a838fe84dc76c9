"""The sanitizer's answers, each next to the line of the source that it is about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kerncap.report.html.linked_sources import Sources
from kerncap.report.html.material import Material, plain
from kerncap.report.html.results import Finding, SanitizedLaunch, Spot, Unproven, checked
from kerncap.report.sanitize_finding import TITLES

MAX_NOTES = 400


def launches(material: Material) -> list[SanitizedLaunch]:
    """Of this kernel, in all documents of the sanitizer."""
    names = {material.truth.kernel.name, material.truth.kernel.qualified_name}
    found = []
    for document in material.of("sanitize"):
        found += [one for one in checked("sanitize", document).launches if one.kernel in names]
    return found


def notes(material: Material, sources: Sources) -> list[dict[str, Any]]:
    """Findings first, then what is worth knowing, then what could not be proved; each one once."""
    groups: dict[str, list[dict[str, Any]]] = {"finding": [], "noted": [], "unproven": []}
    for launch in launches(material):
        groups["finding"] += [_finding(one, "finding", sources) for one in launch.findings]
        groups["noted"] += [_finding(one, "noted", sources) for one in launch.noted]
        groups["unproven"] += [_unproven(one, sources) for one in launch.unproven]
    found, seen = [], set()
    for group in groups.values():
        for note in group:
            key = (note["level"], note["check"], note["where"], note["message"])
            if key not in seen:
                seen.add(key)
                found.append(note)
    if len(found) > MAX_NOTES:
        material.left_out.append(f"{len(found) - MAX_NOTES:,} of {len(found):,} notes of the sanitizer")
    for number, note in enumerate(found[:MAX_NOTES]):
        note["id"] = number
    return found[:MAX_NOTES]


def _finding(finding: Finding, level: str, sources: Sources) -> dict[str, Any]:
    title = TITLES.get(finding.check, "")
    return {
        "level": level, "check": plain(finding.check, 40), "title": title, "message": plain(finding.message),
        "facts": [[name, plain(value)] for name, value in _facts(finding)], **_spot(finding, sources),
    }  # fmt: skip


def _unproven(one: Unproven, sources: Sources) -> dict[str, Any]:
    return {
        "level": "unproven", "check": plain(one.check, 40), "title": TITLES.get(one.check, ""),
        "message": plain(one.reason), "facts": [], **_spot(one, sources),
    }  # fmt: skip


def _facts(finding: Finding) -> Iterator[tuple[str, str]]:
    if finding.program_id:
        lane = f", lane {', '.join(map(str, finding.lane))}" if finding.lane else ""
        turns = "".join(f", {name} = {value}" for name, value in finding.iterations)
        yield "witness", f"program {finding.program_id}{lane}{turns}"
    if finding.argument and finding.offset_bytes is not None:
        element = "" if finding.element is None else f"element {finding.element:,}, "
        yield "touches", f"{finding.argument}: {element}byte {finding.offset_bytes:,}"
    if finding.address_expression:
        yield "address", finding.address_expression
    if finding.mask_expression and finding.mask_expression != "True":
        yield "mask", finding.mask_expression
    if finding.shape is not None:
        strides = "" if finding.strides is None else f", strides {list(finding.strides)}"
        yield "tensor", f"{finding.argument}: shape {list(finding.shape)}{strides}"
    if finding.lands_in:
        yield "lands in", finding.lands_in
    if finding.other is not None:
        other = finding.other
        where = _where(other)
        yield "other", f"{other.access} at {where}, program {other.program_id}"
    if finding.suggestion:
        yield "try", finding.suggestion
    if finding.for_these_contents:
        yield "holds", "for these contents of memory"


def _spot(spot: Spot, sources: Sources) -> dict[str, Any]:
    place = sources.place(spot.file, spot.line)
    file, line = place if place is not None else (-1, 0)
    shown = _where(spot)
    if place is not None:
        shown = f"{plain(sources.files[file].path, 200)}:{line}"
    return {"file": file, "line": line, "where": shown}


def _where(spot: Spot) -> str:
    if spot.file is None or spot.line is None:
        return "an unknown place"
    return f"{plain(spot.file, 200)}:{spot.line}"
