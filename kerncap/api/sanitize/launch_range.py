"""`sanitize RANGE`: each launch of a range, and launches that nothing is known to order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kerncap.api.accessed_bytes import accessed_bytes
from kerncap.api.range_flow import Masks, add, meet, meeting, place_masks
from kerncap.api.range_flow import count as count_of
from kerncap.api.range_order import order_of, stream_names
from kerncap.api.sanitize import Stage, has_code, judged
from kerncap.errors import BackendUnavailable, KerncapError
from kerncap.format import LaunchOfRange, LaunchRange
from kerncap.log import one_line
from kerncap.replay import trust
from kerncap.replay.ranges.joined_memory import share
from kerncap.sanitizer.findings import (
    NOT_SANITISED,
    Finding,
    LaunchReport,
    Place,
    Proved,
    Settled,
    Unproven,
    Verdict,
    Violated,
)
from kerncap.sanitizer.options import Options
from kerncap.sanitizer.ttir.ir import UNKNOWN_LOCATION

_NO_OPERATION = -1  # of the TTIR: the question is about the launch as a whole
_MOST_S = 60.0  # to find what a launch accesses


def sanitize_range(
    path: Path,
    options: Options | None = None,
    *,
    target: str | None = None,
    trusted: bool = False,
    python: str | None = None,
    stage: Stage = "ttir",
) -> list[LaunchReport]:
    """A report for each launch of the range, on the memory before it.

    If two launches on different streams reach the same bytes and one writes there, the later one has a race
    of launches: proved if events or the host's waits order them, found if nothing does and both are known to
    access these bytes, else open. A launch that can't be judged says so. Raises as `sanitize_reproducer`.
    """
    options = options or Options()
    with LaunchRange.open(path) as opened:
        for launch in opened.launches:
            if not has_code(launch) and launch.manifest.kernel.language == "triton":
                trust.require(
                    launch, trusted, ": a launch without compiled code is compiled from its source. That"
                )
        reports = [_report(launch, options, target, trusted, python, stage) for launch in opened.launches]
        if "race" in options.checks:
            for number, question in _unordered(opened, _How(trusted, python)):
                settled = (*reports[number].settled, question)
                reports[number] = replace(reports[number], settled=settled)
        return reports


def _report(
    launch: LaunchOfRange,
    options: Options,
    target: str | None,
    trusted: bool,
    python: str | None,
    stage: Stage,
) -> LaunchReport:
    manifest, label = launch.manifest, f"launch {launch.number}"
    try:
        if manifest.kernel.language != "triton":
            raise BackendUnavailable(
                "the sanitizer", f"it judges Triton kernels, not {manifest.kernel.language}"
            )
        return replace(judged(launch, options, target, trusted, python, stage=stage), label=label)
    except KerncapError as error:
        x, y, z = (*manifest.launch.grid, 1, 1)[:3]
        notes = (f"{NOT_SANITISED}: {one_line(error)}",)
        return LaunchReport(manifest.kernel.name, (x, y, z), (), notes, label)


def _unordered(opened: LaunchRange, options: _How) -> Iterator[tuple[int, Settled]]:
    """The later launch of each pair on different streams that share bytes, and what is known of its order."""
    order, streams = order_of(opened), stream_names(opened)
    pairs = [
        (one, other)
        for other in range(len(opened.launches))
        for one in range(other)
        if streams[one] != streams[other] or not order.orders(one, other)
    ]
    accesses = _Accesses(opened, options)
    for (one, other), count in meeting(opened, pairs).items():
        is_ordered = order.orders(one, other)
        verdict: Verdict
        if is_ordered:
            verdict = Proved("order")
        else:
            shared = accesses.conflict(one, other) if is_ordered is False else None
            verdict = (
                Unproven(one_line(_why_open(opened, one, other, count, is_ordered)))
                if not shared
                else Violated((_finding(opened, one, other, shared),))
            )
        yield other, Settled("race", "none", UNKNOWN_LOCATION, verdict, order=_NO_OPERATION)


def _why_open(opened: LaunchRange, one: int, other: int, count: int, is_ordered: bool | None) -> str:
    what = (
        f"{_named(opened, one)} and {_named(opened, other)} reach the same {count:,} bytes, and one of them "
        "writes there; "
    )
    if is_ordered is False:
        return f"{what}nothing orders them, but whether both access these bytes is not known"
    if opened.manifest.order is None:
        return f"{what}what orders streams was not recorded, so whether these two are ordered is not known"
    return f"{what}something that was recorded may order them, and whether it does is not known"


def _named(opened: LaunchRange, number: int) -> str:
    kernel = opened.launches[number].manifest.kernel.name
    return f"launch {number} ({kernel}, {stream_names(opened)[number]})"


def _finding(opened: LaunchRange, one: int, other: int, count: int) -> Finding:
    return Finding(
        check="race",
        access="none",
        location=UNKNOWN_LOCATION,
        message=one_line(
            f"{_named(opened, one)} and {_named(opened, other)} access the same {count:,} bytes, and one of "
            "them stores there; no event and no synchronisation is between them, so they may run at once"
        ),
        place=Place((0, 0, 0), ()),
        contents=True,
        suggestion=(f"record an event after launch {one}, and let the stream of launch {other} wait for it"),
    )


@dataclass(frozen=True)
class _How:
    """How a source is compiled, for what a launch accesses."""

    trusted: bool
    python: str | None


class _Accesses:
    """What the launches of a range access, byte by byte; each is evaluated once."""

    def __init__(self, opened: LaunchRange, how: _How) -> None:
        self._opened, self._how = opened, how
        self._shared = share([launch.manifest for launch in opened.launches])
        self._known: dict[int, tuple[Masks, Masks] | None] = {}

    def conflict(self, one: int, other: int) -> int:
        """The bytes that one of the launches stores and the other accesses; 0 also if that is not known."""
        first, second = self._of(one), self._of(other)
        if first is None or second is None:
            return 0
        met: Masks = {}
        for mine, theirs in ((first[0], second[1]), (first[1], second[0]), (first[1], second[1])):
            add(met, meet(mine, theirs))
        return count_of(met)

    def _of(self, number: int) -> tuple[Masks, Masks] | None:
        """What the launch reads, and what it stores."""
        if number not in self._known:
            launch = self._opened.launches[number]
            found, _ = accessed_bytes(launch, _MOST_S, self._how.trusted, self._how.python)
            self._known[number] = (
                None
                if found is None
                else (self._placed(number, found.read), self._placed(number, found.stored))
            )
        return self._known[number]

    def _placed(self, number: int, masks: Masks) -> Masks:
        return place_masks(self._opened.launches[number], self._shared, lambda region: masks.get(region))
