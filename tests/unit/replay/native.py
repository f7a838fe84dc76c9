"""Native reproducers made by hand: parameters byte by byte, an image that the stand-in driver takes.

What a kernel does is a host function of rig_kernels.cpp; the oracle is what numpy says that it should do.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kerncap.api.replay import ReplayOptions, ReplayResult, replay
from kerncap.format import ReproducerWriter, schema
from kerncap.replay import trust

from .build import value

BASE = 0x7E90_0000_0000  # in the arena of the stand-in driver
SPACING = 0x1000_0000  # more than the 32 MiB that a reservation is rounded to

DEVICE_NAME = "kerncap stand-in device"
_SIZES = {1: ".u8", 2: ".u16", 4: ".u32", 8: ".u64"}


def ptx(
    kernel: str, sizes: list[int], variables: dict[str, int] | None = None, edition: int | None = None
) -> bytes:
    """An image with one kernel that takes parameters of these sizes, and these variables.

    ``edition``: of a kernel that the stand-in driver's test kernels have several of (`rig_variant`).
    """
    parameters = ", ".join(f".param {_SIZES[size]} p{i}" for i, size in enumerate(sizes))
    globals_ = "".join(f".visible .global .align 8 .b8 {n}[{s}];\n" for n, s in (variables or {}).items())
    if edition is not None:
        globals_ += f".visible .global .align 4 .u32 rig_variant = {edition};\n"
    head = ".version 8.0\n.target sm_52\n.address_size 64\n"
    return f"{head}{globals_}.visible .entry {kernel}({parameters})\n{{\n  ret;\n}}\n".encode()


@dataclass
class Native:
    """A native launch under construction; `seal` writes it."""

    kernel: str
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (32, 1, 1)
    oracle: schema.Oracle = field(default_factory=lambda: schema.Oracle(kind="trusted"))
    with_layout: bool = True
    with_views: bool = True
    device_name: str | None = None
    qualified_name: str = ""
    shared_bytes: int = 0
    unreached_bytes: int = 0  # memory of the application's that is left out
    launch: dict[str, Any] = field(default_factory=dict)
    regions: list[tuple[schema.Region, bytes, bytes]] = field(default_factory=list)
    views: list[schema.View] = field(default_factory=list)
    arguments: list[schema.Argument] = field(default_factory=list)
    parameters: list[bytes] = field(default_factory=list)
    code: dict[str, bytes] | None = None
    source: str | None = None  # CUDA C++

    def region(
        self, pre: Any, post: Any = None, base: int | None = None,
        kind: Literal["device", "managed", "host", "global"] = "device", device: int = 0,
        name: str | None = None, module: int = 0,
    ) -> int:  # fmt: skip
        """Add memory; without ``post`` the launch leaves it alone."""
        before = np.ascontiguousarray(pre).tobytes()
        after = before if post is None else np.ascontiguousarray(post).tobytes()
        assert len(before) == len(after)
        base = BASE + len(self.regions) * SPACING if base is None else base
        found = schema.Region(base=base, size=len(before), kind=kind, device=device, name=name, module=module)
        self.regions.append((found, before, after))
        return len(self.regions) - 1

    def base(self, region: int) -> int:
        return self.regions[region][0].base

    def array(self, pre: Any, post: Any = None, **where: Any) -> Native:
        """A pointer parameter to a region of its own."""
        pre = np.ascontiguousarray(pre)
        region = self.region(pre, post, **where)
        return self.pointer(region, str(pre.dtype), pre.size)

    def pointer(self, region: int, dtype: str = "float32", elements: int = 0, offset: int = 0) -> Native:
        name = f"arg{len(self.arguments)}"
        address = self.base(region) + offset
        if self.with_views:
            itemsize = np.dtype(dtype).itemsize
            view = schema.View(
                region=region, offset=offset, dtype=dtype, itemsize=itemsize, shape=(elements,),
                strides=(1,), name=name,
            )  # fmt: skip
            self.views.append(view)
            item: Any = schema.TensorValue(view=len(self.views) - 1)
        else:
            item = schema.PointerValue(address=address, dtype="u8")
        return self.parameter(struct.pack("<Q", address), item)

    def integer(self, number: int) -> Native:
        return self.parameter(struct.pack("<i", number), number)

    def single(self, number: float) -> Native:
        return self.parameter(struct.pack("<f", number), float(number))

    def parameter(self, data: bytes, item: Any) -> Native:
        self.arguments.append(
            schema.Argument(name=f"arg{len(self.arguments)}", role="runtime", value=value(item))
        )
        self.parameters.append(data)
        return self

    @property
    def layout(self) -> tuple[tuple[int, int], ...]:
        found, at = [], 0
        for data in self.parameters:
            at = -(-at // len(data)) * len(data)
            found.append((at, len(data)))
            at += len(data)
        return tuple(found)

    def packed(self) -> bytes:
        out = bytearray()
        for (offset, size), data in zip(self.layout, self.parameters, strict=True):
            out += bytes(offset - len(out)) + data
            assert len(out) == offset + size
        return bytes(out)

    def image(
        self, kernel: str | None = None, sizes: list[int] | None = None, edition: int | None = None
    ) -> bytes:
        variables = {
            str(region.name): region.size for region, _, _ in self.regions if region.kind == "global"
        }
        sizes = [len(p) for p in self.parameters] if sizes is None else sizes
        return ptx(kernel or self.kernel, sizes, variables, edition)

    def seal(self, parent: Path) -> Path:
        writer = ReproducerWriter(parent, self.kernel)
        for index, (_, before, after) in enumerate(self.regions):
            writer.add_region_pre(index, len(before), memoryview(before))
            step = schema.CHUNK_BYTES
            for start in range(0, len(before), step):
                if before[start : start + step] != after[start : start + step]:
                    writer.add_post_chunk(index, start // step, after[start : start + step])
        images = {"ptx": self.image()} if self.code is None else self.code
        code = tuple(writer.add_code(stage, data) for stage, data in images.items())
        manifest = schema.Manifest(
            format="kerncap-reproducer",
            version=schema.Version(major=schema.FORMAT_MAJOR, minor=schema.FORMAT_MINOR),
            tool=schema.Tool(name="kerncap", version="test"),
            created="2025-01-01T00:00:00Z",
            command=("./app",),
            platform=schema.Platform(system="Linux", machine="x86_64", python="3.11"),
            device=schema.Device(kind="cuda", name=self.device_name or DEVICE_NAME, arch="sm_90"),
            kernel=schema.Kernel(
                name=self.kernel,
                qualified_name=self.qualified_name or self.kernel,
                language="cuda",
                mangled=self.kernel,
            ),  # fmt: skip
            launch=schema.Launch(
                grid=self.grid,
                block=self.block,
                ordinal=0,
                mode="native",
                shared_bytes=self.shared_bytes,
                parameters=schema.Parameters(
                    bytes=self.packed().hex(), layout=self.layout if self.with_layout else None
                ),
                **self.launch,
            ),  # fmt: skip
            arguments=tuple(self.arguments),
            regions=tuple(region for region, _, _ in self.regions),
            views=tuple(self.views),
            closure=schema.Closure(
                mode="reachable",
                consistency="gated",
                included_bytes=sum(len(before) for _, before, _ in self.regions),
                left_out_bytes=self.unreached_bytes,
            ),  # fmt: skip
            memory=writer.finish_memory(),
            oracle=self.oracle,
            code=code,
            source=None if self.source is None else self._stored(writer, self.source),
        )
        path = writer.seal(self.finished(manifest))
        trust.remember_captured(path)
        return path

    def _stored(self, writer: ReproducerWriter, text: str) -> schema.Source:
        file = writer.add_source("kernel.cu", text.encode())
        build = schema.SourceBuild(tool="nvcc", unit=file.path, arch="sm_90")
        return schema.Source(file=file, entry=self.kernel, language="cuda", build=build)

    def finished(self, manifest: schema.Manifest) -> schema.Manifest:
        """The manifest as it is written: for launches of another vendor."""
        return manifest


def add(n: int = 1000, **options: Any) -> Native:
    """``out = a + b``; the output held something else before."""
    random = np.random.default_rng(1)
    a, b = random.standard_normal(n).astype(np.float32), random.standard_normal(n).astype(np.float32)
    launch = Native("_Z10vector_addPKfS0_Pfi", grid=(-(-n // 256), 1, 1), block=(256, 1, 1), **options)
    launch.array(a).array(b).array(np.full(n, 7, dtype=np.float32), a + b)
    return launch.integer(n)


def scale(s: float = 3.0, n: int = 1000, **options: Any) -> Native:
    """``x *= s``"""
    x = np.random.default_rng(2).standard_normal(n).astype(np.float32)
    launch = Native("_Z14scale_in_placePffi", **options)
    return launch.array(x, x * np.float32(s)).single(s).integer(n)


def doubled(kernel: str, n: int = 1000, **options: Any) -> Native:
    """``out = 2 * in`` by one of the kernels of rig_kernels.cpp."""
    x = np.random.default_rng(3).standard_normal(n).astype(np.float32)
    launch = Native(kernel, **options)
    return launch.array(x).array(np.zeros(n, dtype=np.float32), 2 * x).integer(n)


def run(path: Path, **options: Any) -> ReplayResult:
    return replay(path, ReplayOptions(**{"timed_runs": 0, "timeout_s": 10.0, **options}))


def edited(launch: Native, folder: Path, **image: Any) -> Path:
    path = folder / "candidate.ptx"
    path.write_bytes(launch.image(**image))
    return path
