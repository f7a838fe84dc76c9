"""Small reproducers made by hand: tensors over regions, at addresses that each side chooses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from kerncap.format import Reproducer, ReproducerWriter, schema
from kerncap.format.checks_file import Checks
from tests.unit.format import small

State = tuple[bytes, bytes]  # before and after


def view(name: str, array: Any, region: int = 0, offset: int = 0, **more: Any) -> schema.View:
    """A view of ``array``'s shape, row by row."""
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return schema.View(
        region=region, offset=offset, dtype=str(array.dtype), itemsize=array.itemsize, shape=array.shape,
        strides=strides, name=name, **more,
    )  # fmt: skip


def make(
    folder: Path,
    states: Sequence[State],
    *,
    views: Sequence[schema.View] = (),
    bases: Sequence[int] = (),
    code: dict[str, bytes] | None = None,
    source: bytes | None = None,
    idle: Sequence[int] | None = None,
    **facts: Any,
) -> Path:
    """Seal it. ``idle``: the regions that the launch writes and never reads, as the write set says."""
    with ReproducerWriter(folder, "k") as writer:
        small.add_states(writer, states)
        stages = tuple(writer.add_code(stage, data) for stage, data in (code or {}).items())
        stored = writer.add_source("kernel.py", source) if source is not None else None
        memory = writer.finish_memory()
        manifest = small.manifest(memory, [len(pre) for pre, _ in states])
        regions = tuple(
            replace(region, base=base)
            for region, base in zip(
                manifest.regions, bases or [r.base for r in manifest.regions], strict=True
            )
        )
        manifest = replace(
            manifest, version=schema.Version(major=1, minor=3), views=tuple(views), regions=regions,
            code=stages,
            arguments=tuple(
                schema.Argument(name=one.name, role="runtime", value=schema.TensorValue(view=number))
                for number, one in enumerate(views)
            ),
            source=schema.Source(file=stored, entry="k") if stored is not None else None, **facts,
        )  # fmt: skip
        path = writer.seal(manifest)
    if idle is not None:
        measured(path, states, idle)
    return path


def measured(path: Path, states: Sequence[State], idle: Sequence[int]) -> None:
    """Say that the launch overwrites the regions in ``idle`` and reads all others."""
    sizes = {region: len(pre) for region, (pre, _) in enumerate(states)}
    masks = {}
    for region, size in sizes.items():
        none = np.zeros(-(-size // 8), dtype=np.uint8)
        every = np.packbits(np.ones(size, dtype=np.uint8), bitorder="little")
        masks[region] = small.Masks(every if region in idle else none, none, none)
    with Reproducer.open(path) as reproducer:
        stored = small.write_set(masks, sizes).save(reproducer)
        reproducer.write_checks(Checks(manifest_sha256=reproducer.manifest_sha256, write_set=stored))


def same(array: Any) -> State:
    """A region that the launch leaves as it is."""
    return array.tobytes(), array.tobytes()
