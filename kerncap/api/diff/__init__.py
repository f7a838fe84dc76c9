"""`diff`: compares two reproducers, or two results of one command.

Nothing in a reproducer is executed, and nothing is read beyond a limit. Packed reproducers are unpacked into
a temporary folder, with all that `unpack` refuses.
"""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from kerncap import scratch
from kerncap.api.diff.code_diff import MOST_LINES, STAGES, code, side_by_side, source, stage_texts
from kerncap.api.diff.diff_result import ReproducerDiff
from kerncap.api.diff.document_diff import DocumentDiff, compare_documents
from kerncap.api.diff.fact_diff import arguments, environment, launch
from kerncap.api.diff.memory_diff import MOST_LISTED, MOST_READ, Memory
from kerncap.api.diff.pairing import pair
from kerncap.api.pack import MAX_UNPACKED, unpack_file
from kerncap.errors import FormatError, UsageError
from kerncap.format import Reproducer
from kerncap.log import one_line
from kerncap.log import size as size_text
from kerncap.regular_file import read_regular
from kerncap.replay.memory_names import view_name
from kerncap.report.documents.diff import SideInfo

__all__ = [
    "STAGES", "DocumentDiff", "ReproducerDiff", "diff", "diff_reproducers", "diff_results", "stage_rows",
]  # fmt: skip

MAX_DOCUMENT_BYTES = 64 << 20


def diff(
    a: Path | str,
    b: Path | str,
    *,
    stages: Collection[str] = (),
    view: str | None = None,
    most_lines: int | None = MOST_LINES,
    most_read: int = MOST_READ,
    max_ratio: float | None = None,
) -> ReproducerDiff | DocumentDiff:
    """Compare two reproducers (folders or packed) or two documents of ``--json``.

    ``stages`` (of `STAGES`) are disassembled though a stranger made them; ``view`` limits the memory that is
    compared to one view; ``most_lines`` bounds each text's diff, ``most_read`` the bytes of memory that are
    read. ``max_ratio``, for documents: how many times as long a time may be before it is a difference.
    Raises UsageError, FormatError.
    """
    paths = Path(a), Path(b)
    documents = [_is_document(path) for path in paths]
    if all(documents):
        if stages or view:
            raise UsageError("--code and --memory ask about reproducers; these are results")
        return diff_results(*paths, max_ratio=max_ratio)
    if any(documents):
        result, other = paths if documents[0] else paths[::-1]
        raise UsageError(f"{result}: a result, and {other} is not; give two results or two reproducers")
    if max_ratio is not None:
        raise UsageError("--max-ratio is about the times of two results; these are reproducers")
    return diff_reproducers(*paths, stages=stages, view=view, most_lines=most_lines, most_read=most_read)


def diff_results(a: Path | str, b: Path | str, max_ratio: float | None = None) -> DocumentDiff:
    """Two documents of the same command. Raises UsageError, FormatError."""
    if max_ratio is not None and not 0 < max_ratio < float("inf"):
        raise UsageError(f"--max-ratio {max_ratio:g}: expected a positive number")
    first, second = Path(a), Path(b)
    return compare_documents(first, _document(first), second, _document(second), max_ratio)


def diff_reproducers(
    a: Path | str,
    b: Path | str,
    *,
    stages: Collection[str] = (),
    view: str | None = None,
    most_lines: int | None = MOST_LINES,
    most_read: int = MOST_READ,
) -> ReproducerDiff:
    """Two reproducers; see `diff`."""
    unknown = [stage for stage in stages if stage not in STAGES]
    if unknown:
        raise UsageError(f"--code {unknown[0]}: expected one of {', '.join(STAGES)}")
    with opened(a) as first, opened(b) as second:
        sides = _info(str(a), first), _info(str(b), second)
        return _compare(sides, first, second, stages, view, most_lines, most_read)


def stage_rows(a: Path | str, b: Path | str, stage: str) -> list[tuple[str, str, str]] | None:
    """Two texts of a stage side by side; see `code_diff.side_by_side`. None if not both have one."""
    with opened(a) as first, opened(b) as second:
        texts = stage_texts(first, second, stage)
    return None if texts is None else side_by_side(stage, *texts)


@contextlib.contextmanager
def opened(path: Path | str) -> Iterator[Reproducer]:
    """The reproducer of a folder, or of a packed file for as long as this lasts."""
    path = Path(path)
    with contextlib.ExitStack() as stack:
        if os.path.isfile(path) and zipfile.is_zipfile(path):
            folder = stack.enter_context(scratch.temporary("diff"))
            path = unpack_file(path, folder, MAX_UNPACKED)
        yield stack.enter_context(Reproducer.open(path))


def _compare(
    sides: tuple[SideInfo, SideInfo], a: Reproducer, b: Reproducer, stages: Collection[str], view: str | None,
    most_lines: int | None, most_read: int,
) -> ReproducerDiff:  # fmt: skip
    pairs = pair(a, b)
    memory = Memory(a, b, pairs, most_read)
    views = memory.views(view)
    if view is not None and not views:
        raise UsageError(f"--memory {view}: no view of that name; there are {_names(a)}")
    regions = memory.regions() if view is None else []
    compiled, notes = code(a, b, stages, most_lines)
    if memory.ran_out:
        notes.append(f"memory: {size_text(most_read)} were read, the rest was not compared (--max-read)")
    if len(memory.states) < 2:
        notes.append("the launch failed in one of them: only memory before it was compared")
    if not memory.idle_known and any(s.state == "pre" and not s.same for v in views for s in v.states):
        notes.append(
            "what a launch only writes may differ before it; `kerncap verify` on both measures what it reads"
        )
    notes += [note for side, one in (("A", a), ("B", b)) for note in (f"{side}: {n}" for n in one.notes)]
    shown_views = [one for one in views if not one.same]
    shown_regions = [one for one in regions if not one.same]
    for word, listed in (("views", shown_views), ("regions", shown_regions)):
        if len(listed) > MOST_LISTED:
            notes.append(f"{len(listed) - MOST_LISTED:,} {word} more differ than are listed")
    # What is equal is named as long as there is room.
    kept_views = [one for one in views if not one.same or len(views) <= MOST_LISTED]
    kept_regions = [one for one in regions if not one.same or len(regions) <= MOST_LISTED]
    return ReproducerDiff(
        *sides,
        tuple(launch(a.manifest, b.manifest)), tuple(arguments(a, b, pairs)), tuple(compiled),
        tuple(source(a, b, most_lines)), tuple(kept_views[:MOST_LISTED]), tuple(kept_regions[:MOST_LISTED]),
        tuple(environment(a.manifest, b.manifest)), tuple(notes), _counts(a, memory, views, regions),
    )  # fmt: skip


def _counts(a: Reproducer, memory: Memory, views: list[Any], regions: list[Any]) -> dict[str, int]:
    return {
        "states": len(memory.states),  # 1: what the launch left is not known of both
        "arguments": len(a.manifest.arguments),
        "views": len(views),
        "views_different": sum(not one.same for one in views),
        "regions": len(regions),
        "regions_different": sum(not one.same for one in regions),
        "region_bytes": sum(region.size for region in a.manifest.regions),
        "pointers_alike": sum(state.pointers for one in (*views, *regions) for state in one.states[:1]),
    }


def _info(path: str, side: Reproducer) -> SideInfo:
    m = side.manifest
    return SideInfo(path, one_line(m.kernel.name), side.manifest_sha256, one_line(m.created), m.oracle.kind)


def _names(side: Reproducer) -> str:
    names = [
        one_line(view_name(side.manifest, number)) for number in range(min(20, len(side.manifest.views)))
    ]
    return ", ".join(names) or "none"


def _is_document(path: Path) -> bool:
    return os.path.isfile(path) and not zipfile.is_zipfile(path)


def _document(path: Path) -> dict[str, Any]:
    try:  # our own documents may hold NaN, which stricter readers refuse
        found = json.loads(read_regular(path, MAX_DOCUMENT_BYTES))
    except json.JSONDecodeError as error:
        raise FormatError(path, error.pos, f"not valid JSON: {error.msg}") from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise FormatError(path, 0, f"not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise FormatError(path, 0, "not a document: it is a list or a value")
    return found
