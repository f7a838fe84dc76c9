"""The launches of a range that was captured, joined in one reproducer for each process and device."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kerncap import log
from kerncap.capture.seal import SealedLaunch, size_on_disk
from kerncap.capture.stream_order import stream_order
from kerncap.errors import KerncapError
from kerncap.format import Reproducer, schema
from kerncap.format.range_writer import write_range

_MOST_NAMES = 4  # of kernels, in a line for a person


def join_ranges(
    sealed: Sequence[SealedLaunch], first: int | None, singles: Path, output: Path
) -> tuple[list[SealedLaunch], list[str]]:
    """Write the ranges of the launches that lie in ``singles`` below ``output``; and what went wrong.

    ``first`` is the position that a range begins with, if it was asked for by numbers. A range that can't
    be written is kept as reproducers of its launches.
    """
    joined, failed = [], []
    for group in _groups(sealed):
        place = output / group[0].path.parent.relative_to(singles)
        try:
            order = stream_order([each for each in sealed if each.pid == group[0].pid], group)
            joined.append(_join(group, first, place, order))
        except (KerncapError, OSError, ValueError) as error:
            failed.append(log.one_line(f"the range of {len(group)} launches could not be written: {error}"))
            joined += [_kept(each, place) for each in group]
    return joined, failed


def _groups(sealed: Sequence[SealedLaunch]) -> Iterator[list[SealedLaunch]]:
    """The launches of one process and device, in the order in which they were launched."""
    keyed = sorted(((each.pid, *_device(each.path)), each.position or 0, each.path) for each in sealed)
    by_path = {each.path: each for each in sealed}
    for _, group in itertools.groupby(keyed, key=lambda item: item[0]):
        yield [by_path[path] for _, _, path in group]


def _device(path: Path) -> tuple[str, int]:
    with Reproducer.open(path) as reproducer:
        return reproducer.manifest.device.kind, reproducer.manifest.device.ordinal


def _join(
    group: Sequence[SealedLaunch], first: int | None, place: Path, order: schema.StreamOrder | None
) -> SealedLaunch:
    positions = [each.position or 0 for each in group]
    gaps = set(range(positions[0] if first is None else first, positions[-1])) - set(positions)
    missing = [
        schema.MissingLaunch(position=position, reason="it could not be captured, or ran on another device")
        for position in sorted(gaps)[: schema.MAX_MAP]
    ]
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(Reproducer.open(each.path)) for each in group]
        path = write_range(place, list(zip(positions, opened, strict=True)), missing, order=order)
    names = list(dict.fromkeys(each.kernel for each in group))
    shown = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
    untrusted = [each.oracle for each in group if each.oracle != "trusted"]
    return replace(
        group[0],
        path=path,
        kernel=shown,
        qualified_name=", ".join(dict.fromkeys(each.qualified_name for each in group)),
        ordinal=positions[0],
        regions_bytes=sum(each.regions_bytes for each in group),
        disk_bytes=size_on_disk(path),
        oracle=untrusted[0] if untrusted else "trusted",
        launches=len(group),
    )


def _kept(each: SealedLaunch, place: Path) -> SealedLaunch:
    """A reproducer of one launch, where the range should have been."""
    place.mkdir(parents=True, exist_ok=True)
    final = place / each.path.name
    os.rename(each.path, final)
    return replace(each, path=final)
