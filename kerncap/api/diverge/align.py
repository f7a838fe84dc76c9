"""Which launch of one run is which of the other: a diff of two sequences, from strict keys to loose ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

import msgspec

from kerncap.capture.payloads import TracedRecord
from kerncap.format import schema

_MOST_EDITS = 1000  # time and memory grow with its square; beyond it, launches are paired by their number


class Step(NamedTuple):
    """Indices of one launch in both runs; None: it has no partner there."""

    a: int | None
    b: int | None


def align(a: Sequence[TracedRecord], b: Sequence[TracedRecord]) -> list[Step]:
    """In the order of both, with as many pairs as can be found.

    Launches that left the same memory are paired first; what lies between by arguments, then by shapes, then
    by name. If a strict key leaves more launches without a partner than a loose one, the loose one is first.
    """
    best: list[Step] = []
    most = -1
    for level in range(len(_KEYS)):
        found = list(_align(a, b, range(len(a)), range(len(b)), level))
        pairs = len(a) + len(b) - len(found)
        if pairs > most:
            best, most = found, pairs
        if pairs == min(len(a), len(b)):
            break
    return best


def _align(
    a: Sequence[TracedRecord], b: Sequence[TracedRecord], rows: range, columns: range, level: int
) -> Iterator[Step]:
    if level == len(_KEYS) or not rows or not columns:
        yield from (Step(i, None) for i in rows)
        yield from (Step(None, j) for j in columns)
        return
    key = _KEYS[level]
    i, j = rows.start, columns.start
    matches = _common([key(a[i]) for i in rows], [key(b[j]) for j in columns])
    for row, column in [*matches, (len(rows), len(columns))]:
        row, column = row + rows.start, column + columns.start
        if i < row or j < column:
            yield from _align(a, b, range(i, row), range(j, column), level + 1)
        if row < rows.stop:
            yield Step(row, column)
        i, j = row + 1, column + 1


def _common(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """A longest common subsequence, as indices of both; not the longest if they have little in common."""
    shared = set(a) & set(b)  # all else has no partner, and would make the search long
    rows, columns = ([i for i, key in enumerate(side) if key in shared] for side in (a, b))
    first, second = [a[i] for i in rows], [b[j] for j in columns]
    found = _shortest_edit(first, second)
    if found is None:
        blocks = SequenceMatcher(
            None, _numbered(first), _numbered(second), autojunk=False
        ).get_matching_blocks()
        found = [(i + n, j + n) for i, j, size in blocks for n in range(size)]
    return [(rows[i], columns[j]) for i, j in found]


def _shortest_edit(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]] | None:
    """What the shortest edit script from ``a`` to ``b`` keeps; None if that has more than _MOST_EDITS.

    difflib looks for the longest equal block, which in a loop's launches is any iteration's.
    Source: Myers, "An O(ND) Difference Algorithm and Its Variations", 1986.
    """
    furthest = {1: 0}  # by diagonal: x - y
    trail = []
    for edits in range(min(len(a) + len(b), _MOST_EDITS) + 1):
        trail.append(dict(furthest))
        for diagonal in range(-edits, edits + 1, 2):
            inserted = _is_inserted(furthest, diagonal, edits)
            x = furthest[diagonal + 1] if inserted else furthest[diagonal - 1] + 1
            y = x - diagonal
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            furthest[diagonal] = x
            if x >= len(a) and y >= len(b):
                return _walk_back(trail, len(a), len(b))
    return None


def _is_inserted(furthest: Mapping[int, int], diagonal: int, edits: int) -> bool:
    """Whether a diagonal is entered by an insertion, from the one above it; else by a deletion."""
    if diagonal in (-edits, edits):
        return diagonal == -edits
    return furthest[diagonal - 1] < furthest[diagonal + 1]


def _walk_back(trail: Sequence[Mapping[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    found = []
    for edits in range(len(trail) - 1, -1, -1):
        diagonal, furthest = x - y, trail[edits]
        inserted = _is_inserted(furthest, diagonal, edits)
        start = furthest[diagonal + 1] if inserted else furthest[diagonal - 1] + 1
        found += [(at, at - diagonal) for at in range(x - 1, start - 1, -1)]
        x, y = (start, start - diagonal - 1) if inserted else (start - 1, start - diagonal)
    return found[::-1]


def _numbered(keys: Sequence[Hashable]) -> list[Hashable]:
    """Each key with how often it came before: no key comes twice, which the search is fast with."""
    seen: dict[Hashable, int] = {}
    found: list[Hashable] = []
    for key in keys:
        seen[key] = seen.get(key, 0) + 1
        found.append((key, seen[key]))
    return found


def _by_name(launch: TracedRecord) -> Hashable:
    return launch.kernel.name


def by_shape(launch: TracedRecord) -> Hashable:
    """Kernel, grid, and the tensors' types and shapes."""
    return _by_name(launch), launch.grid, tuple((view.dtype, view.shape) for view in launch.views)


def _by_argument(launch: TracedRecord) -> Hashable:
    return by_shape(launch), tuple(value_key(argument.value) for argument in launch.arguments)


def _by_memory(launch: TracedRecord) -> Hashable:
    return _by_argument(launch), tuple((region.before, region.after) for region in launch.hashed)


def value_key(value: schema.Value) -> Hashable:
    """A value without what differs from run to run: the address of a pointer, the text of an object."""
    if isinstance(value, schema.PointerValue):
        return "pointer", value.dtype, bool(value.address)
    if isinstance(value, schema.OpaqueValue):
        return "opaque", value.type_name
    if isinstance(value, schema.SequenceValue):
        return value.type, tuple(value_key(item) for item in value.items)
    return msgspec.json.encode(value)


_KEYS: tuple[Callable[[TracedRecord], Hashable], ...] = (_by_memory, _by_argument, by_shape, _by_name)
