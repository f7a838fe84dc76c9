"""Reproducers of one launch that several ranks made together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kerncap.format import Reproducer
from kerncap.format.schema import Manifest


def by_rank(paths: Sequence[Path]) -> list[Path]:
    """Those of one collective launch, in the order of their ranks."""
    found: dict[int, Path] = {}
    ids: set[str] = set()
    for path in paths:
        with Reproducer.open(path) as reproducer:
            collective = reproducer.manifest.collective
        assert collective is not None and collective.ranks == len(paths)
        assert path.parent.name == f"rank{collective.rank}"
        found[collective.rank] = path
        ids.add(collective.id)
    assert len(ids) == 1
    return [found[rank] for rank in range(len(paths))]


def check_windows(paths: list[Path]) -> int:
    """Each window holds what its owner has there, before the launch and after; how many there are."""
    manifests: list[Manifest] = []
    states: list[list[tuple[bytes, bytes]]] = []
    for path in paths:
        with Reproducer.open(path) as reproducer:
            manifests.append(reproducer.manifest)
            states.append(
                [
                    (reproducer.read("pre", n, 0, region.size), reproducer.read("post", n, 0, region.size))
                    for n, region in enumerate(reproducer.manifest.regions)
                ]
            )
    windows = 0
    for rank, manifest in enumerate(manifests):
        for number, region in enumerate(manifest.regions):
            owner = region.owner
            if owner is None:
                continue
            windows += 1
            assert owner.rank != rank and region.shared
            [own] = [
                i for i, theirs in enumerate(manifests[owner.rank].regions)
                if theirs.base <= owner.base and owner.base + region.size <= theirs.base + theirs.size
            ]  # fmt: skip
            start = owner.base - manifests[owner.rank].regions[own].base
            for mine, theirs in zip(states[rank][number], states[owner.rank][own], strict=True):
                assert mine == theirs[start : start + region.size]
    return windows
