"""Reproducers whose launches follow each other: each begins with what the one before it left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap.errors import UsageError
from kerncap.printable import visible

if TYPE_CHECKING:
    from kerncap.sanitizer.launch import Launch
    from kerncap.sanitizer.paged_bytes import PagedBytes


def check_handed_on(launches: Sequence[Launch], paths: Sequence[Path]) -> None:
    """Raises UsageError for memory that something else wrote to between two of the launches."""
    from kerncap.sanitizer.sources.reproducer import ReproducerContents

    left: dict[tuple[int, int], tuple[PagedBytes, Path]] = {}
    for launch, path in zip(launches, paths, strict=True):
        contents = launch.contents
        assert isinstance(contents, ReproducerContents)
        for index, one in enumerate(launch.storages):
            place = one.address, one.size_bytes
            before = contents.read(index)
            if place in left and before is None:
                raise UsageError(
                    f"{visible(path)}: it has no contents, so what it begins with is not known; capture "
                    "launches without --no-values"
                )
            if place in left and before is not None:
                after, earlier = left[place]
                if (after.whole() != before.whole()).any():
                    raise UsageError(
                        f"{visible(path)}: {one.name or 'memory'} does not begin with what "
                        f"{visible(earlier)} left in it; give all launches between them, in their order"
                    )
            left[place] = contents.after(index), path
