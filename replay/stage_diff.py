"""How two compilations of a kernel differ, stage by stage, without what differs of itself.

Locations, metadata and the numbers of values and registers are taken out first: one more instruction at the
top would change each of them below.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated

from kerncap.format.document_types import Count, Names, says

STAGES = ("ttir", "ttgir", "llir", "ptx", "sass", "amdgcn", "isa")
_MOST_COMPARED = 20_000  # lines of a stage; beyond it the instructions are counted, and no lines shown


@dataclass(frozen=True)
class StageDiff:
    """How a stage of the compilation differs."""

    stage: Annotated[str, says("ttir, ttgir, llir, ptx, sass, amdgcn or isa.")]
    same: Annotated[bool, says("True if the instructions and values are the same, regardless of names.")]
    instructions: Annotated[tuple[int, int], says("Number of instructions before and after.")]
    changed: Annotated[
        Mapping[str, tuple[int, int]], says("Number of instructions before and after, by opcode.")
    ] = field(default_factory=dict)
    diff: Annotated[Names, says("The first lines of a unified diff.")] = ()
    diff_lines: Annotated[Count, says("Number of lines of the whole diff.")] = 0


def compare_stage(
    stage: str, before: str, after: str, most_lines: int | None = None, names: tuple[str, str] = ("a", "b")
) -> StageDiff:
    """The difference of two texts of one of `STAGES`; at most ``most_lines`` lines of the diff are kept."""
    old, new = normalised(stage, before), normalised(stage, after)
    counts = opcodes(stage, old), opcodes(stage, new)
    numbered = normalised(stage, before, numbered=True), normalised(stage, after, numbered=True)
    same = numbered[0] == numbered[1]
    if old == new and not same:  # the same instructions on other values: then the numbers are what differs
        old, new = numbered
    changed = {
        name: (counts[0][name], counts[1][name])
        for name in sorted({*counts[0], *counts[1]})
        if counts[0][name] != counts[1][name]
    }
    lines: list[str] = []
    if not same and max(len(old), len(new)) <= _MOST_COMPARED:
        first, second = (f"{name}/{stage}" for name in names)
        lines = list(difflib.unified_diff(old, new, first, second, n=2, lineterm=""))
    return StageDiff(
        stage, same, (counts[0].total(), counts[1].total()), changed,
        tuple(islice(lines, most_lines)), len(lines),
    )  # fmt: skip


def normalised(stage: str, text: str, numbered: bool = False) -> list[str]:
    """The lines of a stage that say what is computed, without the names of values and registers.

    ``numbered``: with the number of each by its first appearance, so that only what is used where counts.
    """
    names = _Names(numbered)
    found = (_NORMALISE[stage](line, names) for line in _kept(stage, text))
    return [line for line in found if line.strip()]


def opcodes(stage: str, lines: list[str]) -> Counter[str]:
    """How often each instruction occurs in normalised lines."""
    pattern = _OPCODE[stage]
    return Counter(found[1] for line in lines if (found := pattern.match(line)) is not None)


def text_of(path: Path) -> str:
    """A stage's file, however large its debug information is."""
    return path.read_text(encoding="utf-8", errors="replace")


# --- each stage's own -------------------------------------------------------------------------------

_LOCATION = re.compile(r"\s*\bloc\((?:[^()\"]|\"(?:[^\"\\]|\\.)*\"|\((?:[^()\"]|\"[^\"]*\")*\))*\)")
_SSA = re.compile(r"%[\w$.-]+(?:[:#]\d+)?")
_METADATA = re.compile(r",?\s*!\w+(?:\.\w+)* !\d+")
_ATTRIBUTES = re.compile(r"#\d+")
_PTX_REGISTER = re.compile(r"(%(?:p|r|rd|rs|f|fd|h|hh|rq|b|rc|SP|SPL|tmp))\d+\b")
_PTX_COUNT = re.compile(r"(%\w+)<\d+>")
_PTX_LABEL = re.compile(r"\$L_*[A-Za-z]+[\d_]*")
_SASS_NUMBER = re.compile(r"/\*[0-9a-fx ]*\*/")
_SASS_REGISTER = re.compile(r"\b(R|UR|P|UP|B|SB)\d+\b")
_SASS_LABEL = re.compile(r"\.L_[\w.]*\d+")
# AMD's: registers are numbers of their own or ranges (v12, s[2:3]); an address before or after each line.
_GCN_REGISTER = re.compile(r"\b([vsa])(\d+|\[\d+:\d+\])")
_GCN_LABEL = re.compile(r"\.?L(?:BB|tmp|func_\w+?)?\d[\d_]*\b|<[\w.$+]*>")
_GCN_NOISE = re.compile(r"\s*(?:\.loc|\.file|\.ident|\.section|\.cfi_|;|//)")


def _kept(stage: str, text: str) -> list[str]:
    lines = text.splitlines()
    if stage == "ptx":
        return _without_debug(lines)
    if stage == "sass":
        return [line for line in lines if "/*" in line or line.startswith(".L")]
    return lines


def _without_debug(lines: list[str]) -> list[str]:
    """PTX up to the sections of debug information, which follow the code."""
    cut = next((i for i, line in enumerate(lines) if re.match(r"\s*\.section\s+\.debug", line)), len(lines))
    return lines[:cut]


class _Names:
    """What stands for a value: its kind alone, or with the number of its first appearance."""

    def __init__(self, numbered: bool) -> None:
        self._numbered = numbered
        self._seen: dict[str, int] = {}

    def __call__(self, kind: str, name: str) -> str:
        return f"{kind}{self._seen.setdefault(name, len(self._seen))}" if self._numbered else kind

    def ssa(self, found: re.Match[str]) -> str:
        return self("%", found[0])

    def label(self, found: re.Match[str]) -> str:
        return self(found[0][:2], found[0])

    def register(self, found: re.Match[str]) -> str:
        return self(found[1], found[0])


def _mlir(line: str, names: _Names) -> str:
    if line.startswith("#loc"):
        return ""
    return _SSA.sub(names.ssa, _LOCATION.sub("", line)).rstrip()


def _llir(line: str, names: _Names) -> str:
    if line.startswith(("!", ";", "source_filename", "attributes #")):
        return ""
    line = _METADATA.sub("", line.partition(" ;")[0])
    return _ATTRIBUTES.sub("#", _SSA.sub(names.ssa, line)).rstrip()


def _ptx(line: str, names: _Names) -> str:
    line = line.partition("//")[0].strip()
    if re.match(r"\.(?:loc|file)\b|\$L__(?:tmp|func|info)|\.b(?:8|32|64)\b", line):
        return ""
    line = _PTX_COUNT.sub(r"\1<>", _PTX_LABEL.sub(names.label, line))
    return re.sub(r"\s+", " ", _PTX_REGISTER.sub(names.register, line))


def _sass(line: str, names: _Names) -> str:
    line = _SASS_LABEL.sub(names.label, _SASS_NUMBER.sub("", line)).strip()
    return re.sub(r"\s+", " ", _SASS_REGISTER.sub(names.register, line))


def _gcn(line: str, names: _Names) -> str:
    if _GCN_NOISE.match(line) or "file format" in line:
        return ""
    line = re.sub(r"^[0-9a-fA-F]{8,16}(?=\s)|^\s*[0-9a-fA-F]+:\s", "", re.split(r"//|;", line)[0])
    line = _GCN_LABEL.sub(lambda found: names("L", found[0]), line).strip()
    return re.sub(r"\s+", " ", _GCN_REGISTER.sub(lambda found: names(found[1], found[0]), line))


_NORMALISE: dict[str, Callable[[str, _Names], str]] = {
    "ttir": _mlir, "ttgir": _mlir, "llir": _llir, "ptx": _ptx, "sass": _sass,
    "amdgcn": _gcn, "isa": _gcn,
}  # fmt: skip
_MLIR_OPCODE = re.compile(r"\s*(?:%(?:, %)*\s*=\s*)?\"?([a-z_]+\.[a-z_][\w.]*)")
_GCN_OPCODE = re.compile(r"((?:[sv]_|ds_|global_|flat_|buffer_|scratch_|tbuffer_|image_)\w+)")
_OPCODE = {
    "ttir": _MLIR_OPCODE,
    "ttgir": _MLIR_OPCODE,
    "llir": re.compile(r"\s+(?:%\s*=\s*)?(?:tail |musttail |notail )?([a-z][a-z_]+)\b"),
    "ptx": re.compile(r"(?:@!?%\w+ )?([a-z][\w]*(?:\.[\w:]+)*)\b(?=[\s;])"),
    "sass": re.compile(r"(?:@!?U?P[T]? )?([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\b"),
    "amdgcn": _GCN_OPCODE,
    "isa": _GCN_OPCODE,
}
