"""What the golden reproducers hold, one folder for each released format version, and how a new one is made.

A golden folder of a released version is never rewritten: it shows that old files stay readable.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from kerncap.format import Reproducer, ReproducerWriter, schema
from kerncap.format.allowed_names import MEMORY_PATHS, README_PATH
from kerncap.format.validate import stored_files
from tests.unit.format.small import Masks

CHUNK = schema.CHUNK_BYTES


def write_again(
    golden: Path,
    parent: Path,
    change: Callable[[schema.Manifest], schema.Manifest] = lambda manifest: manifest,
) -> Path:
    """Write ``golden`` below ``parent`` in today's format version, its manifest changed; the new folder.

    A golden folder for a new version is the nearest old one, with a ``change`` that adds what is new.
    """
    with contextlib.ExitStack() as stack:
        old = stack.enter_context(Reproducer.open(golden))
        size = sum(region.size for region in old.manifest.regions)
        writer = stack.enter_context(ReproducerWriter(parent, old.manifest.kernel.name, size))
        for number, region in enumerate(old.manifest.regions):
            writer.add_region_pre(number, region.size, memoryview(old.read("pre", number, 0, region.size)))
            for chunk in old.chunks_changed(number):
                start = chunk * CHUNK
                post = old.read("post", number, start, min(CHUNK, region.size - start))
                writer.add_post_chunk(number, chunk, post)
        for _, stored in stored_files(old.manifest):
            if stored.path not in MEMORY_PATHS | {README_PATH}:
                writer.add_file(stored.path, old.file(stored))
        manifest = msgspec.structs.replace(
            old.manifest,
            version=schema.Version(major=schema.FORMAT_MAJOR, minor=schema.FORMAT_MINOR),
            memory=writer.finish_memory(),
            files=tuple(file for file in old.manifest.files if file.path != README_PATH),
        )
        return writer.seal(change(manifest))


def noise(size: int, seed: int) -> bytes:
    """Incompressible bytes that are the same everywhere (an LCG: no library's generator)."""
    states = np.empty(size + 1, np.uint32)
    states[0], factor, summand = seed, 1664525, 1013904223  # of a step
    done = 1
    while done <= size:
        states[done : 2 * done] = states[:done][: size + 1 - done] * np.uint32(factor) + np.uint32(summand)
        # Of twice as many steps.
        factor, summand = factor * factor % 2**32, (factor + 1) * summand % 2**32
        done *= 2
    return (states[1:] >> 24).astype(np.uint8).tobytes()


def contents() -> dict[int, tuple[bytes, bytes]]:
    """Pre- and post-state of each region: noise, zeros, repeats, a short last chunk, an empty one."""
    ramp = bytes(range(256)) * (CHUNK // 256)
    region0 = ramp + bytes(CHUNK) + ramp + noise(1000, 7)
    changed0 = ramp + ramp + ramp + noise(1000, 8)
    region1 = bytes(3 * CHUNK)
    region2 = noise(4096, 9)
    return {0: (region0, changed0), 1: (region1, region1), 2: (region2, bytes(4096)), 3: (b"", b"")}


def masks() -> Masks:
    """Region 2: its first half is written, a quarter of that in place; the last byte is left alone."""
    written, also_input, untouched = np.zeros((3, 512), dtype=np.uint8)
    written[:256], also_input[:64], untouched[-1] = 0xFF, 0xFF, 0x80
    return Masks(written, also_input, untouched)


# --- a native launch, since version 1.1 ---------------------------------------------------------------

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


# --- a Triton launch in an allocator's block, since version 1.2 -------------------------------------------

BLOCK = 0x7F5000000000
ELEMENTS = 250
STORAGES = ((512, 1000), (1536, 1000))  # of x and out, each rounded up by the allocator


def block_contents() -> dict[int, tuple[bytes, bytes]]:
    """Pre- and post-state of the block: the last program stores six elements past its storage."""
    x = np.arange(256, dtype="<f4")
    pre = bytes(512) + x[:ELEMENTS].tobytes() + bytes(4096 - 512 - 1000)
    doubled = (np.where(np.arange(256) < ELEMENTS, x, 0) * 2).astype("<f4").tobytes()
    return {0: (pre, pre[:1536] + doubled + pre[1536 + 1024 :])}


# --- a HIP launch, since version 1.3 -------------------------------------------------------------------

WORK_ITEMS = (1000, 2, 1)  # the last workgroup of the first dimension is partial
# Whole workgroups, their sizes, the work-items of the partial ones, and at 112 the number of dimensions.
HIDDEN = struct.pack("<3I6H", 3, 2, 1, 256, 1, 1, 1000 % 256, 0, 0)
HIP_KERNARG = (PARAMETERS + HIDDEN).ljust(112, b"\0") + struct.pack("<H", 2) + bytes(190)


# --- a launch of which the self-check decided nothing, since version 1.4 -----------------------------------

IDLE_REASON = "nothing to compare: the launch writes nothing that was captured"


def idle_contents() -> dict[int, tuple[bytes, bytes]]:
    """Four numbers, before the launch and after it."""
    data = np.arange(4, dtype=np.float32).tobytes()
    return {0: (data, data)}


# --- a launch in an allocator's arena, most of it never written, since version 1.5 ------------------------

ARENA = 0x7F4000000000
ARENA_ZEROS = (
    schema.ZeroRange(base=ARENA + (2 << 20), size=62 << 20),
    schema.ZeroRange(base=ARENA + (66 << 20), size=2 << 20),
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


# --- a launch that needs other ranks, since version 1.9 --------------------------------------------------

NEEDS = ("NCCL's communicator with its channels, rings and threads", "2 MiB at 0x7f5000000000")


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


def range_order() -> schema.StreamOrder:
    """Since version 1.13: an event before launch 1, and something unknown before launch 2."""
    event = {"before": 1, "thread": 0, "event": 0}
    return schema.StreamOrder(
        streams=(
            schema.RangeStream(kind="non_blocking"),
            schema.RangeStream(kind="blocking"),
            schema.RangeStream(kind="legacy"),
        ),
        launches=tuple(schema.LaunchPlace(stream=stream, thread=0) for stream in (0, 1, 0)),
        calls=(
            schema.OrderingCall(call="record", stream=0, **event),
            schema.OrderingCall(call="wait", stream=1, **event),
            schema.OrderingCall(before=2, call="unknown", thread=1),
            schema.OrderingCall(before=2, call="synchronize_all", thread=0, stream=2),
        ),
    )
