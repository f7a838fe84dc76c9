"""Invariants: ranges that hold before a loop and that its body keeps, found by widening."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kerncap.sanitizer.walk.carried import Carried
from kerncap.sanitizer.walk.values import Pointers, SymbolicValue, Tile
from kerncap.sanitizer.walk.walker import Walker

MAX_ROUNDS = 7  # of looking for invariants
WIDENING = (0, 0, 1 << 16, 1 << 30, None)  # how far a bound that moves jumps, round by round


def find_invariants(
    walker: Walker, carried: list[Carried], once: Callable[[], Sequence[SymbolicValue]]
) -> None:
    """Ranges that hold before the loop and that the body keeps, for all numbers without a closed form.

    Nothing learned under a range counts until all ranges are kept at once. A range that the body keeps
    may still be too large: what the body yields under it, with what came in, is kept as well.
    """
    unclosed = [one for one in carried if one.closed is None and one.is_number]
    before = {id(one): _range_of(walker, one.init) for one in unclosed}
    for one in unclosed:
        one.low, one.high = before[id(one)]
    kept_before = False
    for attempt in range(MAX_ROUNDS):
        yields = dict(zip(map(id, carried), once(), strict=True))
        after = {id(one): _range_of(walker, yields[id(one)]) for one in unclosed}
        kept = all(_within(after[id(one)], (one.low, one.high)) for one in unclosed)
        for one in unclosed:
            joined = _join(before[id(one)], after[id(one)])
            one.low, one.high = joined if kept else _widened((one.low, one.high), joined, attempt)
        if kept and kept_before:
            return
        kept_before = kept
    if not kept_before:
        for one in unclosed:
            one.low = one.high = None


Range = tuple["int | None", "int | None"]


def _range_of(walker: Walker, value: SymbolicValue) -> Range:
    if isinstance(value, Tile) and value.expr.sort == "int":
        return walker.solver.bounds(value.expr, walker.path)
    if isinstance(value, Pointers) and len(value.targets) == 1:
        return walker.solver.bounds(value.targets[0].offset_bytes, walker.path)
    return None, None


def _within(inner: Range, outer: Range) -> bool:
    return (outer[0] is None or (inner[0] is not None and inner[0] >= outer[0])) and (
        outer[1] is None or (inner[1] is not None and inner[1] <= outer[1])
    )


def _join(a: Range, b: Range) -> Range:
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    high = None if a[1] is None or b[1] is None else max(a[1], b[1])
    return low, high


def _widened(old: Range, new: Range, attempt: int) -> Range:
    """Bounds that moved jump: the body may move them a little in every one of many iterations."""
    low, high = new
    reach = WIDENING[min(attempt, len(WIDENING) - 1)]
    if low is not None and (old[0] is None or low < old[0]):
        # Zero is where most counters stop going down.
        low = None if reach is None else low if not reach else 0 if low >= 0 else min(low, -reach)
    if high is not None and (old[1] is None or high > old[1]):
        high = None if reach is None else max(high, reach)
    return low, high
