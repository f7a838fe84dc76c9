"""A smaller kernel that brute force and the sanitizer still disagree about in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.fuzz.sanitizer.case import Case
from tests.fuzz.sanitizer.compare import Outcome, compare


def shrink(outcome: Outcome) -> Outcome:
    """Removes lines, whole blocks and programs, as long as a disagreement of the same kinds stays."""
    kinds = {one.kind for one in outcome.disagreements}
    again = bool(kinds)
    while again:
        again = False
        for smaller in _smaller(outcome.case):
            try:
                tried = compare(smaller)
            except Exception:  # half a kernel: a name that is not there any more
                continue
            if tried.skipped is None and kinds & {one.kind for one in tried.disagreements}:
                outcome, again = tried, True
                break
    return outcome


def _smaller(case: Case) -> Iterator[Case]:
    lines = case.source.splitlines()
    for start in range(len(lines) - 1, 2, -1):
        depth = _indent(lines[start])
        end = start + 1
        while end < len(lines) and _indent(lines[end]) > depth:
            end += 1
        body = lines[start + 1 : end]
        # The line with what hangs on it; then its body in its place.
        yield _with(case, [*lines[:start], *lines[end:]])
        if body:
            yield _with(case, [*lines[:start], *(one[4:] for one in body), *lines[end:]])
    for axis, extent in enumerate(case.grid):
        for fewer in {1, extent // 2, extent - 1}:
            if 1 <= fewer < extent:
                x, y, z = (fewer if at == axis else n for at, n in enumerate(case.grid))
                yield replace(case, grid=(x, y, z))


def _with(case: Case, lines: list[str]) -> Case:
    return replace(case, source="\n".join(lines) + "\n")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
