"""JSON Schema (2020-12) of each document that ``--json`` prints. A test checks every command's real output.

Their one source is the types in `kerncap.report.documents`. ``python -m kerncap.api.schemas`` rewrites
``docs/schemas``, or another FOLDER; ``kerncap schema`` prints one.
"""

from __future__ import annotations

import importlib
import pathlib
import sys
from dataclasses import is_dataclass
from typing import Any, cast, get_args, get_type_hints

import msgspec
from msgspec import Struct

from kerncap.errors import UsageError
from kerncap.format.document_types import Document, Path
from kerncap.format.short_json import short_json

# What is printed (the command, with the option that makes it another document) -> module of kerncap:type.
DOCUMENTS = {
    "capture": "report.documents.capture:CaptureDocument",
    "list": "report.documents.capture:ListDocument",
    "arm": "report.documents.capture:ArmDocument",
    "from-core": "report.documents.from_core:FromCoreDocument",
    "from-recording": "report.documents.capture:FromRecordingDocument",
    "inspect": "report.documents.inspect:InspectDocument",
    "inspect-range": "report.documents.ranges:InspectRangeDocument",
    "replay": "report.documents.replay:ReplayDocument",
    "replay-range": "report.documents.ranges:ReplayRangeDocument",
    "replay-range-limits": "report.documents.ranges:RangeLimitsDocument",
    "replay-edit": "report.documents.edit_and_compare:EditDocument",
    "replay-compare": "report.documents.edit_and_compare:CompareDocument",
    "replay-limits": "report.documents.measurements:LimitsDocument",
    "verify": "report.documents.replay:VerifyDocument",
    "verify-corpus": "report.documents.replay:VerifyCorpusDocument",
    "prove": "report.documents.prove:ProveDocument",
    "blame": "report.documents.blame:BlameDocument",
    "profile": "report.documents.measurements:ProfileDocument",
    "tune": "report.documents.measurements:TuneDocument",
    "sanitize": "report.documents.sanitize:SanitizeDocument",
    "diverge": "report.documents.diverge:DivergeDocument",
    "diff": "report.documents.diff:DiffDocument",
    "diff-results": "report.documents.diff:DiffResultsDocument",
    "slice": "report.documents.ranges:SliceDocument",
    "minimize": "report.documents.sharing:MinimizeDocument",
    "pack": "report.documents.sharing:PackDocument",
    "unpack": "report.documents.sharing:UnpackDocument",
    "gc": "report.documents.sharing:GcDocument",
    "config": "report.documents.doctor:ConfigDocument",
    "export": "report.documents.sharing:ExportDocument",
    "report": "report.documents.sharing:ReportDocument",
    "seal": "report.documents.capture:CaptureDocument",
    "doctor": "report.documents.doctor:DoctorDocument",
    "doctor-program": "report.documents.doctor:DoctorProgramDocument",
}
_SPELLED = {  # if the rest of a name is no option
    "from-core": "kerncap from-core --json",
    "from-recording": "kerncap from-recording --json",
    "inspect-range": "kerncap inspect RANGE --json",
    "replay-range": "kerncap replay RANGE --json, verify RANGE --json",
    "replay-range-limits": "kerncap replay RANGE --limits --json",
    "verify-corpus": "kerncap verify A B --json",
    "diff-results": "kerncap diff A.json B.json --json",
    "doctor-program": "kerncap doctor --json -- CMD",
}


def document_type(name: str) -> type[Document]:
    """The type of a document of `DOCUMENTS`. Raises UsageError for another name."""
    if name not in DOCUMENTS:
        raise UsageError(f"no document is called {name}; there are {', '.join(DOCUMENTS)}")
    module, _, kind = DOCUMENTS[name].partition(":")
    found = getattr(importlib.import_module(f"kerncap.{module}"), kind)
    return cast("type[Document]", found)


def schema(name: str) -> dict[str, Any]:
    """The schema of ``kerncap <name> --json``, of the version that this kerncap prints."""
    kind = document_type(name)
    found = msgspec.json.schema(kind, schema_hook=_of_path)
    parts = found["$defs"]
    for result in _results(kind):
        part = parts[result.__name__]
        for value in part["properties"].values():
            value.pop("default", None)
        part["required"] = list(part["properties"])
    root = parts.pop(kind.__name__)  # a tool's output schema has to be an object itself
    command, _, option = name.partition("-")
    spelled = _SPELLED.get(name, f"kerncap {command}{f' --{option}' if option else ''} --json")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:kerncap:{name}:{kind.version}",
        "title": f"{spelled}, version {kind.version}",
        **{key: value for key, value in root.items() if key != "title"},
        **({"$defs": parts} if parts else {}),
    }


def _of_path(kind: type) -> dict[str, Any]:
    """A result's path, which is printed as text."""
    if kind is not pathlib.Path:
        raise NotImplementedError
    return msgspec.json.schema(Path)


def _results(kind: type) -> set[type]:
    """The dataclasses in a document. They have defaults and documents don't: all their keys are printed."""
    found: set[type] = set()
    queue: list[Any] = [kind]
    while queue:
        one = queue.pop()
        queue += get_args(one)
        if isinstance(one, type) and one not in found and (is_dataclass(one) or issubclass(one, Struct)):
            found.add(one)
            queue += get_type_hints(one).values()
    return {one for one in found if is_dataclass(one)}


def schema_text(name: str) -> str:
    """The same as a file has it."""
    return short_json(schema(name)) + "\n"


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "docs/schemas")
    folder.mkdir(parents=True, exist_ok=True)
    for each in DOCUMENTS:
        (folder / f"{each}.json").write_text(schema_text(each), encoding="utf-8")
