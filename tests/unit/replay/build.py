"""Reproducers made by hand: a kernel's text, its arguments, and what numpy says that it should do.

The oracle is never taken from a replay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kerncap.format import ReproducerWriter, schema
from kerncap.format.region_sources import Piece
from kerncap.replay import trust

BASE = 0x6000_0000_0000  # far from where Linux puts programs, heaps and libraries
SPACING = 0x1000_0000

HEADER = "import triton\nimport triton.language as tl\n\n\n"


def value(item: Any) -> Any:
    plain = item is None or isinstance(item, int | float | str)
    return schema.scalar_value(item) if plain else item  # already encoded


@dataclass(frozen=True)
class Sparse:
    """Memory of ``size`` bytes that is zeros but for what lies at some offsets."""

    size: int
    data: dict[int, bytes]

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self.size)
        found = bytearray(stop - start)
        for at, data in self.data.items():
            inside = data[max(0, start - at) : max(0, stop - at)]
            found[max(0, at - start) : max(0, at - start) + len(inside)] = inside
        return bytes(found)

    def pieces(self, offset: int, size: int, step: int) -> Iterator[Piece]:
        for start in sorted({at // step * step for at in self.data}):
            stop = min(start + step, offset + size)
            yield start, lambda _, start=start, stop=stop: self[start:stop]  # type: ignore[misc]


@dataclass
class Launch:
    """A launch under construction; `seal` writes it."""

    source: str
    entry: str
    grid: tuple[int, int, int] = (1, 1, 1)
    oracle: schema.Oracle = field(default_factory=lambda: schema.Oracle(kind="trusted"))
    stranger: bool = False  # not captured here
    left_out_bytes: int = 0  # all of them: captured with --no-values
    unreached_bytes: int = 0  # beside the regions
    mode: Literal["interpreter", "jit"] = "interpreter"
    device_name: str = "NVIDIA H200"
    options: dict[str, Any] = field(default_factory=dict)
    code: dict[str, bytes] = field(default_factory=dict)
    grid_source: schema.GridSource | None = None
    autotune: schema.Autotune | None = None
    regions: list[tuple[int, bytes | Sparse, bytes | Sparse]] = field(default_factory=list)
    views: list[schema.View] = field(default_factory=list)
    arguments: list[schema.Argument] = field(default_factory=list)

    def region(self, pre: Any, post: Any = None, base: int | None = None) -> int:
        """Add memory; without ``post`` the launch leaves it alone."""
        post = pre if post is None else post
        before, after = (
            contents if isinstance(contents, Sparse) else np.ascontiguousarray(contents).tobytes()
            for contents in (pre, post)
        )  # fmt: skip
        assert len(before) == len(after)
        index = len(self.regions)
        self.regions.append((BASE + index * SPACING if base is None else base, before, after))
        return index

    def view(
        self, name: str, region: int, dtype: str, shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        offset: int = 0, itemsize: int | None = None,
    ) -> int:  # fmt: skip
        if strides is None:
            strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
        itemsize = itemsize or np.dtype(dtype).itemsize
        self.views.append(
            schema.View(
                region=region,
                offset=offset,
                dtype=dtype,
                itemsize=itemsize,
                shape=shape,
                strides=strides,
                name=name,
            )
        )
        return len(self.views) - 1

    def tensor(
        self, name: str, pre: Any, post: Any = None, base: int | None = None, dtype: str | None = None
    ) -> Launch:
        """An argument with a region of its own."""
        pre = np.ascontiguousarray(pre)
        region = self.region(pre, post, base)
        view = self.view(name, region, dtype or str(pre.dtype), pre.shape, itemsize=pre.dtype.itemsize)
        return self.argument(name, schema.TensorValue(view=view))

    def argument(self, name: str, item: Any, role: Any = "runtime") -> Launch:
        self.arguments.append(schema.Argument(name=name, role=role, value=value(item)))
        return self

    def constexpr(self, name: str, item: Any) -> Launch:
        return self.argument(name, item, "constexpr")

    def seal(self, parent: Path) -> Path:
        writer = ReproducerWriter(parent, self.entry)
        for index, (_, before, after) in enumerate(self.regions):
            source = before if isinstance(before, Sparse) else memoryview(before)
            writer.add_region_pre(index, len(before), source)
            step = schema.CHUNK_BYTES
            for start in range(0, len(before), step):
                if before[start : start + step] != after[start : start + step]:
                    writer.add_post_chunk(index, start // step, after[start : start + step])
        code = tuple(writer.add_code(stage, data) for stage, data in self.code.items())
        stored = writer.add_source(f"{self.entry}.py", (HEADER + self.source).encode())
        kind: Literal["cpu", "cuda"] = "cpu" if self.mode == "interpreter" else "cuda"
        manifest = schema.Manifest(
            format="kerncap-reproducer",
            version=schema.Version(major=schema.FORMAT_MAJOR, minor=schema.FORMAT_MINOR),
            tool=schema.Tool(name="kerncap", version="test"),
            created="2025-01-01T00:00:00Z",
            command=("python", "test.py"),
            platform=schema.Platform(system="Linux", machine="x86_64", python="3.11"),
            device=schema.Device(
                kind=kind,
                name="cpu" if kind == "cpu" else self.device_name,
                arch=None if kind == "cpu" else "sm_90",
            ),
            kernel=schema.Kernel(name=self.entry, qualified_name=f"test.{self.entry}", language="triton"),
            launch=schema.Launch(
                grid=self.grid,
                ordinal=0,
                mode=self.mode,
                grid_source=self.grid_source,
                options={name: value(item) for name, item in self.options.items()},
            ),
            autotune=self.autotune,
            arguments=tuple(self.arguments),
            regions=tuple(
                schema.Region(
                    base=base,
                    size=len(before),
                    kind="host" if kind == "cpu" else "device",
                    device=-1 if kind == "cpu" else 0,
                )
                for base, before, _ in self.regions
            ),
            views=tuple(self.views),
            closure=schema.Closure(
                mode="args",
                consistency="cooperative",
                included_bytes=0 if self.left_out_bytes else sum(len(b) for _, b, _ in self.regions),
                left_out_bytes=self.left_out_bytes or self.unreached_bytes,
                left_out=(schema.ALL_CONTENTS,) if self.left_out_bytes else (),
            ),
            memory=writer.finish_memory(),
            oracle=self.oracle,
            code=code,
            source=schema.Source(file=stored, entry=self.entry),
        )
        path = writer.seal(manifest)
        if not self.stranger:
            trust.remember_captured(path)
        return path


ADD = """
@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask) + tl.load(y_ptr + i, mask=mask), mask=mask)
"""


def add(n: int = 1000, block: int = 256, source: str = ADD, out_before: Any = None) -> Launch:
    """``out = x + y``; ``out_before`` is what the output held (default: something else)."""
    random = np.random.default_rng(1)
    x, y = random.standard_normal(n).astype(np.float32), random.standard_normal(n).astype(np.float32)
    before = np.full(n, 7, dtype=np.float32) if out_before is None else out_before
    launch = Launch(source, "add", grid=(-(-n // block), 1, 1))
    launch.tensor("x_ptr", x).tensor("y_ptr", y).tensor("out_ptr", before, x + y)
    return launch.argument("n", n).constexpr("BLOCK", block)
