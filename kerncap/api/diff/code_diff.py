"""What the kernel was compiled to, stage by stage, and its source.

Texts are compared once what differs of itself (locations, metadata, numbering) is taken out. Machine code is
read by a vendor's disassembler if there is one: a program that parses, and runs nothing.
"""

from __future__ import annotations

import difflib
import functools
import os
import re
import subprocess
from collections.abc import Collection
from itertools import islice
from pathlib import Path

from kerncap import child, scratch
from kerncap.format import Reproducer
from kerncap.format.schema import StoredFile
from kerncap.log import size as size_text
from kerncap.replay import trust
from kerncap.replay.stage_diff import compare_stage, normalised
from kerncap.report.documents.diff import CodeDiff, SourceDiff
from kerncap.search_path import kept

TEXTS = ("ttir", "ttgir", "llir", "ptx", "amdgcn")
MACHINE = {"sass": "cubin", "isa": "hsaco"}  # what is shown -> the image that it is read from
STAGES = (*TEXTS, *MACHINE)
MOST_LINES = 400
_MOST_TEXT = 32 << 20
_MOST_IMAGE = 64 << 20
_MOST_SOURCE_LINES = 20_000
_DISASSEMBLY_TIMEOUT_S = 60.0
_ORIGIN = re.compile(r"^# (?:[\w.]+: )?\S.*:\d+$")  # what sealing writes above each part of a module


def code(
    a: Reproducer, b: Reproducer, asked: Collection[str] = (), most_lines: int | None = MOST_LINES
) -> tuple[list[CodeDiff], list[str]]:
    """Every stage that either has, in the order of compilation; then what could not be examined.

    Images that differ are disassembled if both reproducers are trusted here, or their stage is ``asked``.
    """
    files = [{one.stage: one.file for one in side.manifest.code} for side in (a, b)]
    order = [*TEXTS, *MACHINE.values(), "fatbin"]
    stages = sorted({*files[0], *files[1]}, key=lambda s: (order.index(s) if s in order else len(order), s))
    found: list[CodeDiff] = []
    notes: list[str] = []
    for stage in stages:
        first, second = (side.get(stage) for side in files)
        if stage == "metadata":
            continue  # paths and hashes; what it says of the launch is compared as such
        if first is None or second is None:
            found.append(CodeDiff(stage, _unneeded(stage, files), "bytes", "B" if first is None else "A"))
        elif first.sha256 == second.sha256:
            found.append(CodeDiff(stage, True, "bytes"))
        elif stage in TEXTS:
            found.append(_text(stage, a, first, b, second, most_lines))
        elif stage in MACHINE.values():
            found.append(_image(stage, a, first, b, second, asked, most_lines, notes))
        else:
            found.append(CodeDiff(stage, _unneeded(stage, files), "binary"))
    return found, notes


def _unneeded(stage: str, files: list[dict[str, StoredFile]]) -> bool:
    """A fatbin is only the wrapping if the image out of it is there too."""
    return stage == "fatbin" and all("cubin" in side for side in files)


def side_by_side(stage: str, a: str, b: str, context: int = 3) -> list[tuple[str, str, str]]:
    """(mark, line of A, line of B) of what differs and lines around; the mark is one of `` <>|`` or ``…``."""
    old, new = (normalised(stage, text) for text in (a, b))
    if old == new:
        old, new = (normalised(stage, text, numbered=True) for text in (a, b))
    rows: list[tuple[str, str, str]] = []
    matcher = difflib.SequenceMatcher(None, old, new)
    for group in matcher.get_grouped_opcodes(context):
        if rows:
            rows.append(("…", "", ""))
        for tag, i, j, k, m in group:
            left, right = old[i:j], new[k:m]
            for n in range(max(len(left), len(right))):
                x = left[n] if n < len(left) else ""
                y = right[n] if n < len(right) else ""
                mark = " " if tag == "equal" else "|" if n < min(len(left), len(right)) else "<" if x else ">"
                rows.append((mark, x, y))
    return rows


def stage_texts(a: Reproducer, b: Reproducer, stage: str) -> tuple[str, str] | None:
    """Both texts of a stage, or None if not both have one (or no disassembler reads them)."""
    texts = []
    for side in (a, b):
        files = {one.stage: one.file for one in side.manifest.code}
        stored = files.get(MACHINE.get(stage, stage))
        if stored is None or stored.size > _MOST_TEXT:
            return None
        data = side.file(stored)
        text = _disassembled(MACHINE[stage], data) if stage in MACHINE else data.decode(errors="replace")
        if text is None:
            return None
        texts.append(text)
    return texts[0], texts[1]


def _text(
    stage: str, a: Reproducer, first: StoredFile, b: Reproducer, second: StoredFile, most: int | None
) -> CodeDiff:
    if max(first.size, second.size) > _MOST_TEXT:
        return CodeDiff(
            stage, False, "bytes", note=f"over {size_text(_MOST_TEXT)}: not compared line by line"
        )
    texts = (a.file(first).decode(errors="replace"), b.file(second).decode(errors="replace"))
    diff = compare_stage(stage, *texts, most, ("a", "b"))
    return CodeDiff(stage, diff.same, "text", text=diff)


def _image(
    stage: str, a: Reproducer, first: StoredFile, b: Reproducer, second: StoredFile,
    asked: Collection[str], most: int | None, notes: list[str],
) -> CodeDiff:  # fmt: skip
    shown = next(name for name, image in MACHINE.items() if image == stage)
    if max(first.size, second.size) > _MOST_IMAGE:
        return CodeDiff(stage, False, "binary", note=f"over {size_text(_MOST_IMAGE)}: not disassembled")
    if shown not in asked and not all(map(trust.is_remembered, (a, b))):
        note = f"from strangers, so no disassembler was given them; --code {shown} does"
        return CodeDiff(stage, False, "binary", note=note)
    texts = [_disassembled(stage, side.file(stored)) for side, stored in ((a, first), (b, second))]
    if texts[0] is None or texts[1] is None:
        tool = "nvdisasm or cuobjdump" if stage == "cubin" else "llvm-objdump"
        notes.append(f"{stage}: only bytes were compared, no {tool} here reads it")
        return CodeDiff(stage, False, "binary", note=f"no {tool} here")
    diff = compare_stage(shown, texts[0], texts[1], most, ("a", "b"))
    return CodeDiff(stage, diff.same, shown, text=diff)


# --- disassemblers -----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=8)  # `diverge` compares two images twice
def _disassembled(stage: str, data: bytes) -> str | None:
    from kerncap.replay.candidates.disassemble import sass

    with scratch.temporary("diff") as folder:
        path = Path(folder, f"kernel.{stage}")
        path.write_bytes(data)
        return sass(path) if stage == "cubin" else isa(path)


def isa(image: Path) -> str | None:
    """The assembly of an AMDGPU code object; None if no llvm-objdump takes it."""
    for tool in _objdumps():
        try:
            command = [tool, "--disassemble", "--no-show-raw-insn", str(image.absolute())]
            done = child.run_text(command, timeout=_DISASSEMBLY_TIMEOUT_S, check=True)
        except (OSError, subprocess.SubprocessError):
            continue
        if done.stdout.count("\n") > 3:  # an LLVM without the target prints the head alone
            return done.stdout
    return None


def _objdumps() -> list[str]:
    named = [os.environ.get(name) for name in ("ROCM_PATH", "HIP_PATH")]
    roots = [root for root in (*named, "/opt/rocm") if root and kept(root)]
    places = [os.path.join(root, part, "llvm-objdump") for root in roots for part in ("llvm/bin", "bin")]
    on_path = child.find("llvm-objdump")
    places += [on_path] if on_path else []
    places += sorted((str(path) for path in Path("/usr/bin").glob("llvm-objdump-[0-9]*")), reverse=True)
    return [place for place in dict.fromkeys(places) if os.access(place, os.X_OK)]


# --- source --------------------------------------------------------------------------------------------


def source(a: Reproducer, b: Reproducer, most_lines: int | None = MOST_LINES) -> list[SourceDiff]:
    """The editable source and, of native kernels, the other files of its unit; those that are equal too."""
    files = [_sources(side) for side in (a, b)]
    found = []
    for name in dict.fromkeys([*files[0], *files[1]]):
        first, second = (side.get(name) for side in files)
        if first is None or second is None:
            found.append(SourceDiff(name, False, "B" if first is None else "A"))
        elif first.sha256 == second.sha256:
            found.append(SourceDiff(name, True))
        else:
            found.append(_source(name, a, first, b, second, most_lines))
    return found


def _sources(side: Reproducer) -> dict[str, StoredFile]:
    manifest = side.manifest
    if manifest.source is None:
        return {}
    files = {manifest.source.file.path: manifest.source.file}
    if manifest.source.build is not None:
        # Of a unit every file counts; of a Triton module the originals are what it was made from.
        files |= {stored.path: stored for stored in manifest.source.originals}
    return files


def _source(
    name: str, a: Reproducer, first: StoredFile, b: Reproducer, second: StoredFile, most: int | None
) -> SourceDiff:
    if max(first.size, second.size) > _MOST_TEXT:
        return SourceDiff(name, False, note=f"over {size_text(_MOST_TEXT)}: not compared line by line")
    old, new = (
        side.file(stored).decode(errors="replace").splitlines() for side, stored in ((a, first), (b, second))
    )
    if max(len(old), len(new)) > _MOST_SOURCE_LINES:
        return SourceDiff(name, False, note=f"over {_MOST_SOURCE_LINES:,} lines: not compared line by line")
    if [_ORIGIN.sub("#", line) for line in old] == [_ORIGIN.sub("#", line) for line in new]:
        return SourceDiff(name, True, note="but for where it came from")
    lines = list(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm=""))
    return SourceDiff(name, False, None, tuple(islice(lines, most)), len(lines))
