"""What `mkdocs build` gets from outside docs/: pages from other folders, and the reference from the code.

- FORMAT.md, CHANGELOG.md and others stay where they are, and are pages of the site as well.
- Links that lead out of docs/ go to those pages; to any other file, only the words stay.
- index.md begins as README.md does.
- reference/api.md gets a section for each public name of `kerncap.api`, reference/schemas.md a table for each
  document of ``--json``.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
# page -> the file that it is
ELSEWHERE = {
    "format.md": "kerncap/format/FORMAT.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}
_PAGES = {file: page for page, file in ELSEWHERE.items()} | {"README.md": "index.md"}
_LINK = re.compile(r"\[([^\]\[]*)\]\(([^)\s]+)\)")
_INTRO, _API, _SCHEMAS = "<!-- intro: ", "<!-- kerncap.api: ", "<!-- schemas: "
# The verbs in the order of a day's work; what a verb takes and gives follows it.
_SECTIONS = {
    "Capture": ("capture", "CaptureOptions", "Run", "Selection", "Keep", "CaptureResult", "SealedLaunch",
                "KernelSummary", "list_kernels", "arm", "ArmResult", "seal_session"),
    "Look": ("inspect", "Reproducer", "diff", "ReproducerDiff", "DocumentDiff"),
    "Replay and verify": ("replay", "ReplayOptions", "ReplayResult", "Verdict", "Timing", "verify",
                          "VerifyOptions", "VerifyResult", "StageResult", "prove", "ProveOptions",
                          "ProveResult", "compare", "CompareResult", "edit",
                          "EditOptions"),
    "Measure and tune": ("limits", "LimitReport", "profile", "ProfileResult", "tune", "TuneOptions",
                         "TuneResult"),
    "Sanitize": ("sanitize_reproducer", "sanitize_ttir", "sanitize_command", "sanitize_call",
                 "SanitizeOptions", "LiveOptions", "SanitizeResult", "LaunchReport", "Finding"),
    "Share": ("minimize", "Minimized", "pack", "Packed", "unpack_file", "export", "Exported",
              "report", "ReportPage"),
    "This machine": ("doctor", "DoctorReport"),
    "Errors": ("KerncapError", "UsageError", "FormatError", "CaptureError", "ReplayError",
               "BackendUnavailable"),
}  # fmt: skip


def on_files(files: Any, config: Any) -> Any:
    for page, file in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / file).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    uri = page.file.src_uri
    if _INTRO in markdown:
        markdown = _filled(markdown, _INTRO, _intro())
    if _API in markdown:
        markdown = _filled(markdown, _API, _api())
    if _SCHEMAS in markdown:
        markdown = _filled(markdown, _SCHEMAS, _schemas())
    origin = ELSEWHERE.get(uri, f"docs/{uri}")
    return _LINK.sub(lambda match: _link(match, origin, uri), markdown)


def _intro() -> str:
    """The paragraphs of README.md between its title and its picture."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text[text.index("\n") : text.index("![")].strip()


def _filled(markdown: str, marker: str, text: str) -> str:
    begin = markdown.index(marker)
    end = markdown.index("-->", begin) + 3
    return markdown[:begin] + text + markdown[end:]


def _link(match: re.Match[str], origin: str, uri: str) -> str:
    text, target = match.groups()
    if "://" in target or target.startswith(("#", "mailto:")):
        return match[0]
    path, _, anchor = target.partition("#")
    where = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
    found = _PAGES.get(where) or (where[len("docs/") :] if where.startswith("docs/") else None)
    if found is None:
        if not (ROOT / where).exists():
            return match[0]  # mkdocs warns about it
        return text
    if (ROOT / "docs" / found).is_dir():
        found = posixpath.join(found, "README.md")
    relative = os.path.relpath(found, posixpath.dirname(uri) or ".")
    return f"[{text}]({relative}{'#' + anchor if anchor else ''})"


def _api() -> str:
    import kerncap.api as api

    named = [name for names in _SECTIONS.values() for name in names]
    others = tuple(sorted(set(api.__all__) - set(named)))
    if missing := set(named) - set(api.__all__):
        raise ValueError(f"tools/docs_pages.py: not in kerncap.api: {', '.join(sorted(missing))}")
    sections = dict(_SECTIONS, **({"More": others} if others else {}))
    places = {
        each.partition(" as ")[2] or each: f"{module}.{each.partition(' as ')[0]}"
        for module, names in api._PUBLIC.items()
        for each in names
    }
    lines: list[str] = []
    for title, names in sections.items():
        lines += [f"## {title}", ""]
        for name in names:
            # Where it is defined may be a module below; the reader of docstrings follows imports.
            lines += [
                f"::: {places[name]}",
                "    options:",
                f'      heading: "{name}"',
                f'      toc_label: "{name}"',
                "",
            ]
    return "\n".join(lines)


def _schemas() -> str:
    from kerncap.api.schemas import DOCUMENTS, schema

    lines: list[str] = []
    for name in DOCUMENTS:
        found = schema(name)
        title, _, version = found["title"].rpartition(", ")
        lines += [f"## {name}", "", f"`{title}`, {version}: [{name}.json](../schemas/{name}.json).", ""]
        lines += [found["description"], "", "| key | | |", "|---|---|---|"]
        required = set(found.get("required", ()))
        for key, value in found["properties"].items():
            also = "" if key in required else " (may be absent)"
            lines.append(f"| `{key}` | {_kind(value)}{also} | {_cell(_said(value, found))} |")
        lines.append("")
    return "\n".join(lines)


def _kind(value: dict[str, Any]) -> str:
    """A type in few words."""
    if "enum" in value:
        return " or ".join(f"`{each}`" for each in value["enum"])
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(_kind(each) for each in value["anyOf"]))
    if "$ref" in value:
        return str(value["$ref"].rpartition("/")[2])
    if value.get("type") == "array":
        items = value.get("items")
        return f"list of {_kind(items)}" if isinstance(items, dict) else "list"
    if value.get("type") == "object":
        inner = value.get("additionalProperties")
        return f"map of {_kind(inner)}" if isinstance(inner, dict) and inner else "map"
    return str(value.get("type", "any"))


def _said(value: dict[str, Any], found: dict[str, Any]) -> str:
    if "description" in value:
        return str(value["description"])
    for each in [value, value.get("items"), *value.get("anyOf", [])]:
        if isinstance(each, dict) and "$ref" in each:
            part = found["$defs"][each["$ref"].rpartition("/")[2]]
            return str(part.get("description", ""))
        if isinstance(each, dict) and "description" in each:
            return str(each["description"])
    return ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":  # a look at what the pages get
    print(json.dumps({"api": _api(), "schemas": _schemas()}))
