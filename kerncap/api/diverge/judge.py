"""One launch whose digests differ, judged by the reproducers of both sides."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from kerncap import log
from kerncap.api.diff import diff_reproducers, opened
from kerncap.api.diff.diff_result import ReproducerDiff
from kerncap.api.diverge.diverge_result import ARGUMENTS, LAUNCH, MEMORY, Named
from kerncap.api.diverge.launch_differences import Pair
from kerncap.api.diverge.recorded_side import shown
from kerncap.api.diverge.two_runs import Captured, Side, capture_launch, checked
from kerncap.api.sanitize import sanitize_reproducer
from kerncap.capture.trace_file import Trace
from kerncap.errors import KerncapError
from kerncap.format import WriteSet
from kerncap.report.documents.diverge import Place
from kerncap.sanitizer.findings import LaunchReport


class Verdict(enum.Enum):
    DIFFERENT = "different"
    HARMLESS = "harmless"  # it neither reads nor writes the bytes that differ
    WITHIN = "within"  # the tolerance
    UNREPEATED = "unrepeated"  # its inputs agreed and its results did not, and this time they did
    OPEN = "open"


@dataclass(frozen=True)
class Tolerance:
    """What counts as equal: any one of them. None: bit for bit."""

    ulps: float | None = None
    rtol: float | None = None
    atol: float | None = None

    @property
    def is_exact(self) -> bool:
        return self.ulps is None and self.rtol is None and self.atol is None

    def holds(self, diff: ReproducerDiff, state: str) -> bool:
        """Whether all memory in this state is within it."""
        for region in diff.regions:
            if region.problem or any(one.different for one in region.states if one.state == state):
                return False
        for view in diff.views:
            if view.problem:
                return False
            for one in view.states:
                if one.state == state and one.different and not self._covers(one.errors, one.measured):
                    return False
        return True

    def _covers(self, errors: dict[str, object], measured: int) -> bool:
        if not measured or errors.get("special_differs"):
            return False
        for name, most in (("ulp_max", self.ulps), ("rel_max", self.rtol), ("abs_max", self.atol)):
            value = errors.get(name)
            if most is not None and isinstance(value, int | float) and value <= most:
                return True
        return False


@dataclass(frozen=True)
class Judged:
    """``said`` is why it is open. The reproducers are the caller's, to keep or remove."""

    verdict: Verdict
    named: Named
    said: str = ""
    captured: tuple[Captured, ...] = ()

    def discard(self) -> None:
        for one in self.captured:
            one.remove()


def is_certain(pair: Pair) -> bool:
    """Whether the digests show it: equal bytes in, other bytes out."""
    return pair.is_matched and bool(pair.after) and not pair.before and not pair.uncompared


def _certain(pair: Pair, named: Named, captured: tuple[Captured, Captured]) -> Named | None:
    """What is named if the digests show it, with the reproducer of one side if there is one."""
    if is_certain(pair):
        return named
    for launch, one in zip((pair.first, pair.second), captured, strict=True):
        if one.path is not None and launch is not None:
            try:
                with opened(one.path) as reproducer:
                    found = shown(pair, launch, reproducer)
            except KerncapError:
                return None
            if found is not None:
                before, after = found
                return replace(named, kind=kind_of(pair, bool(before)), before=before, after=after)
    return None


def named_of(kind: str, pair: Pair, captured: tuple[Captured, Captured] = (Captured(), Captured())) -> Named:
    """The launch of a pair by its digests, with the reproducers that there are."""
    places = [
        None
        if launch is None
        else Place.of(launch, pair.process, str(log.from_here(one.path)) if one.path else None)
        for launch, one in zip((pair.first, pair.second), captured, strict=True)
    ]
    return Named(
        kind, places[0], places[1], pair.before, pair.after, pair.changed, raised=pair.raised,
        problems=tuple(one.problem for one in captured if one.problem),
    )  # fmt: skip


@dataclass(frozen=True)
class Captures:
    """Captures launches of pairs: each runs its side again, and puts the reproducer into ``output``."""

    sides: tuple[Side, Side]
    runs: tuple[Trace, Trace]
    output: Path

    def of(self, pair: Pair, which: int) -> Captured:
        """Of one side (0 is A); nothing of a launch that it lacks."""
        launch = (pair.first, pair.second)[which]
        side = self.sides[which]
        if launch is None:
            return Captured()
        return capture_launch(
            side, self.runs[which], pair.process, launch, self.output / side.name.lower()
        )  # fmt: skip

    def both(self, pair: Pair, known: dict[int, Captured] | None = None) -> tuple[Captured, Captured]:
        """``known`` are there already, by side."""
        known = known or {}
        found = [known[which] if which in known else self.of(pair, which) for which in (0, 1)]
        return found[0], found[1]


def judge(pair: Pair, captured: tuple[Captured, Captured], tolerance: Tolerance) -> Judged:
    """What the memory of a matched launch shows, of which there are the reproducers of both sides."""
    by_digest = named_of(kind_of(pair, bool(pair.before)), pair, captured)
    a, b = captured[0].path, captured[1].path
    if a is None or b is None:
        if not is_certain(pair):
            captured = checked(captured)
        if tolerance.is_exact and (certain := _certain(pair, by_digest, captured)):
            return Judged(Verdict.DIFFERENT, certain, captured=captured)
        said = "; ".join(by_digest.problems)
        return Judged(
            Verdict.OPEN, by_digest, f"whether it reads or writes what differs is not known: {said}", captured
        )
    try:
        diff = diff_reproducers(a, b)
        if "memory after" not in diff.differing or "memory before" in diff.differing:
            # Which bytes it reads and writes matters: what differs may be none of them.
            captured = checked(captured)
            diff = diff_reproducers(a, b)
        unmeasured = [
            f"{side}: {one.unchecked or 'its self-check measured nothing'}"
            for side, path, one in zip("AB", (a, b), captured, strict=True)
            if not _is_measured(path)
        ]
    except KerncapError as error:
        return Judged(
            Verdict.OPEN, by_digest, f"its reproducers can't be compared: {log.one_line(error)}", captured
        )
    named = replace(by_digest, diff=diff)
    if "memory after" not in diff.differing:
        if diff.why_open:
            return Judged(Verdict.OPEN, named, diff.why_open, captured)
        verdict = Verdict.UNREPEATED if is_certain(pair) else Verdict.HARMLESS
        return Judged(verdict, named, captured=captured)
    before = "memory before" in diff.differing
    if not tolerance.is_exact:
        if tolerance.holds(diff, "post"):
            return Judged(Verdict.WITHIN, named, captured=captured)
        before = before and not tolerance.holds(diff, "pre")
    if before and unmeasured and not pair.changed:
        said = f"which bytes it reads could not be measured ({'; '.join(unmeasured)})"
        return Judged(Verdict.OPEN, named, said, captured)
    if before and is_certain(pair):  # another path than the traced runs took
        return Judged(Verdict.UNREPEATED, named, captured=captured)
    states = {
        state: tuple(
            view.name
            for view in diff.views
            if view.problem or any(one.different for one in view.states if one.state == state)
        )
        for state in ("pre", "post")
    }
    named = replace(
        named, kind=kind_of(pair, before), before=states["pre"] if before else (), after=states["post"]
    )
    return Judged(Verdict.DIFFERENT, named, captured=captured)


def sanitized(named: Named) -> Named:
    """With the sanitizer's reports of its reproducers, or why there are none."""
    found: list[tuple[Literal["A", "B"], tuple[LaunchReport, ...]]] = []
    sides: tuple[Literal["A", "B"], ...] = ("A", "B")
    problems = list(named.problems)
    for side, place in zip(sides, (named.a, named.b), strict=True):
        if place is None or place.reproducer is None:
            continue
        try:
            found.append((side, tuple(sanitize_reproducer(place.reproducer, trusted=True))))
        except KerncapError as error:
            problems.append(f"{side}: not sanitized: {log.one_line(error)}")
    return replace(named, sanitized=tuple(found), problems=tuple(problems))


def kind_of(pair: Pair, before: bool) -> str:
    """Of a matched launch that differs; ``before``: in memory that it reads, too."""
    if pair.changed:
        return ARGUMENTS
    return MEMORY if before else LAUNCH


def _is_measured(path: Path) -> bool:
    with opened(path) as reproducer:
        return WriteSet.load(reproducer) is not None
