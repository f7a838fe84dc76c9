"""What the documents of ``--json`` are made of: units, verdicts, small objects that several of them have."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct, to_builtins


def says(text: str) -> Meta:
    """What a field means, for the schema."""
    return Meta(description=text)


Bytes = Annotated[int, Meta(ge=0, description="Bytes.")]
Count = Annotated[int, Meta(ge=0)]
Nanoseconds = Annotated[int, Meta(ge=0, description="Nanoseconds.")]
Milliseconds = Annotated[float, Meta(ge=0, description="Milliseconds.")]
Fraction = Annotated[float, Meta(ge=0, le=1, description="From 0 to 1.")]
Line = Annotated[int, Meta(ge=0, description="Line or column, counted from 1; 0 if unknown.")]
Region = Annotated[int, Meta(ge=0, description="Index of a region in the manifest.")]
LaunchInRange = Annotated[int, says("Number of the launch in the range, from 0.")]
LaunchInProgram = Annotated[int, says("Number of the launch in the program, as the capture counted.")]
Extents = Annotated[tuple[int, int, int], says("Sizes in x, y, z.")]
Address = Annotated[int, Meta(ge=0, description="Address at capture.")]
Names = tuple[str, ...]
Notes = Annotated[tuple[str, ...], says("Notes, one line each.")]
Frame = Annotated[tuple[str, int, str], says("File, line, function.")]
Stack = Annotated[tuple[Frame, ...], says("Python call stack at the launch.")]
Configuration = Annotated[dict[str, Any], says("Values by parameter name.")]

Word = Annotated[
    Literal["pass", "fail", "undecided"],
    says("The verdict; the exit status is 0 for pass, 1 for fail, 5 for undecided."),
]
Path = Annotated[str, says("Path, as given on the command line or absolute.")]


class Part(Struct, frozen=True, kw_only=True):
    """An object in a document. Readers ignore unknown keys, because some may be added."""


def _plain(value: Any) -> Any:
    """What a document may hold beside the built-in types: kinds of them, as numpy's floats, and paths."""
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return os.fspath(value)


class Document(Part, frozen=True, kw_only=True):
    """A whole document. ``version`` is raised if a key is removed or changes its meaning."""

    version: ClassVar[int] = 1

    def as_dict(self) -> dict[str, Any]:
        """As who reads the JSON has it: tuples are lists, paths are text."""
        found: dict[str, Any] = json.loads(json.dumps(to_builtins(self, enc_hook=_plain)))
        return found
