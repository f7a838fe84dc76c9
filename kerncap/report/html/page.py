"""The page of a reproducer: what the other modules found, for the templates."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from kerncap.report.html import figure_geometry, findings, overview
from kerncap.report.html.filled_page import filled
from kerncap.report.html.heat import heat_map
from kerncap.report.html.linked_sources import Sources, stages
from kerncap.report.html.material import Material, plain
from kerncap.report.html.memory_map import regions
from kerncap.report.html.results import checked
from kerncap.report.html.script_data import block

MAX_MAPS = 48
_SCRIPTS = ("data", "dom", "colour", "heat", "memory", "highlight", "code", "theme", "section_keys", "start")


def render(material: Material) -> bytes:
    """The whole file. Reads of the reproducer what it shows. Raises FormatError."""
    facts = _facts(material)
    left_out = [plain(text) for text in dict.fromkeys(material.left_out)]
    return filled("page.html", _SCRIPTS, **facts, left_out=left_out)


def _facts(material: Material) -> dict[str, Any]:
    sources = Sources(material)
    compiled = stages(material, sources)
    notes = findings.notes(material, sources)
    memory = regions(material)
    maps, map_blocks = _maps(material)
    code = {
        "files": [
            {"name": plain(file.path, 200), "original": plain(file.original, 300), "language": file.language,
             "lines": file.lines, "cut": file.cut}
            for file in sources.files
        ],
        "stages": compiled,
        "notes": notes,
    }  # fmt: skip
    total = max(1, sum(region["bytes"] for region in memory))
    arguments = overview.arguments(material)
    configurations, key = overview.configurations(material)
    return {
        "title": plain(material.manifest["kernel"]["name"], 120),
        "language": overview.language(material),
        "badges": overview.badges(material),
        "oracle": overview.oracle_line(material),
        "glance": overview.glance(material),
        "launch": overview.launch_rows(material),
        "stack": overview.stack(material),
        "configurations": configurations,
        "key": key,
        "arguments": arguments,
        "has": {
            column: any(one[column] for one in arguments)
            for column in ("type", "strides", "place", "divisible")
        },
        "aliases": overview.aliases(material),
        "maps": maps,
        "has_values": material.has_values,
        "why_without_values": plain(material.truth.closure.why_without_values),
        "regions": memory,
        "shares": [round(1000 * region["bytes"] / total, 2) for region in memory],
        "sources": sources.files,
        "source": overview.source(material),
        "stages": compiled,
        "tall": max(
            [len(file.lines) for file in sources.files] + [len(one["lines"]) for one in compiled] + [0]
        )
        > 36,
        "linked": any(stage["places"] for stage in compiled),
        "notes": notes,
        "sanitized": findings.launches(material),
        "not_sanitized": material.not_sanitized,
        "verdicts": [
            (kind, checked(kind, document)) for kind in ("verify", "replay") for document in material.of(kind)
        ],
        "self_check": (material.facts["checks"] or {}).get("self_check"),
        "write_set": material.facts["write_set"],
        "timings": _timings(material),
        "limits": _limits(material),
        "timelines": material.of("list"),
        "tunes": _tunes(material),
        "profiles": [checked("profile", document) for document in material.of("profile")],
        "environment": overview.environment(material),
        "commands": overview.commands(material),
        "remarks": [plain(note) for note in material.facts["notes"][:40]],
        "blocks": [block("data-memory", memory), block("data-code", code), *map_blocks],
    }


def _maps(material: Material) -> tuple[list[dict[str, Any]], list[Markup]]:
    """A heading for each view that an argument has, and a block with its cells if it has any."""
    heads: list[dict[str, Any]] = []
    blocks: list[Markup] = []
    if not material.has_values:
        return heads, blocks
    seen: set[int] = set()
    wanted = [
        (number, argument["name"])
        for argument in material.facts["arguments"]
        for number in (tensor["view"] for tensor in argument.get("tensors", ()))
        if number not in seen and not seen.add(number)  # type: ignore[func-returns-value]
    ]
    for number, owner in wanted[:MAX_MAPS]:
        view, shown = material.truth.views[number], material.manifest["views"][number]
        found = heat_map(material.reproducer, view)
        name = plain(shown.get("name") or owner, 80)
        shape = "[" + ", ".join(map(str, view.shape)) + "]"
        heads.append({
            "id": number, "name": name, "type": f"{plain(view.dtype, 40)}{shape}",
            "empty": found is None, "changed": 0 if found is None else found["changed"],
            "sampled": 0 if found is None else found["sampled"],
            "elements": 0 if found is None else found["elements"],
            "wrapped": found is not None and found["wrapped"],
        })  # fmt: skip
        if found is not None:
            blocks.append(block(f"data-view-{number}", {**found, "name": name}))
    if len(wanted) > MAX_MAPS:
        material.left_out.append(f"the values of {len(wanted) - MAX_MAPS:,} of {len(wanted):,} views")
    return heads, blocks


def _timings(material: Material) -> list[dict[str, Any]]:
    found = []
    for kind in ("replay", "verify"):
        for document in material.of(kind):
            verdict = checked(kind, document)
            if verdict.timing is not None:
                found.append(
                    {
                        "verdict": verdict,
                        "timing": verdict.timing,
                        "strip": figure_geometry.strip(verdict.timing),
                    }
                )
    return found


def _limits(material: Material) -> list[dict[str, Any]]:
    found = [checked("limits", document) for document in material.of("limits")]
    return [{"limits": one, "bars": figure_geometry.bars(one)} for one in found]


def _tunes(material: Material) -> list[dict[str, Any]]:
    found = [checked("tune", document) for document in material.of("tune")]
    digest = material.facts["manifest_sha256"]
    return [
        {
            "tune": one,
            "scatter": figure_geometry.scatter(one, digest),
            "best": figure_geometry.best_trials(one.trials),
        }
        for one in found
    ]
