"""An exported project for the terminal."""

from __future__ import annotations

from typing import Any

from kerncap import log
from kerncap.report.documents.sharing import TRACKER_BYTES

_SHOWN = 12


def render(document: dict[str, Any]) -> str:
    """Its files with their sizes, and how to run it; ``document`` is that of ``--json``."""
    files = document["files"]
    total = log.size(document["size_bytes"])
    lines = [f"{document['path']}: {total}" + (f", {len(files)} files" if len(files) > 1 else "")]
    if len(files) > 1:
        lines += [f"  {log.size(one['bytes']):>9}  {log.one_line(one['name'])}" for one in files[:_SHOWN]]
    if len(files) > _SHOWN:
        lines.append(f"  and {len(files) - _SHOWN} more")
    if document["findings"]:
        lines.append(f"private: {len(document['findings'])} places, replaced or kept (--json lists them)")
    if document["size_bytes"] > TRACKER_BYTES:
        lines.append("more than the 25 MB that bug trackers take: kerncap minimize it first")
    lines += [f"note: {note}" for note in document["notes"]]
    if document["as"] == "script" and len(files) == 1 and document["size_bytes"] <= 65_536:
        lines.append("small enough for the text of an issue")
    lines += [f"run: {command}" for command in document["run"]]
    return "\n".join(lines)
