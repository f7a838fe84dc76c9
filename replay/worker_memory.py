"""What an engine does to the memory of its worker: states, poison, and comparisons of one with another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kerncap.format.schema import Manifest
from kerncap.replay.connection import Connection
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.worker.protocol import (
    Backend,
    Difference,
    ErrorBoxes,
    ErrorStatistics,
    Limits,
    Nonfinite,
    View,
)


class WorkerMemory:
    """The part of an engine that works on memory; ``connection`` is to the worker that has it."""

    manifest: Manifest
    connection: Connection
    _ran_python: bool
    _snapshots: set[str]

    def restore(self, state: str = "pre") -> None:
        self.connection.call(Backend.restore, state)

    def snapshot(self, name: str) -> None:
        self._snapshots.add(name)
        self.connection.call(Backend.snapshot, name)

    def amend(self, state: str, ranges: Sequence[tuple[int, int, int]], contents: Sequence[Any]) -> None:
        """Give a snapshot other bytes: of each range (region, start, stop) those of its array."""
        with self.connection.file("contents") as name:
            with (self.connection.job.folder / name).open("wb") as file:
                for data in contents:
                    file.write(data)
            self.connection.call(Backend.amend, state, list(ranges), name)

    def reload(self) -> None:
        """Take the captured states from their files again, if the worker keeps copies on the device."""
        if self.connection.choice.launcher == "native":
            self.connection.call(Backend.reload)

    def drop_all(self) -> None:
        """Forget every snapshot."""
        for name in list(self._snapshots):
            self.drop(name)

    def drop(self, name: str) -> None:
        self._snapshots.discard(name)
        self.connection.call(Backend.drop, name)

    def fill(self, region: int, start: int, stop: int, seed: int, mask: Bits | None = None) -> None:
        """Poison bytes [start, stop) of a region, or those of them that are in ``mask``."""
        with self.connection.file("mask") as name:
            if mask is not None:
                self.connection.save(name, mask)
            self.connection.call(Backend.fill, region, start, stop, seed, None if mask is None else name)

    def put(self, state: str, region: int, mask: Bits) -> None:
        """Put the bytes of ``mask`` as a state has them."""
        with self.connection.file("mask") as name:
            self.connection.save(name, mask)
            self.connection.call(Backend.put, state, region, name)

    def perturb(self, views: list[int], masks: dict[int, Bits]) -> int:
        """Give other contents, the same each time, to the elements of ``views`` in the regions' masks.

        How many elements were changed.
        """
        with self.connection.mask_files(masks) as files:
            return self.connection.call(Backend.perturb, views, files)

    def differing(self, state: str) -> list[int]:
        """The regions that differ from a state anywhere."""
        return self.connection.call(Backend.differing, state)

    def diff(self, region: int, against: str, seed: int = 0, mask: Bits | None = None) -> Bits:
        """The bytes that differ from a state, or from ``poison`` of a seed; of those in
        ``mask``, if there is one."""
        size = self.manifest.regions[region].size
        with self.connection.file("diff") as name, self.connection.file("mask") as inside:
            if mask is not None:
                self.connection.save(inside, mask)
            given = None if mask is None else inside
            if not self.connection.call(Backend.diff, region, against, out=name, seed=seed, mask=given):
                return bitmap.empty(size)
            bits = self.connection.load(name)
        return bits if mask is None else bits & mask

    def untouched(self, region: int) -> Bits:
        """The bytes that no launch has read or written since the last `restore`, as far as
        the worker knows."""
        with self.connection.file("untouched") as name:
            if self.connection.call(Backend.untouched, region, out=name):
                return self.connection.load(name)
            return bitmap.empty(self.manifest.regions[region].size)

    def gap_writes(self) -> list[tuple[int, int, int]]:
        """(first address, last address, bytes) written in each stretch of memory that is in no region."""
        return self.connection.call(Backend.gap_writes)

    def infer(self, region: int, start: int, stop: int, mask: Bits, against: str) -> View | None:
        """The view of bytes [start, stop) as the floating type that explains how they differ from a state at
        the bytes of ``mask``; None if none does, and for engines of which all arguments are typed."""
        choice = self.connection.choice
        if choice.launcher != "native" or choice.torch_free or not mask.any():
            return None
        hint = self.manifest.kernel.qualified_name
        with self.connection.file("mask") as name:
            self.connection.save(name, mask)
            found = self.connection.call(Backend.infer, region, start, stop, name, against, hint)
        if found is None:
            return None
        where = f"region {region}{f' from byte {start}' if start else ''}"
        return View(
            region, start + found.offset, found.dtype, found.itemsize, [found.elements], [1],
            f"{where} as {found.dtype} (inferred)",
        )  # fmt: skip

    def compare(self, views: Sequence[tuple[int | View, float, float]], against: str) -> list[Difference]:
        """Statistics of each ``(view, rtol, atol)`` against a state or `REFERENCE`.

        A view is the number of one, or (for native launches) one as `infer` makes it.
        """
        return self.connection.call(Backend.compare, list(views), against)

    def errors(self, views: Sequence[Limits], against: str) -> list[ErrorStatistics]:
        """Statistics of the errors of each view, which is a number of one, against a state or `REFERENCE`."""
        return self.connection.call(Backend.errors, list(views), against, file=None)

    def boxes(self, views: Sequence[Limits], against: str) -> list[ErrorBoxes]:
        """Where each view differs from a state."""
        return self.connection.call(Backend.boxes, list(views), against)

    def within(self, views: Sequence[tuple[int | View, float, float]], against: str) -> bool:
        """Whether `compare` would find nothing outside: if no more is asked, much less is to be done."""
        if self.connection.choice.launcher == "native":
            return not any(stats.outside for stats in self.compare(views, against))
        return self.connection.call(Backend.within, list(views), against)

    def nonfinite(self, views: list[int], written: dict[int, Bits]) -> list[Nonfinite]:
        """NaN and infinities among the written elements of ``views``."""
        with self.connection.mask_files(written) as masks:
            return self.connection.call(Backend.nonfinite, views, masks)

    def reference(self, path: Path) -> list[int]:
        """Run the user's reference on the pre-state; the views that it gives values for."""
        self._ran_python = True
        return self.connection.call(Backend.reference, str(path.resolve()))

    def pre_files(self) -> list[list[Path]]:
        """The regions' bytes before the launch, in one file after the other."""
        job = self.connection.job
        return [[job.folder / name for name in region["pre"]] for region in job.content["regions"]]
