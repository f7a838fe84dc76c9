"""A range as one reproducer: the memory of all its launches, and what of it an engine is given."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kerncap.errors import BackendUnavailable
from kerncap.format import LaunchOfRange, LaunchRange
from kerncap.format.memory_index import State
from kerncap.format.schema import Manifest
from kerncap.replay.choose_engine import Choice, choose
from kerncap.replay.ranges.joined_memory import Place, SharedMemory, moved
from kerncap.replay.ranges.memory_between_launches import Timeline
from kerncap.replay.staging import NATIVE_STAGES


class LaunchInWhole(LaunchOfRange):
    """A launch whose views lie in the range's memory."""

    def __init__(self, launch: LaunchOfRange, manifest: Manifest, places: Sequence[Place]) -> None:
        super().__init__(launch.path, launch.number, launch.position, launch.manifest_bytes)
        self._variables = [places[index].region for index in launch.variables]
        self.manifest = manifest

    @property
    def variables(self) -> list[int]:
        return self._variables


class WholeRange(LaunchInWhole):
    """What an `Engine` takes a range for: its first launch, with the memory and the views of them all.

    Its state before is that of the timeline when it is staged. It has no state after: the launches have.
    """

    in_range: tuple[LaunchInWhole, ...]

    def __init__(self, opened: LaunchRange, shared: SharedMemory, timeline: Timeline) -> None:
        firsts = itertools.accumulate((len(one.manifest.views) for one in opened.launches), initial=0)
        manifests = [
            moved(launch.manifest, shared.places[launch.number], first)
            for launch, first in zip(opened.launches, firsts, strict=False)
        ]
        self.first_views = [0, *itertools.accumulate(len(manifest.views) for manifest in manifests)]
        whole = msgspec.structs.replace(
            manifests[0],
            regions=tuple(shared.regions),
            views=tuple(view for manifest in manifests for view in manifest.views),
            zeros=tuple(shared.zeros),
        )
        super().__init__(opened.launches[0], whole, shared.places[0])
        self._index = opened.launches[0].index
        self.in_range = tuple(
            LaunchInWhole(launch, manifest, shared.places[launch.number])
            for launch, manifest in zip(opened.launches, manifests, strict=True)
        )
        self._timeline = timeline

    def close(self) -> None:
        for launch in self.in_range:
            launch.close()
        super().close()

    def stage(self, state: State, region: int, targets: Sequence[Path], only_changed: bool = False) -> None:
        [target] = targets
        with self._timeline.file(region).open("rb") as file, open(target, "wb") as copy:
            copy_data(file.fileno(), copy.fileno(), self.manifest.regions[region].size)

    def chunks_changed(self, region: int) -> list[int]:
        return []


def copy_data(source: int, target: int, size: int) -> None:
    """Copy a file, and leave its holes what they are."""
    os.ftruncate(target, size)
    at = 0
    while at < size:
        try:
            start = os.lseek(source, at, os.SEEK_DATA)
        except OSError:  # nothing but a hole up to the end
            return
        at = os.lseek(source, start, os.SEEK_HOLE)
        while start < at:
            data = os.pread(source, min(1 << 20, at - start), start)
            os.pwrite(target, data, start)
            start += len(data)


def choose_for_all(
    manifests: Sequence[Manifest], engine: str, device: str, python: str | None, target_python: str | None
) -> Choice:
    """One engine for all launches: each by its image if all have one, else by their sources.

    Raises BackendUnavailable if no engine takes them all, naming two launches.
    """
    if engine in ("auto", "binary") and all(map(_has_image, manifests)):
        try:
            return choose(by_image(manifests[0]), engine, device, python, target_python)
        except BackendUnavailable:
            if engine == "binary" or any(each.source is None for each in manifests):
                raise
    choices = [choose(manifest, engine, device, python, target_python) for manifest in manifests]
    for number, choice in enumerate(choices):
        if choice != choices[0]:
            raise BackendUnavailable(
                "a replay of the range in one process",
                f"launch 0 needs the {choices[0].name} engine, launch {number} the {choice.name} engine; "
                f"--only {number} replays one of them",
            )
    return choices[0]


def by_image(manifest: Manifest) -> Manifest:
    """A launch of any language as one of its image, with the parameters that the driver was given."""
    return msgspec.structs.replace(manifest, launch=msgspec.structs.replace(manifest.launch, mode="native"))


def _has_image(manifest: Manifest) -> bool:
    launch = manifest.launch
    return (
        manifest.device.kind == "cuda"
        and launch.block is not None
        and launch.parameters is not None
        and any(code.stage in NATIVE_STAGES for code in manifest.code)
    )
