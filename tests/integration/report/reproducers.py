"""Small reproducers that no capture has to make: one launch, and whatever a test adds to it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kerncap.format import ReproducerWriter, schema

SOURCE = b"""\
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, n, FACTOR: tl.constexpr):
    at = tl.program_id(0) * 64 + tl.arange(0, 64)
    x = tl.load(x_ptr + at)
    tl.store(x_ptr + at, x * FACTOR)
"""


@dataclass(frozen=True)
class Tensor:
    """An argument with its memory before and after; ``shape`` where it is not the array's."""

    name: str
    before: npt.NDArray[Any]
    after: npt.NDArray[Any] | None = None
    dtype: str = ""
    shape: Sequence[int] | None = None
    strides: Sequence[int] | None = None
    region_bytes: int | None = None  # longer than the array: the rest is zero

    @property
    def view(self) -> schema.View:
        shape = tuple(self.before.shape if self.shape is None else self.shape)
        strides = [math.prod(shape[dimension + 1 :]) for dimension in range(len(shape))]
        return schema.View(
            region=0, offset=0, dtype=self.dtype or self.before.dtype.name, itemsize=self.before.itemsize,
            shape=shape, strides=tuple(strides if self.strides is None else self.strides), name=self.name,
        )  # fmt: skip


@dataclass(frozen=True)
class Made:
    """What is not usual about the reproducer; ``manifest`` replaces fields of it."""

    tensors: Sequence[Tensor]
    source: bytes | None = SOURCE
    code: Mapping[str, bytes] = field(default_factory=dict)
    kernel: str = "scale"
    reason: str = "argument"
    original: str = "/app/model.py"
    manifest: Mapping[str, Any] = field(default_factory=dict)


def write(parent: Path, made: Made) -> Path:
    """The reproducer's folder."""
    with ReproducerWriter(parent, "made") as writer:
        regions, views = [], []
        for number, tensor in enumerate(made.tensors):
            raw = tensor.before.tobytes()
            size = tensor.region_bytes or len(raw)
            regions.append(
                schema.Region(base=(number + 1) << 41, size=size, kind="device", reason=made.reason)
            )
            views.append(msgspec.structs.replace(tensor.view, region=number))
            _memory(writer, number, size, raw, None if tensor.after is None else tensor.after.tobytes())
        memory = writer.finish_memory()
        source = None
        if made.source is not None:
            origin = schema.SourceOrigin(
                name="scale", line=5, lines=5, original_file=made.original, original_line=105
            )
            source = schema.Source(
                file=writer.add_source("kernel.py", made.source), entry="scale", origins=(origin,)
            )
        manifest = schema.Manifest(
            format="kerncap-reproducer",
            version=schema.Version(major=schema.FORMAT_MAJOR, minor=schema.FORMAT_MINOR),
            tool=schema.Tool(name="kerncap", version="0.1.0"),
            created="2026-01-02T03:04:05Z",
            command=("python", "model.py"),
            platform=schema.Platform(
                system="Linux", machine="x86_64", python="3.11", packages={"triton": "3.9.0"}
            ),
            device=schema.Device(kind="cuda", name="NVIDIA H200", arch="sm_90"),
            kernel=schema.Kernel(name=made.kernel, qualified_name=made.kernel, language="triton"),
            launch=schema.Launch(grid=(4, 1, 1), ordinal=0, mode="jit"),
            arguments=tuple(
                schema.Argument(name=tensor.name, role="runtime", value=schema.TensorValue(view=number))
                for number, tensor in enumerate(made.tensors)
            ),
            regions=tuple(regions),
            views=tuple(views),
            closure=schema.Closure(
                mode="args", consistency="cooperative", included_bytes=sum(region.size for region in regions)
            ),
            memory=memory,
            oracle=schema.Oracle(kind="trusted"),
            code=tuple(writer.add_code(stage, data) for stage, data in made.code.items()),
            source=source,
        )
        return writer.seal(msgspec.structs.replace(manifest, **made.manifest))


def _memory(writer: ReproducerWriter, number: int, size: int, before: bytes, after: bytes | None) -> None:
    """What lies behind the arrays' bytes is zero and costs nothing, however large the region is."""
    held = min(size, -(-len(before) // schema.CHUNK_BYTES) * schema.CHUNK_BYTES)
    writer.add_region_pre(number, size, Padded(before, held))
    if after is not None:
        padded = after.ljust(held, b"\0")
        for chunk, start in enumerate(range(0, held, schema.CHUNK_BYTES)):
            writer.add_post_chunk(number, chunk, padded[start : start + schema.CHUNK_BYTES])


class Padded:
    """A source of chunks that ends with nothing but zeros."""

    def __init__(self, data: bytes, held: int) -> None:
        self._data = data.ljust(held, b"\0")

    def pieces(self, offset: int, size: int, step: int) -> Any:
        for start in range(0, len(self._data), step):
            piece = self._data[start : start + min(step, size - start)]
            yield start, lambda _, piece=piece: piece


def ramp(rows: int, columns: int) -> npt.NDArray[np.float32]:
    """Values that tell their index: row * 1000 + column."""
    return (np.arange(rows)[:, None] * 1000 + np.arange(columns)).astype(np.float32)
