"""What the documents of ``--json`` are made of: units, verdicts, small objects that several of them have."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct


def says(text: str) -> Meta:
    """What a field means, for the schema."""
    return Meta(description=text)


Bytes = Annotated[int, Meta(ge=0, description="Bytes.")]
Count = Annotated[int, Meta(ge=0)]
Nanoseconds = Annotated[int, Meta(ge=0, description="Nanoseconds.")]
Milliseconds = Annotated[float, Meta(ge=0, description="Milliseconds.")]
Seconds = Annotated[float, Meta(ge=0, description="Seconds.")]
Fraction = Annotated[float, Meta(ge=0, le=1, description="From 0 to 1.")]
Line = Annotated[int, Meta(ge=0, description="A line or column, counted from 1; 0 where it is not known.")]
Region = Annotated[int, Meta(ge=0, description="A region of the manifest, by its place there.")]
Extents = Annotated[tuple[int, int, int], says("Sizes in x, y, z.")]
Address = Annotated[int, Meta(ge=0, description="An address at capture.")]
Names = tuple[str, ...]
Notes = Annotated[tuple[str, ...], says("What is worth knowing, one line each.")]
Frame = Annotated[tuple[str, int, str], says("File, line, function.")]
Stack = Annotated[tuple[Frame, ...], says("Python's call stack at the launch.")]
Configuration = Annotated[dict[str, Any], says("Values by the parameter's name.")]

Word = Annotated[
    Literal["pass", "fail", "undecided"],
    says("The verdict; the exit status is 0 for pass, 1 for fail, 5 for undecided."),
]
Path = Annotated[str, says("A path, as the command was given it or absolute.")]


class Part(Struct, frozen=True, kw_only=True):
    """An object inside of a document. Readers ignore keys that they do not know: some may be added."""


class Document(Part, frozen=True, kw_only=True):
    """A whole document. ``version`` is raised when a key goes away or changes its meaning."""

    version: ClassVar[int] = 1
