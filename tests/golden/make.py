"""Builds the golden reproducers in today's format version: `python tests/golden/make.py OUT`.

Its content is fixed, so that it can be made again for a later version and compared. A golden folder
of a released version is never made anew: it shows that old files stay readable.
"""

from __future__ import annotations

import contextlib
import struct
import sys
import tempfile
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pytest

from kerncap.format import (
    Checks,
    LaunchRange,
    Masks,
    Reproducer,
    ReproducerWriter,
    SelfCheck,
    WriteSet,
    chunks,
    schema,
)
from kerncap.format.range_writer import write_range

CHUNK = schema.CHUNK_BYTES
SOURCE = b"import triton\n\n\n@triton.jit\ndef scale(x_ptr, n, FACTOR):\n    pass\n"


def noise(size: int, seed: int) -> bytes:
    """Incompressible bytes that are the same everywhere (an LCG: no library's generator)."""
    state = seed
    out = bytearray(size)
    for i in range(size):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out[i] = state >> 24
    return bytes(out)


def contents() -> dict[int, tuple[bytes, bytes]]:
    """Pre- and post-state of each region: noise, zeros, repeats, a short last chunk, an empty one."""
    ramp = bytes(range(256)) * (CHUNK // 256)
    region0 = ramp + bytes(CHUNK) + ramp + noise(1000, 7)
    changed0 = ramp + ramp + ramp + noise(1000, 8)
    region1 = bytes(3 * CHUNK)
    region2 = noise(4096, 9)
    return {0: (region0, changed0), 1: (region1, region1), 2: (region2, bytes(4096)), 3: (b"", b"")}


def manifest(memory: schema.Memory, code: schema.CodeFile, source: schema.StoredFile) -> schema.Manifest:
    sizes = [len(pre) for pre, _ in contents().values()]
    bases = [0x7F0000000000, 0x7F1000000000, 0x7F2000000000, 0x7F3000000000]
    kinds: list[Literal["device", "managed", "host"]] = ["device", "device", "managed", "host"]
    regions = tuple(
        schema.Region(base=base, size=size, kind=kind, device=-1 if kind == "host" else 0, reason=reason)
        for base, size, kind, reason in zip(
            bases,
            sizes,
            kinds,
            ["argument x", "argument y", "reached from argument x", "argument empty"],
            strict=True,
        )
    )
    views = (
        schema.View(
            region=0, offset=0, dtype="float32", itemsize=4, shape=(64, 128), strides=(128, 1), name="x"
        ),
        schema.View(
            region=0, offset=508, dtype="float32", itemsize=4, shape=(128,), strides=(-1,), name="x_flip"
        ),
        schema.View(
            region=2, offset=0, dtype="float8_e4m3fn", itemsize=1, shape=(4096,), strides=(1,), name="y"
        ),
        schema.View(region=3, offset=0, dtype="bool", itemsize=1, shape=(0,), strides=(1,), name="empty"),
    )
    arguments = (
        schema.Argument(
            name="x_ptr", role="runtime", value=schema.TensorValue(view=0), signature="*fp32", divisibility=16
        ),
        schema.Argument(name="flip", role="runtime", value=schema.TensorValue(view=1), signature="*fp32"),
        schema.Argument(
            name="pair",
            role="runtime",
            value=schema.SequenceValue(items=(schema.TensorValue(view=2), schema.TensorValue(view=3))),
        ),
        schema.Argument(
            name="n", role="runtime", value=schema.IntValue(value="8192"), signature="i32", divisibility=16
        ),
        schema.Argument(name="FACTOR", role="constexpr", value=schema.FloatValue(value="-inf")),
        schema.Argument(
            name="DTYPE", role="constexpr", value=schema.DtypeValue(name="float32", library="triton")
        ),
        schema.Argument(name="MASK", role="constexpr", value=schema.NoneValue()),
    )
    return schema.Manifest(
        format="kerncap-reproducer",
        version=schema.Version(major=schema.FORMAT_MAJOR, minor=schema.FORMAT_MINOR),
        tool=schema.Tool(name="kerncap", version="0.1.0"),
        created="2026-01-02T03:04:05Z",
        command=("python", "train.py", "--steps", "3"),
        platform=schema.Platform(
            system="Linux", machine="x86_64", python="3.12.3", packages={"triton": "3.6.0"}
        ),
        device=schema.Device(kind="cuda", name="NVIDIA H200", arch="sm_90", memory_bytes=150_754_820_096),
        kernel=schema.Kernel(
            name="scale",
            qualified_name="app.kernels.scale",
            language="triton",
            module="app.kernels",
            file="/app/kernels.py",
            line=41,
        ),
        launch=schema.Launch(
            grid=(64, 1, 1),
            ordinal=3,
            mode="jit",
            options={"num_warps": schema.IntValue(value="4")},
            grid_source=schema.GridSource(
                source="lambda meta: (triton.cdiv(n, meta['BLOCK']),)",
                bindings={"n": schema.IntValue(value="8192")},
            ),
            python_stack=(("train.py", 12, "<module>"), ("/app/layer.py", 80, "forward")),
        ),
        arguments=arguments,
        regions=regions,
        views=views,
        closure=schema.Closure(
            mode="args",
            consistency="cooperative",
            included_bytes=sum(sizes),
            left_out_bytes=4096,
            left_out=("argument z: pinned",),
        ),
        memory=memory,
        oracle=schema.Oracle(kind="trusted"),
        environment={"CUDA_VISIBLE_DEVICES": "0"},
        code=(code,),
        compiled={"shared": schema.IntValue(value="0")},
        source=schema.Source(
            file=source,
            entry="scale",
            origins=(
                schema.SourceOrigin(
                    name="scale", line=4, lines=3, original_file="/app/kernels.py", original_line=41
                ),
            ),
            missing=("helper: a C function",),
        ),
        autotune=schema.Autotune(
            configs=(schema.AutotuneConfig(kwargs={"BLOCK": schema.IntValue(value="128")}, grid=(64, 1, 1)),),
            chosen=0,
            key=("n",),
            reset_to_zero=("x_ptr",),
        ),
        notes=("argument z was left out",),
    )


def masks() -> Masks:
    """Region 2: its first half is written, a quarter of that in place; the last byte is left alone."""
    written, also_input, untouched = np.zeros((3, 512), dtype=np.uint8)
    written[:256], also_input[:64], untouched[-1] = 0xFF, 0xFF, 0x80
    return Masks(written, also_input, untouched)


def make(parent: Path) -> Path:
    """Write the reproducer with its checks below ``parent``."""
    with ReproducerWriter(parent, "scale") as writer:
        states = contents()
        for region, (pre, _) in states.items():
            writer.add_region_pre(region, len(pre), memoryview(pre))
        for region, (_, post) in states.items():
            for chunk in range(-(-len(post) // CHUNK)):
                writer.add_post_chunk(region, chunk, post[chunk * CHUNK : (chunk + 1) * CHUNK])
        code = writer.add_code("ttir", b"module {\n}\n")
        source = writer.add_source("scale.py", SOURCE)
        folder = writer.seal(manifest(writer.finish_memory(), code, source))
    with Reproducer.open(folder) as made:
        write_set = WriteSet.from_masks({2: masks()}, {2: 4096}).save(made)
        check = SelfCheck(result="pass", reason="bit for bit", engine="interpreter")
        made.write_checks(Checks(manifest_sha256=made.manifest_sha256, self_check=check, write_set=write_set))
    return folder


# --- a native launch, since version 1.1 ---------------------------------------------------------------

CUDA_SOURCE = b"""#include "gain.h"
__constant__ float coef[4];
namespace ns {
template <class T> __global__ void scale(T *x, const T *y, int n, double f, Pair p) {}
}
"""
CUDA_HEADER = b"struct Pair { float *p; int n; };\n"
PTX = b".version 9.0\n.target sm_90\n.address_size 64\n.const .align 4 .b8 coef[16];\n"
X, Y = 0x7F4000000000, 0x7F4000200000
PARAMETERS = b"".join(
    (
        (X + 1024).to_bytes(8, "little"),
        Y.to_bytes(8, "little"),
        (100).to_bytes(4, "little") + bytes(4),
        bytes.fromhex("000000000000f83f"),  # 1.5
        X.to_bytes(8, "little") + (-7).to_bytes(4, "little", signed=True) + bytes(4),
    )
)
LAYOUT = ((0, 8), (8, 8), (16, 4), (24, 8), (32, 16))


def native_contents() -> dict[int, tuple[bytes, bytes]]:
    """Pre- and post-state: an array that changes, one that does not, a constant, a managed counter."""
    x = noise(CHUNK + 4096, 11)
    y = bytes(2 * CHUNK) + noise(512, 12)
    coefficients = np.arange(4, dtype="<f4").tobytes()
    return {
        0: (x, x[:1024] + noise(400, 13) + x[1424:]),
        1: (y, y),
        2: (coefficients, coefficients),
        3: ((41).to_bytes(4, "little"), (42).to_bytes(4, "little")),
    }


def native_manifest(
    memory: schema.Memory,
    code: tuple[schema.CodeFile, ...],
    source: schema.StoredFile,
    header: schema.StoredFile,
) -> schema.Manifest:
    sizes = [len(pre) for pre, _ in native_contents().values()]
    return schema.Manifest(
        format="kerncap-reproducer",
        version=schema.Version(major=schema.FORMAT_MAJOR, minor=schema.FORMAT_MINOR),
        tool=schema.Tool(name="kerncap", version="0.1.0"),
        created="2026-11-20T03:04:05Z",
        command=("./app", "--steps", "3"),
        platform=schema.Platform(system="Linux", machine="x86_64", python=""),
        device=schema.Device(
            kind="cuda",
            name="NVIDIA H200",
            arch="sm_90",
            ordinal=1,
            memory_bytes=150_754_820_096,
            driver="13.0",
        ),
        kernel=schema.Kernel(
            name="scale",
            qualified_name="void ns::scale<float>(float*, float const*, int, double, Pair)",
            language="cuda",
            file="/app/scale.cu",
            line=4,
            mangled="_ZN2ns5scaleIfEEvPT_PKS1_id4Pair",
        ),
        launch=schema.Launch(
            grid=(4, 2, 1),
            ordinal=7,
            mode="native",
            block=(256, 1, 1),
            cluster=(2, 1, 1),
            shared_bytes=49_152,
            cooperative=True,
            attributes=(schema.LaunchAttribute(id=4, value="02" + "00" * 63),),
            parameters=schema.Parameters(bytes=PARAMETERS.hex(), layout=LAYOUT),
            stream="0x55d0c0",
            route="cuLaunchKernelEx",
        ),
        arguments=(
            schema.Argument(
                name="arg0", role="runtime", value=schema.TensorValue(view=0), signature="float*"
            ),
            schema.Argument(
                name="arg1", role="runtime", value=schema.TensorValue(view=1), signature="float const*"
            ),
            schema.Argument(name="arg2", role="runtime", value=schema.IntValue(value="100"), signature="int"),
            schema.Argument(
                name="arg3",
                role="runtime",
                value=schema.FloatValue(value="0x1.8000000000000p+0"),
                signature="double",
            ),
            schema.Argument(
                name="arg4",
                role="runtime",
                value=schema.OpaqueValue(type_name="Pair", repr=f"16 bytes: {PARAMETERS[32:].hex()}"),
                signature="Pair",
            ),
        ),
        regions=(
            schema.Region(base=X, size=sizes[0], kind="device", device=1, reason="argument at 0"),
            schema.Region(base=Y, size=sizes[1], kind="device", device=1, reason="argument at 8"),
            schema.Region(base=0x7F4100000000, size=sizes[2], kind="global", device=1, name="coef"),
            schema.Region(
                base=0x7F4200000000, size=sizes[3], kind="managed", device=1, name="counter", module=1
            ),
        ),
        views=(
            schema.View(
                region=0,
                offset=1024,
                dtype="float32",
                itemsize=4,
                shape=((sizes[0] - 1024) // 4,),
                strides=(1,),
                name="arg0",
            ),
            schema.View(
                region=1,
                offset=0,
                dtype="float32",
                itemsize=4,
                shape=(sizes[1] // 4,),
                strides=(1,),
                name="arg1",
            ),
        ),
        closure=schema.Closure(mode="reachable", consistency="gated", included_bytes=sum(sizes)),
        memory=memory,
        oracle=schema.Oracle(kind="trusted"),
        code=code,
        compiled={
            "image_kind": schema.StrValue(value="fatbin"),
            "cubin_arch": schema.StrValue(value="sm_90"),
        },
        source=schema.Source(
            file=source,
            entry="scale",
            language="cuda",
            build=schema.SourceBuild(
                tool="nvcc",
                unit=source.path,
                arch="sm_90",
                name="/app/scale.cu",
                options=("-std=c++17", "-O3"),
                headers={"/app/gain.h": header.path},
                include_dirs=(schema.IncludeFolder(path="/app", form="quote", stored="source"),),
            ),
            originals=(header,),
        ),
    )


def make_native(parent: Path) -> Path:
    """Write the native reproducer below ``parent``."""
    with ReproducerWriter(parent, "scale") as writer:
        states = native_contents()
        for region, (pre, _) in states.items():
            writer.add_region_pre(region, len(pre), memoryview(pre))
        for region, (_, post) in states.items():
            for chunk in range(-(-len(post) // CHUNK)):
                writer.add_post_chunk(region, chunk, post[chunk * CHUNK : (chunk + 1) * CHUNK])
        code = (
            writer.add_code("fatbin", b"\x50\xed\x55\xba\x01\x00\x10\x00" + bytes(8)),
            writer.add_code("cubin", b"\x7fELF" + noise(256, 14)),
            writer.add_code("ptx", PTX),
        )
        source = writer.add_source("scale.cu", CUDA_SOURCE)
        header = writer.add_source("gain.h", CUDA_HEADER)
        folder = writer.seal(native_manifest(writer.finish_memory(), code, source, header))
    with Reproducer.open(folder) as made:
        # The counter is counted up: each of its four bytes is read and written.
        every, none = np.array([0x0F], dtype=np.uint8), np.array([0], dtype=np.uint8)
        write_set = WriteSet.from_masks({3: Masks(every, every, none)}, {3: 4}).save(made)
        check = SelfCheck(result="pass", reason="bit for bit", engine="binary")
        made.write_checks(Checks(manifest_sha256=made.manifest_sha256, self_check=check, write_set=write_set))
    return folder


# --- a Triton launch in an allocator's block, since version 1.2 -------------------------------------------

BLOCK_SOURCE = b"""import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x * 2.0)
"""
# As Triton 3.9 compiled it for sm_90.
BLOCK_TTIR = b"""\
#loc = loc("/app/kernels.py":6:1)
#loc9 = loc("x_ptr"(#loc))
#loc10 = loc("out_ptr"(#loc))
#loc11 = loc("n"(#loc))
module {
  tt.func public @scale(%x_ptr: !tt.ptr<f32> loc("x_ptr"(#loc)), %out_ptr: !tt.ptr<f32> loc("out_ptr"(#loc)), %n: i32 loc("n"(#loc))) attributes {noinline = false} {
    %cst = arith.constant dense<2.000000e+00> : tensor<128xf32> loc(#loc1)
    %offsets = arith.constant 128 : i32 loc(#loc12)
    %offsets_0 = tt.get_program_id x : i32 loc(#loc12)
    %offsets_1 = arith.muli %offsets_0, %offsets : i32 loc(#loc12)
    %offsets_2 = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32> loc(#loc13)
    %offsets_3 = tt.splat %offsets_1 : i32 -> tensor<128xi32> loc(#loc12)
    %offsets_4 = arith.addi %offsets_3, %offsets_2 : tensor<128xi32> loc(#loc12)
    %x = tt.splat %n : i32 -> tensor<128xi32> loc(#loc14)
    %x_5 = arith.cmpi slt, %offsets_4, %x : tensor<128xi32> loc(#loc14)
    %x_6 = tt.splat %x_ptr : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>> loc(#loc15)
    %x_7 = tt.addptr %x_6, %offsets_4 : tensor<128x!tt.ptr<f32>>, tensor<128xi32> loc(#loc15)
    %x_8 = tt.load %x_7, %x_5 : tensor<128x!tt.ptr<f32>> loc(#loc16)
    %0 = tt.splat %out_ptr : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>> loc(#loc7)
    %1 = tt.addptr %0, %offsets_4 : tensor<128x!tt.ptr<f32>>, tensor<128xi32> loc(#loc7)
    %2 = arith.mulf %x_8, %cst : tensor<128xf32> loc(#loc1)
    tt.store %1, %2 : tensor<128x!tt.ptr<f32>> loc(#loc8)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc1 = loc("/app/kernels.py":9:33)
#loc2 = loc("/app/kernels.py":7:15)
#loc3 = loc("/app/kernels.py":7:42)
#loc4 = loc("/app/kernels.py":8:39)
#loc5 = loc("/app/kernels.py":8:17)
#loc6 = loc("/app/kernels.py":8:9)
#loc7 = loc("/app/kernels.py":9:14)
#loc8 = loc("/app/kernels.py":9:5)
#loc12 = loc("offsets"(#loc2))
#loc13 = loc("offsets"(#loc3))
#loc14 = loc("x"(#loc4))
#loc15 = loc("x"(#loc5))
#loc16 = loc("x"(#loc6))
"""  # noqa: E501 (as the compiler printed it)
BLOCK = 0x7F5000000000
ELEMENTS = 250
STORAGES = ((512, 1000), (1536, 1000))  # of x and out, each rounded up by the allocator


def block_contents() -> dict[int, tuple[bytes, bytes]]:
    """Pre- and post-state of the block: the last program stores six elements past its storage."""
    x = np.arange(256, dtype="<f4")
    pre = bytes(512) + x[:ELEMENTS].tobytes() + bytes(4096 - 512 - 1000)
    doubled = (np.where(np.arange(256) < ELEMENTS, x, 0) * 2).astype("<f4").tobytes()
    return {0: (pre, pre[:1536] + doubled + pre[1536 + 1024 :])}


def block_manifest(
    memory: schema.Memory, code: schema.CodeFile, source: schema.StoredFile
) -> schema.Manifest:
    views = tuple(
        schema.View(
            region=0, offset=storage[0], dtype="float32", itemsize=4, shape=(ELEMENTS,), strides=(1,),
            name=name, storage=storage,
        )
        for name, storage in zip(("x_ptr", "out_ptr"), STORAGES, strict=True)
    )  # fmt: skip
    return schema.Manifest(
        format="kerncap-reproducer",
        version=schema.Version(major=schema.FORMAT_MAJOR, minor=schema.FORMAT_MINOR),
        tool=schema.Tool(name="kerncap", version="0.1.0"),
        created="2026-11-22T03:04:05Z",
        command=("python", "train.py"),
        platform=schema.Platform(
            system="Linux", machine="x86_64", python="3.12.3", packages={"triton": "3.9.0"}
        ),
        device=schema.Device(
            kind="cuda", name="NVIDIA H200", arch="sm_90", memory_bytes=150_754_820_096, driver="13.0"
        ),
        kernel=schema.Kernel(
            name="scale",
            qualified_name="app.kernels.scale",
            language="triton",
            module="app.kernels",
            file="/app/kernels.py",
            line=5,
        ),
        launch=schema.Launch(
            grid=(2, 1, 1),
            ordinal=0,
            mode="jit",
            block=(128, 1, 1),
            python_stack=(("train.py", 12, "<module>"),),
        ),
        arguments=(
            schema.Argument(
                name="x_ptr", role="runtime", value=schema.TensorValue(view=0), signature="*fp32"
            ),
            schema.Argument(
                name="out_ptr", role="runtime", value=schema.TensorValue(view=1), signature="*fp32"
            ),
            schema.Argument(
                name="n", role="runtime", value=schema.IntValue(value=str(ELEMENTS)), signature="i32"
            ),
            schema.Argument(name="BLOCK", role="constexpr", value=schema.IntValue(value="128")),
        ),
        regions=(schema.Region(base=BLOCK, size=4096, kind="device", reason="argument at 0"),),
        views=views,
        closure=schema.Closure(mode="reachable", consistency="gated", included_bytes=4096),
        memory=memory,
        oracle=schema.Oracle(kind="trusted"),
        code=(code,),
        source=schema.Source(
            file=source,
            entry="scale",
            origins=(
                schema.SourceOrigin(
                    name="scale", line=5, lines=5, original_file="/app/kernels.py", original_line=5
                ),
            ),
        ),
    )


def make_block(parent: Path) -> Path:
    """Write the reproducer of a launch in an allocator's block below ``parent``."""
    with ReproducerWriter(parent, "scale") as writer:
        ((pre, post),) = block_contents().values()
        writer.add_region_pre(0, len(pre), memoryview(pre))
        writer.add_post_chunk(0, 0, post)
        code = writer.add_code("ttir", BLOCK_TTIR)
        source = writer.add_source("kernel.py", BLOCK_SOURCE)
        return writer.seal(block_manifest(writer.finish_memory(), code, source))


# --- a HIP launch, since version 1.3 -------------------------------------------------------------------

HIP_SOURCE = b"""#include <hip/hip_runtime.h>
#include "gain.h"
__constant__ float coef[4];
namespace ns {
template <class T> __global__ void scale(T *x, const T *y, int n, double f, Pair p) {
    int i = __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x();
    i += __builtin_amdgcn_workitem_id_x();
    if (i < n) x[i] = y[i] * (T)f + coef[i & 3] + p.p[p.n + 7];
}
}
template __global__ void ns::scale<float>(float *, const float *, int, double, Pair);
"""
# As hipcc 5.2 compiled it: -O2 --offload-arch=gfx90a -mcode-object-version=5.
HSACO = Path(__file__).with_name("scale_gfx90a.hsaco")
WORK_ITEMS = (1000, 2, 1)  # the last workgroup of the first dimension is partial
# Whole workgroups, their sizes, the work-items of the partial ones, and at 112 the number of dimensions.
HIDDEN = struct.pack("<3I6H", 3, 2, 1, 256, 1, 1, 1000 % 256, 0, 0)
HIP_KERNARG = (PARAMETERS + HIDDEN).ljust(112, b"\0") + struct.pack("<H", 2) + bytes(190)


def hip_manifest(
    memory: schema.Memory, code: schema.CodeFile, source: schema.StoredFile, header: schema.StoredFile
) -> schema.Manifest:
    """The CUDA launch's twin: what differs is named here."""
    native = native_manifest(memory, (code,), source, header)
    assert native.source is not None and native.source.build is not None
    replace = msgspec.structs.replace
    build = replace(native.source.build, tool="hipcc", arch="gfx90a", name="/app/scale.hip")
    launch = replace(
        native.launch,
        block=(256, 1, 1),
        grid=(4, 2, 1),
        cluster=None,
        cooperative=False,
        attributes=(),
        shared_bytes=512,
        parameters=schema.Parameters(bytes=HIP_KERNARG.hex(), layout=LAYOUT),
        dispatch=schema.Dispatch(work_items=WORK_ITEMS, group_bytes=2560, private_bytes=16, dimensions=2),
        stream="0x55d0c0",
        route="hsa queue 1",
    )
    return replace(
        native,
        created="2026-11-22T03:04:05Z",
        device=schema.Device(
            kind="hip",
            name="AMD Instinct MI250X",
            arch="gfx90a",
            ordinal=1,
            memory_bytes=68_702_699_520,
            driver="ROCr 1.15, gfx90a:sramecc+:xnack-",
        ),
        kernel=replace(native.kernel, language="hip", file="/app/scale.hip"),
        launch=launch,
        compiled={
            "image_kind": schema.StrValue(value="elf"),
            "vgprs": schema.IntValue(value="7"),
            "kernarg_bytes": schema.IntValue(value="304"),
        },
        source=replace(native.source, language="hip", build=build),
    )


def make_hip(parent: Path) -> Path:
    """Write the HIP reproducer below ``parent``."""
    with ReproducerWriter(parent, "scale") as writer:
        states = native_contents()
        for region, (pre, _) in states.items():
            writer.add_region_pre(region, len(pre), memoryview(pre))
        for region, (_, post) in states.items():
            for chunk in range(-(-len(post) // CHUNK)):
                writer.add_post_chunk(region, chunk, post[chunk * CHUNK : (chunk + 1) * CHUNK])
        code = writer.add_code("hsaco", HSACO.read_bytes())
        source = writer.add_source("scale.hip", HIP_SOURCE)
        header = writer.add_source("gain.h", CUDA_HEADER)
        return writer.seal(hip_manifest(writer.finish_memory(), code, source, header))


# --- a launch of which the self-check decided nothing, since version 1.4 -----------------------------------

IDLE_SOURCE = b"""import triton
import triton.language as tl


@triton.jit
def peek(x_ptr):
    tl.device_print("x", tl.load(x_ptr))
"""
IDLE_REASON = "nothing to compare: the launch writes nothing that was captured"


def idle_contents() -> dict[int, tuple[bytes, bytes]]:
    """Four numbers, before the launch and after it."""
    data = np.arange(4, dtype=np.float32).tobytes()
    return {0: (data, data)}


def make_idle(parent: Path) -> Path:
    """Write the reproducer of a launch that writes nothing below ``parent``, with its checks."""
    with ReproducerWriter(parent, "peek") as writer:
        ((pre, _),) = idle_contents().values()
        writer.add_region_pre(0, len(pre), memoryview(pre))
        code = writer.add_code("ttir", b"module {\n}\n")
        source = writer.add_source("kernel.py", IDLE_SOURCE)
        block = block_manifest(writer.finish_memory(), code, source)
        replace = msgspec.structs.replace
        folder = writer.seal(
            replace(
                block,
                kernel=replace(block.kernel, name="peek", qualified_name="app.kernels.peek"),
                arguments=block.arguments[:1],
                regions=(replace(block.regions[0], size=len(pre)),),
                views=(replace(block.views[0], offset=0, shape=(4,), storage=(0, len(pre))),),
                closure=replace(block.closure, included_bytes=len(pre)),
                source=schema.Source(file=source, entry="peek"),
            )
        )
    with Reproducer.open(folder) as made:
        check = SelfCheck(result="undecided", reason=IDLE_REASON, engine="jit")
        made.write_checks(Checks(manifest_sha256=made.manifest_sha256, self_check=check))
    return folder


# --- a launch in an allocator's arena, most of it never written, since version 1.5 ------------------------

ARENA = 0x7F4000000000
ARENA_ZEROS = (
    schema.ZeroRange(base=ARENA + (2 << 20), size=62 << 20),
    schema.ZeroRange(base=ARENA + (66 << 20), size=2 << 20),
)


def make_arena(parent: Path) -> Path:
    """Write the reproducer of a launch with zeros around its memory below ``parent``."""
    with ReproducerWriter(parent, "scale") as writer:
        writer.add_region_pre(0, 2 << 20, noise(5000, 11) + bytes((2 << 20) - 5000))
        writer.add_region_pre(1, 2 << 20, None)
        writer.add_post_chunk(1, 0, noise(CHUNK, 12))
        code = writer.add_code("ptx", PTX)
        block = block_manifest(writer.finish_memory(), code, writer.add_source("kernel.py", BLOCK_SOURCE))
        replace = msgspec.structs.replace
        region = replace(block.regions[0], base=ARENA, size=2 << 20)
        return writer.seal(
            replace(
                block,
                regions=(region, replace(region, base=ARENA + (64 << 20))),
                zeros=ARENA_ZEROS,
                closure=replace(block.closure, included_bytes=4 << 20),
            )
        )


# --- a kernel of Numba's, whose source is Python, since version 1.6 ---------------------------------------

NUMBA_SOURCE = b"""from numba import cuda


@cuda.jit
def scale(x):
    x[cuda.grid(1)] *= 2
"""


def make_numba(parent: Path) -> Path:
    """Write the reproducer of a Numba kernel's launch below ``parent``."""
    replace = msgspec.structs.replace
    with ReproducerWriter(parent, "scale") as writer:
        states = native_contents()
        for region, (pre, _) in states.items():
            writer.add_region_pre(region, len(pre), memoryview(pre))
        code = (writer.add_code("ptx", PTX),)
        source = writer.add_source("kernel.py", NUMBA_SOURCE)
        whole = writer.add_source("original/train.py", b"import numpy\n" + NUMBA_SOURCE)
        native = native_manifest(writer.finish_memory(), code, source, whole)
        build = schema.SourceBuild(tool="numba", unit=source.path, arch="sm_90", name="/app/train.py")
        origin = schema.SourceOrigin(
            name="scale", line=4, lines=3, original_file="/app/train.py", original_line=5
        )
        return writer.seal(
            replace(
                native,
                source=schema.Source(
                    file=source, entry="scale", language="numba", build=build, origins=(origin,),
                    originals=(whole,),
                ),
            )
        )  # fmt: skip


# --- a kernel of another compiler of Python, since version 1.8 --------------------------------------------

CUTE_SOURCE = b"""from cutlass import cute


@cute.kernel
def scale(x: cute.Tensor):
    i, _, _ = cute.arch.thread_idx()
    x[i] = x[i] * 2


@cute.jit
def launch(x: cute.Tensor):
    scale(x).launch(grid=[4, 2, 1], block=[128, 1, 1])
"""
CUTE_CALL = b'{"kernel": "scale", "host": {"file": "/app/train.py", "name": "launch"}, "arguments": []}\n'


def make_cute_dsl(parent: Path) -> Path:
    """Write the reproducer of a CuTe DSL kernel's launch below ``parent``."""
    replace = msgspec.structs.replace
    with ReproducerWriter(parent, "scale") as writer:
        for region, (pre, _) in native_contents().items():
            writer.add_region_pre(region, len(pre), memoryview(pre))
        code = (writer.add_code("ptx", PTX),)
        source = writer.add_source("kernel.py", CUTE_SOURCE)
        call = writer.add_source("call.json", CUTE_CALL)
        native = native_manifest(writer.finish_memory(), code, source, call)
        build = schema.SourceBuild(tool="cute-dsl", unit=source.path, arch="sm_90a", name="/app/train.py")
        return writer.seal(
            replace(
                native,
                source=schema.Source(
                    file=source, entry="scale", language="python-dsl", build=build, originals=(call,)
                ),
            )
        )


# --- a launch with textures and a surface, since version 1.7 ----------------------------------------------

SAMPLER = struct.pack("<3iiI", 1, 1, 1, 1, 2).hex() + "00" * 84  # clamp, linear, normalized coordinates
PYRAMID = schema.Array(width=64, height=32, format=0x20, channels=1, flags=2, levels=3)
TEXTURES = (
    schema.Texture(
        handle=1, kind="texture", resource="mipmap", reason="parameter 0", region=0, sampler=SAMPLER,
        view=struct.pack("<iI3Q4I", 0x1F, 0, 64, 32, 0, 0, 2, 0, 0).hex() + "00" * 64,
    ),
    schema.Texture(
        handle=0x100002, kind="texture", resource="linear", reason="reached from 0x7f4000000000", address=Y,
        format=0x01, channels=4, width=4096, sampler=SAMPLER,
    ),
    schema.Texture(
        handle=1, kind="surface", resource="array", reason="parameter 0", region=0, level=1
    ),
)  # fmt: skip


def texture_contents() -> dict[int, tuple[bytes, bytes]]:
    """A mipmapped array whose second level changes, and plain memory."""
    first, second, third = noise(64 * 32 * 4, 21), noise(32 * 16 * 4, 22), noise(16 * 8 * 4, 23)
    memory = noise(4096, 24)
    return {0: (first + second + third, first + noise(len(second), 25) + third), 1: (memory, memory)}


def make_textures(parent: Path) -> Path:
    """Write the reproducer of a launch with textures below ``parent``."""
    replace = msgspec.structs.replace
    with ReproducerWriter(parent, "scale") as writer:
        for region, (pre, _) in texture_contents().items():
            writer.add_region_pre(region, len(pre), memoryview(pre))
        writer.add_post_chunk(0, 0, texture_contents()[0][1])
        code = (writer.add_code("ptx", PTX),)
        source = writer.add_source("scale.cu", CUDA_SOURCE)
        header = writer.add_source("gain.h", CUDA_HEADER)
        native = native_manifest(writer.finish_memory(), code, source, header)
        sizes = [len(pre) for pre, _ in texture_contents().values()]
        return writer.seal(
            replace(
                native,
                arguments=(),
                views=(),
                regions=(
                    schema.Region(base=0x7F4300000000, size=sizes[0], kind="array", device=1, array=PYRAMID),
                    schema.Region(base=Y, size=sizes[1], kind="device", device=1),
                ),
                closure=replace(native.closure, included_bytes=sum(sizes)),
                launch=replace(native.launch, textures=TEXTURES),
            )
        )


# --- a file of chunks that is known by the digests of its payloads, since version 1.9 -----------------------


def make_payloads(parent: Path) -> Path:
    """The first reproducer as its memory is listed if it is large: nothing is too small for it here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "FILE_DIGEST_UP_TO", 0)
        return make(parent)


# --- a launch that needs other ranks, since version 1.9 --------------------------------------------------

NEEDS = ("NCCL's communicator with its channels, rings and threads", "2 MiB at 0x7f5000000000")


def make_collective(parent: Path) -> Path:
    """Write the reproducer of a launch that is only described below ``parent``."""
    replace = msgspec.structs.replace
    with ReproducerWriter(parent, "scale") as writer:
        source = writer.add_source("scale.cu", CUDA_SOURCE)
        header = writer.add_source("gain.h", CUDA_HEADER)
        native = native_manifest(writer.finish_memory(), (), source, header)
        closure = replace(native.closure, included_bytes=0, left_out_bytes=0, left_out=(), not_held=NEEDS)
        return writer.seal(replace(native, arguments=(), views=(), regions=(), closure=closure))


# --- a range, since version 1.10 ----------------------------------------------------------------------------

RANGE_POSITIONS = (3, 4, 6)
RANGE_MISSING = schema.MissingLaunch(
    position=5, kernel="app.kernels.gather", reason="it could not be captured"
)


def range_contents(number: int) -> tuple[bytes, bytes]:
    """Region 0 of a launch, before and after: what the host changes before launch 2 is the last 16 bytes."""
    first, second = noise(CHUNK + 1000, 41), noise(CHUNK + 1000, 42)
    third = second[:CHUNK] + noise(1000, 43)
    changed = third[:-16] + bytes(16)
    return ((first, second), (second, third), (changed, changed[:-16] + noise(16, 44)))[number]


def make_range(parent: Path) -> Path:
    """Write a range of three launches, with the write set of the second, below ``parent``."""
    replace = msgspec.structs.replace
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        launches = []
        for number, position in enumerate(RANGE_POSITIONS):
            with ReproducerWriter(Path(folder), "scale") as writer:
                pre, post = range_contents(number)
                writer.add_region_pre(0, len(pre), memoryview(pre))
                for chunk in range(2):
                    writer.add_post_chunk(0, chunk, post[chunk * CHUNK : (chunk + 1) * CHUNK])
                code = writer.add_code("ttir", b"module {\n}\n")
                source = writer.add_source("scale.py", SOURCE)
                single = manifest(writer.finish_memory(), code, source)
                path = writer.seal(
                    replace(
                        single, arguments=single.arguments[:1], views=single.views[:1],
                        regions=(replace(single.regions[0], size=len(pre)),),
                        closure=replace(single.closure, included_bytes=len(pre)),
                        launch=replace(single.launch, ordinal=number),
                    )
                )  # fmt: skip
            launches.append((position, stack.enter_context(Reproducer.open(path))))
        made = write_range(parent, launches, [RANGE_MISSING], ["made by hand"])
    with LaunchRange.open(made) as opened:
        launch, bits = opened.launch(1), np.zeros(-(-(CHUNK + 1000) // 8), dtype=np.uint8)
        bits[CHUNK // 8 :] = 0xFF
        nothing = np.zeros_like(bits)
        write_set = WriteSet.from_masks({0: Masks(bits, nothing, nothing)}, {0: CHUNK + 1000}).save(launch)
        check = SelfCheck(result="pass", reason="bit for bit", engine="interpreter")
        launch.write_checks(
            Checks(manifest_sha256=launch.manifest_sha256, self_check=check, write_set=write_set)
        )
    return made


if __name__ == "__main__":
    builders = (
        make, make_native, make_block, make_hip, make_idle, make_arena, make_numba, make_textures,
        make_cute_dsl, make_payloads, make_collective, make_range,
    )  # fmt: skip
    print(*(build(Path(sys.argv[1])) for build in builders))
