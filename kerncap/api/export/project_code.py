"""The code of a CMake project: one module for launches of the same code and variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.format.schema import StoredFile
from kerncap.log import one_line
from kerncap.replay.ranges.joined_memory import SharedMemory

_STAGES = {"cuda": ("cubin", "fatbin", "ptx"), "hip": ("hsaco",)}


@dataclass
class Module:
    """``images``: its code, the file of each stage; ``variables``: region by name."""

    number: int
    images: dict[str, StoredFile]
    launches: list[int] = field(default_factory=list)
    variables: dict[str, int] = field(default_factory=dict)

    def takes(self, images: dict[str, StoredFile], variables: dict[str, int]) -> bool:
        """Whether a launch of these images, with these variables, may be one of this module."""
        same = self.images.keys() == images.keys() and all(
            images[stage].sha256 == file.sha256 for stage, file in self.images.items()
        )
        return same and all(self.variables.get(name, at) == at for name, at in variables.items())

    def files(self, of: int) -> list[str]:
        """The names of its images in a project that has ``of`` modules."""
        stem = "kernel" if of == 1 else f"kernel_{self.number}"
        return [f"code/{stem}.{stage}" for stage in self.images]


def require_native(reproducer: Reproducer) -> str:
    """``cuda`` or ``hip``. Raises UsageError for a launch that no project can make from its image."""
    manifest = reproducer.manifest
    kind = manifest.device.kind
    if kind not in _STAGES:
        raise UsageError(
            f"{reproducer.path}: it was captured on a {kind}, with no code for a GPU: use --as script"
        )
    if manifest.launch.textures:
        raise UsageError(
            f"{reproducer.path}: it uses textures, which an exported project can't make; use replay"
        )
    if manifest.launch.parameters is None or manifest.launch.block is None:
        raise UsageError(
            f"{reproducer.path}: {one_line(manifest.kernel.name)} was taken at Triton's own launch, whose "
            "parameter buffer is not in the reproducer: use --as script"
        )
    if not _images(reproducer, kind):
        raise UsageError(
            f"{reproducer.path}: it holds no code for the device (one of {', '.join(_STAGES[kind])})"
        )
    return kind


def modules(launches: Sequence[Reproducer], shared: SharedMemory, vendor: str) -> list[Module]:
    """Raises UsageError if launches of different code have one variable."""
    made: list[Module] = []
    owners: dict[int, Module] = {}
    for number, launch in enumerate(launches):
        images = _images(launch, vendor)
        places = shared.places[number]
        variables = {
            region.name or "": places[index].region
            for index, region in enumerate(launch.manifest.regions)
            if region.kind == "global" and not region.module
        }
        of_them = next((owners[region] for region in variables.values() if region in owners), None)
        fitting = [module for module in made if module.takes(images, variables)]
        if of_them is not None and of_them not in fitting:
            name = next(name for name, region in variables.items() if region in owners)
            raise UsageError(
                f"{launch.path}: launch {of_them.launches[0]} and launch {number} are of different code, and "
                f"both have the variable {one_line(name)}; kerncap replay runs them"
            )
        if of_them is None and not fitting:
            made.append(Module(len(made), images))
        module = of_them or (fitting[0] if fitting else made[-1])
        module.launches.append(number)
        module.variables.update(variables)
        owners.update(dict.fromkeys(variables.values(), module))
    return made


def write_images(launches: Sequence[Reproducer], made: Sequence[Module], folder: Path) -> None:
    (folder / "code").mkdir()
    for module in made:
        launch = launches[module.launches[0]]
        for name, file in zip(module.files(len(made)), module.images.values(), strict=True):
            (folder / name).write_bytes(launch.file(file))


def _images(reproducer: Reproducer, vendor: str) -> dict[str, StoredFile]:
    files = {code.stage: code.file for code in reproducer.manifest.code}
    return {stage: files[stage] for stage in _STAGES[vendor] if stage in files}
