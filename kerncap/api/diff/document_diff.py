"""Two results: documents that the same command printed with ``--json``, compared by what they mean.

Rows of a list are recognised by what names them (a kernel, a stage, a configuration), not by their place. Of
times the ratio is shown; they are never equal, so they count as different only if a limit is given.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncap.answer import Answer
from kerncap.api.diff.diff_result import WORDS
from kerncap.errors import UsageError
from kerncap.log import one_line
from kerncap.report.documents.diff import Difference, DiffResultsDocument

# Keys that only documents of that command have together. Those of one with another's keys too stand first.
_KINDS = {
    "verify": {"result", "stages", "judged_by", "poisoned_bytes"},
    "replay": {"result", "judged_by", "poisoned_bytes", "runs"},
    "replay --compare": {"result", "variants", "differences", "bisect_status"},
    "replay --edit": {"result", "save", "which", "stage"},
    "tune": {"result", "space", "shapes", "trials"},
    "limits": {"bounds", "work", "ceilings", "binding"},
    "profile": {"claims", "metrics", "ncu"},
    "doctor": {"kerncap", "ways", "checks"},
    "diff": {"result", "kind", "differing"},
    "inspect": {"manifest", "manifest_sha256", "digests"},
    "minimize": {"before_bytes", "after_bytes", "ratio"},
    "pack": {"path", "written", "size_bytes"},
    "capture": {"captured", "target_status", "kernels"},
    "list": {"kernels", "target_status", "launches"},
    "sanitize": {"result", "launches"},
}
# What names a row of a list, the surest first.
_NAMES = (
    "qualified_name", "name", "kernel", "stage", "check", "config", "digest", "variant", "region", "id",
    "file",
)  # fmt: skip
# Which run it was, not what came of it.
_TOLD = re.compile(
    r"(^|\.)(path|created|session|journal|report|captured|pid|time|manifest_sha256|repro\w*|command|seconds|"
    r"overhead_ns|self_checks|kept|file)$"
)
# Raw samples, and digests of what is compared elsewhere: said by their statistics.
_LEFT_OUT = re.compile(r"(^|\.)(times_ms|samples|digest|sha256|trials)(\[\])?$")
_TIME = re.compile(
    r"(_|^)(ns|us|ms|s|seconds|time|per_s|gbps|tflops)$|^(median|low|high|warm|cold|timed)(_ms)?$"
)
# Rows of a listing have no name: what was launched, and how, names them.
_ROW = ("grid", "block", "shared_bytes", "config", "device", "range", "route", "rank", "rest")
_MOST_CHANGES = 2_000
_MOST_DEPTH = 32
_NOISE = 1e-9  # of floats that went through text


@dataclass(frozen=True)
class DocumentDiff:
    """``max_ratio``: how many times as long a time may be; None lets times pass."""

    command: str
    a: str
    b: str
    changes: tuple[Difference, ...]
    omitted: int = 0
    max_ratio: float | None = None

    @property
    def slower(self) -> tuple[Difference, ...]:
        """Times beyond the limit, in either direction of what is better."""
        limit = self.max_ratio
        if limit is None:
            return ()
        return tuple(
            one for one in self.changes
            if one.kind == "time" and one.ratio is not None
            and (1 / one.ratio if _is_rate(one.where) and one.ratio else one.ratio) > limit
        )  # fmt: skip

    @property
    def why_open(self) -> str:
        """Why it can't be said that they are equal; empty if all changes were looked at."""
        return f"{self.omitted:,} more changes were not examined" if self.omitted else ""

    @property
    def answer(self) -> Answer:
        """No for another value, or a time beyond the limit; yes if all changes were looked at."""
        if self.slower or any(one.kind == "value" for one in self.changes):
            return Answer.NO
        return Answer.UNDECIDED if self.omitted else Answer.YES

    @property
    def equal(self) -> bool:
        return self.answer is Answer.YES

    def as_dict(self) -> dict[str, Any]:
        """The document of ``--json``."""
        slower = tuple(one.where for one in self.slower)
        return DiffResultsDocument(
            result=WORDS[self.answer], kind="results", **vars(self), slower=slower
        ).as_dict()


def kind_of(document: dict[str, Any]) -> str | None:
    """The command that prints such documents; None for one of no command."""
    return next((name for name, keys in _KINDS.items() if keys <= set(document)), None)


def compare_documents(
    path_a: Path, a: dict[str, Any], path_b: Path, b: dict[str, Any], max_ratio: float | None = None
) -> DocumentDiff:
    """What differs, in the documents' own order. Raises UsageError for documents of two commands."""
    kinds = kind_of(a), kind_of(b)
    for path, kind in zip((path_a, path_b), kinds, strict=True):
        if kind is None:
            raise UsageError(f"{path}: not a document that a kerncap command prints with --json")
    if kinds[0] != kinds[1]:
        raise UsageError(
            f"{path_a}: of kerncap {kinds[0]}, {path_b} of kerncap {kinds[1]}; give two of one command"
        )
    assert kinds[0] is not None
    changes: list[Difference] = []
    omitted = 0
    for change in _walk("", a, b, 0):
        if len(changes) < _MOST_CHANGES:
            changes.append(change)
        else:
            omitted += 1
    return DocumentDiff(kinds[0], str(path_a), str(path_b), tuple(changes), omitted, max_ratio)


def _walk(where: str, a: Any, b: Any, depth: int) -> Iterator[Difference]:
    if a == b or (a != a and b != b) or _LEFT_OUT.search(where):  # NaN is NaN here
        return
    if depth > _MOST_DEPTH:
        yield Difference(where, "value", "nested too deep", "nested too deep")
    elif isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys([*a, *b]):
            at = f"{where}.{key}" if where else str(key)
            yield from _walk(one_line(at, 300), a.get(key), b.get(key), depth + 1)
    elif isinstance(a, list) and isinstance(b, list):
        yield from _lists(where, a, b, depth)
    else:
        change = _value(where, a, b)
        if change is not None:
            yield change


def _lists(where: str, a: list[Any], b: list[Any], depth: int) -> Iterator[Difference]:
    if _TOLD.search(where):
        yield Difference(where, "told", _short(a), _short(b))
        return
    key = _key(a + b)
    if key is None:
        if all(isinstance(one, str) for one in a + b):  # notes, reasons: which come and which go
            for one in [one for one in a if one not in set(b)]:
                yield Difference(f"{where}[]", "value", _short(one), None)
            for one in [one for one in b if one not in set(a)]:
                yield Difference(f"{where}[]", "value", None, _short(one))
        elif len(a) == len(b):
            for number, (x, y) in enumerate(zip(a, b, strict=True)):
                yield from _walk(f"{where}[{number}]", x, y, depth + 1)
        else:
            yield Difference(f"{where}: number of rows", "value", len(a), len(b))
        return
    rows_a, rows_b = _rows(a, key), _rows(b, key)
    for name in dict.fromkeys([*rows_a, *rows_b]):
        at = f"{where}[{name}]"
        if name not in rows_a or name not in rows_b:
            in_a, in_b = ("there" if name in rows else None for rows in (rows_a, rows_b))
            yield Difference(at, "value", in_a, in_b)
        else:
            yield from _walk(at, rows_a[name], rows_b[name], depth + 1)


def _key(rows: list[Any]) -> tuple[str, ...] | None:
    """The fields that name each row, if all have them."""
    if not rows or not all(isinstance(row, dict) for row in rows):
        return None
    if all("grid" in row and "launches" in row for row in rows):
        return _ROW
    return next(((name,) for name in _NAMES if all(name in row for row in rows)), None)


def _rows(rows: list[dict[str, Any]], key: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """By name; those of one name are numbered."""
    found: dict[str, dict[str, Any]] = {}
    seen: Counter[str] = Counter()
    for row in rows:
        text = one_line(" ".join(_text(row[name]) for name in key if row.get(name)), 160)
        seen[text] += 1
        found[text if seen[text] == 1 else f"{text} #{seen[text]}"] = row
    return found


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={one}" for name, one in value.items())
    return "x".join(map(str, value)) if isinstance(value, list) else str(value)


def _value(where: str, a: Any, b: Any) -> Difference | None:
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (a, b))
    if _TOLD.search(where):
        return Difference(where, "told", _short(a), _short(b))
    leaf = re.split(r"[.\[]", where)[-1].rstrip("]")
    if numbers and (_TIME.search(leaf) or "time" in where.split("[")[0]):
        ratio = b / a if a and math.isfinite(a) else None
        return Difference(where, "time", a, b, ratio)
    if numbers and isinstance(a, float) and math.isclose(a, b, rel_tol=_NOISE):
        return None
    ratio = b / a if numbers and a and a > 0 and b >= 0 else None
    as_time = numbers and _follows_time(leaf)
    return Difference(where, "time" if as_time else "value", _short(a), _short(b), ratio)


def _follows_time(leaf: str) -> bool:
    """Shares and ratios of times are as noisy as these."""
    return bool(re.search(r"(share|fraction|achieved|headroom|speedup|gain|ratio)", leaf))


def _is_rate(where: str) -> bool:
    """Of a rate more is better."""
    return bool(re.search(r"(per_s|gbps|tflops|fraction|achieved|speedup)", where.rpartition(".")[2]))


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return one_line(value, 400)
    if isinstance(value, dict | list):
        return one_line(value, 400)
    return value
