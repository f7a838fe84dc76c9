"""The reproducers of all ranks of a collective launch as one: regions, views and windows in one manifest."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kerncap.errors import BackendUnavailable, ReplayError, UsageError
from kerncap.format import Reproducer
from kerncap.format.memory_index import State
from kerncap.format.schema import Manifest, Region, View
from kerncap.replay.choose_engine import Choice, choose, without_torch


@dataclass(frozen=True)
class Part:
    """A region or a view of the engine: the rank's number, and its own number there."""

    rank: int
    number: int


class AllReproducers:
    """That of rank 0, but for what is asked by region."""

    def __init__(self, of_rank: Sequence[Reproducer], manifest: Manifest, regions: Sequence[Part]) -> None:
        self._of_rank = of_rank
        self._regions = regions
        self.manifest = manifest

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of_rank[0], name)

    def chunks_changed(self, region: int) -> list[int]:
        part = self._regions[region]
        return self._of_rank[part.rank].chunks_changed(part.number)

    def read(self, state: State, region: int, start: int, size: int) -> bytes:
        part = self._regions[region]
        return self._of_rank[part.rank].read(state, part.number, start, size)


def in_order(reproducers: Sequence[Reproducer]) -> list[Reproducer]:
    """Those of all ranks of one collective launch, by rank. Raises UsageError for others."""
    found: dict[int, Reproducer] = {}
    first = reproducers[0].manifest.collective
    for reproducer in reproducers:
        collective = reproducer.manifest.collective
        if collective is None or first is None:
            raise UsageError(f"{reproducer.path}: not captured with --collective; leave out --together")
        if collective.id != first.id:
            raise UsageError(
                f"{reproducer.path}: of another launch than {reproducers[0].path}; give the ranks of one"
            )
        if collective.ranks != first.ranks:
            raise UsageError(
                f"{reproducer.path}: of {collective.ranks} ranks, {reproducers[0].path} of {first.ranks}; "
                "give the ranks of one launch"
            )
        if collective.rank in found:
            raise UsageError(f"{reproducer.path}: rank {collective.rank} is given twice; give each rank once")
        found[collective.rank] = reproducer
    missing = sorted(set(range(first.ranks if first is not None else 0)) - found.keys())
    if missing:
        raise UsageError(
            f"{reproducers[0].path}: one of {first.ranks if first else 0} ranks; give rank "
            f"{', '.join(map(str, missing))} too"
        )
    return [found[rank] for rank in sorted(found)]


class _Spans:
    """Ranges of addresses, which may overlap."""

    def __init__(self, spans: Iterable[Sequence[int]]) -> None:
        """Each: base, size."""
        ordered = sorted((base, base + size) for base, size in spans)
        self._bases = [base for base, _ in ordered]
        self._ends = list(itertools.accumulate((end for _, end in ordered), max))

    def reach(self, before: int) -> int:
        """The last end of those that begin before an address; 0 without any."""
        count = bisect.bisect_left(self._bases, before)
        return self._ends[count - 1] if count else 0


def joined(
    of_rank: Sequence[Reproducer], given: Sequence[Sequence[Sequence[int]]]
) -> tuple[list[Part], list[Part], Manifest, set[int]]:
    """The regions and views of all ranks, a manifest that has them, and which regions several ranks have."""
    regions: list[Part] = []
    views: list[Part] = []
    shared: set[int] = set()
    in_manifest: list[View] = []
    regions_there: list[Region] = []
    windows = [_Spans(each) for each in given]
    for rank, reproducer in enumerate(of_rank):
        manifest = reproducer.manifest
        numbers = {}
        for number, region in enumerate(manifest.regions):
            if region.owner is None:
                numbers[number] = len(regions)
                is_window = windows[rank].reach(region.base + region.size) > region.base
                if region.shared or is_window:
                    shared.add(len(regions))
                # Those who have it are here.
                regions_there.append(msgspec.structs.replace(region, shared=None) if is_window else region)
                regions.append(Part(rank, number))
        for number, view in enumerate(manifest.views):
            if view.region in numbers:
                views.append(Part(rank, number))
                name = f"rank{rank}.{view.name or f'view{number}'}"
                in_manifest.append(msgspec.structs.replace(view, region=numbers[view.region], name=name))
    manifest = msgspec.structs.replace(
        of_rank[0].manifest,
        regions=tuple(regions_there),
        views=tuple(in_manifest),
        zeros=tuple(zero for reproducer in of_rank for zero in reproducer.manifest.zeros),
        collective=None,
    )
    return regions, views, manifest, shared


def given_windows(of_rank: Sequence[Reproducer]) -> list[list[list[int]]]:
    """By rank: (base, size) of its memory that others have as windows. Raises ReplayError if it lacks one."""
    given: list[list[list[int]]] = [[] for _ in of_rank]
    own = [_Spans((r.base, r.size) for r in each.manifest.regions if r.owner is None) for each in of_rank]
    for reproducer in of_rank:
        for region in reproducer.manifest.regions:
            owner = region.owner
            if owner is None:
                continue
            if own[owner.rank].reach(owner.base + 1) < owner.base + region.size:
                raise ReplayError(
                    f"{reproducer.path}: it has a window on memory that rank {owner.rank} did not keep; "
                    "capture again"
                )
            given[owner.rank].append([owner.base, region.size])
    return given


def choices_of(of_rank: Sequence[Reproducer], device: str, python: str | None) -> list[Choice]:
    """An engine that launches an image for each rank: on the devices that they had, or all on one."""
    found = []
    for reproducer in of_rank:
        manifest = reproducer.manifest
        choice = choose(manifest, device=device, python=python)
        choice = choice if choice.launcher == "native" else without_torch(choice, manifest) or choice
        if choice.launcher != "native" or choice.memory != "cuda":
            raise BackendUnavailable(
                "a replay of all ranks together", "it launches images on CUDA devices only"
            )
        found.append(choice)
    return found
