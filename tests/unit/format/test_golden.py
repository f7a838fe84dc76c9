"""The golden reproducer of each released version stays readable for ever."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from blake3 import blake3

from kerncap.format import Reproducer, WriteSet, chunks, schema
from kerncap.format.memory_index import STATES
from kerncap.format.textures import sampler_text
from tests.golden.contents import (
    ARENA_ZEROS,
    BLOCK,
    CHUNK,
    HIP_KERNARG,
    IDLE_REASON,
    LAYOUT,
    NEEDS,
    PARAMETERS,
    PYRAMID,
    SAMPLER,
    STORAGES,
    TEXTURES,
    WORK_ITEMS,
    X,
    block_contents,
    contents,
    idle_contents,
    masks,
    native_contents,
    noise,
    texture_contents,
    write_again,
)
from tests.unit.format.damage import (
    GOLDEN,
    GOLDEN_ARENA,
    GOLDEN_BLOCK,
    GOLDEN_CHUNK_FILES,
    GOLDEN_CODE_PLACE,
    GOLDEN_COLLECTIVE,
    GOLDEN_CUTE_DSL,
    GOLDEN_HEAP,
    GOLDEN_HIP,
    GOLDEN_IDLE,
    GOLDEN_LIMITS,
    GOLDEN_NATIVE,
    GOLDEN_NUMBA,
    GOLDEN_PAYLOADS,
    GOLDEN_PRINTED,
    GOLDEN_RANKS,
    GOLDEN_TEXTURES,
)

EVERY = {  # with the minor version that wrote it
    GOLDEN: 0, GOLDEN_NATIVE: 1, GOLDEN_BLOCK: 2, GOLDEN_HIP: 3, GOLDEN_IDLE: 4, GOLDEN_ARENA: 5,
    GOLDEN_NUMBA: 6, GOLDEN_TEXTURES: 7, GOLDEN_CUTE_DSL: 8, GOLDEN_PAYLOADS: 9, GOLDEN_COLLECTIVE: 9,
    GOLDEN_LIMITS: 11, GOLDEN_CHUNK_FILES: 12, GOLDEN_HEAP: 14, GOLDEN_PRINTED: 15,
    GOLDEN_CODE_PLACE: 16, **dict.fromkeys(GOLDEN_RANKS, 17),
}  # fmt: skip


def text_of(golden: Reproducer) -> str:
    assert golden.manifest.source is not None
    return (golden.path / golden.manifest.source.file.path).read_text()


@pytest.mark.parametrize(("folder", "minor"), EVERY.items(), ids=lambda each: getattr(each, "name", None))
def test_each_is_whole_and_of_its_version(folder: Path, minor: int) -> None:
    with Reproducer.open(folder) as golden:
        assert (golden.manifest.version.major, golden.manifest.version.minor) == (1, minor)
        golden.verify()


def test_manifest_of_version_1_0() -> None:
    with Reproducer.open(GOLDEN) as golden:
        manifest = golden.manifest
        assert manifest.kernel.qualified_name == "app.kernels.scale"
        assert manifest.launch.grid == (64, 1, 1)
        assert [a.name for a in manifest.arguments] == [
            "x_ptr",
            "flip",
            "pair",
            "n",
            "FACTOR",
            "DTYPE",
            "MASK",
        ]
        factor = manifest.arguments[4].value
        assert isinstance(factor, schema.FloatValue)
        assert float.fromhex(factor.value) == -math.inf
        assert manifest.views[1].strides == (-1,)
        assert [r.size for r in manifest.regions] == [3 * CHUNK + 1000, 3 * CHUNK, 4096, 0]
        assert manifest.closure.left_out == ("argument z: pinned",)
        assert manifest.autotune is not None
        assert manifest.autotune.chosen == 0
        assert golden.code("ttir") == b"module {\n}\n"
        assert golden.code("cubin") is None
        assert golden.source_text() == text_of(golden)


@pytest.mark.parametrize("region", [0, 1, 2, 3])
def test_memory_of_version_1_0(region: int) -> None:
    pre, post = contents()[region]
    with Reproducer.open(GOLDEN) as golden:
        assert golden.read("pre", region, 0, len(pre)) == pre
        assert golden.read("post", region, 0, len(post)) == post
        assert golden.chunks_changed(region) == {0: [1, 3], 1: [], 2: [0], 3: []}[region]


def test_checks_of_version_1_0() -> None:
    with Reproducer.open(GOLDEN) as golden:
        checks = golden.checks()
        assert checks is not None and checks.self_check is not None
        assert (checks.self_check.result, checks.self_check.engine) == ("pass", "interpreter")
        write_set = WriteSet.load(golden)
        assert write_set is not None
        assert write_set.regions == (2,)
        assert write_set.also_input(2)
        np.testing.assert_array_equal(write_set.mask(2), masks().written)
        np.testing.assert_array_equal(write_set.mask(2, "also_input"), masks().also_input)
        np.testing.assert_array_equal(write_set.mask(2, "untouched"), masks().untouched)


def test_manifest_of_version_1_1() -> None:
    with Reproducer.open(GOLDEN_NATIVE) as golden:
        manifest = golden.manifest
        launch = manifest.launch
        assert (manifest.kernel.language, manifest.kernel.mangled) == (
            "cuda",
            "_ZN2ns5scaleIfEEvPT_PKS1_id4Pair",
        )
        assert (launch.mode, launch.block, launch.cluster) == ("native", (256, 1, 1), (2, 1, 1))
        assert (launch.shared_bytes, launch.cooperative, launch.route) == (49_152, True, "cuLaunchKernelEx")
        assert launch.attributes == (schema.LaunchAttribute(id=4, value="02" + "00" * 63),)
        assert launch.parameters is not None
        assert bytes.fromhex(launch.parameters.bytes) == PARAMETERS
        assert launch.parameters.layout == LAYOUT
        assert [region.kind for region in manifest.regions] == ["device", "device", "global", "managed"]
        assert (manifest.regions[2].name, manifest.regions[3].module) == ("coef", 1)
        view = manifest.views[0]
        assert manifest.regions[view.region].base + view.offset == X + 1024
        assert [argument.value.__struct_config__.tag for argument in manifest.arguments] == [
            "tensor", "tensor", "int", "float", "opaque",
        ]  # fmt: skip
        assert golden.code("ptx") == (GOLDEN_NATIVE / "code" / "kernel.ptx").read_bytes()
        source = manifest.source
        assert source is not None and source.build is not None
        assert (source.language, source.build.tool, source.build.unit) == ("cuda", "nvcc", "source/scale.cu")
        assert golden.source_text() == text_of(golden)
        assert source.build.headers["/app/gain.h"] == "source/gain.h"


@pytest.mark.parametrize("region", [0, 1, 2, 3])
def test_memory_of_version_1_1(region: int) -> None:
    pre, post = native_contents()[region]
    with Reproducer.open(GOLDEN_NATIVE) as golden:
        assert golden.read("pre", region, 0, len(pre)) == pre
        assert golden.read("post", region, 0, len(post)) == post
        assert golden.chunks_changed(region) == {0: [0], 1: [], 2: [], 3: [0]}[region]


def test_checks_of_version_1_1() -> None:
    with Reproducer.open(GOLDEN_NATIVE) as golden:
        checks, write_set = golden.checks(), WriteSet.load(golden)
        assert checks is not None and checks.self_check is not None and checks.self_check.engine == "binary"
        assert write_set is not None and write_set.regions == (3,) and write_set.also_input(3)


def test_version_1_2_knows_the_storages_in_an_allocators_block() -> None:
    with Reproducer.open(GOLDEN_BLOCK) as golden:
        manifest = golden.manifest
        assert (manifest.regions[0].base, manifest.regions[0].size) == (BLOCK, 4096)
        assert [(view.name, view.storage) for view in manifest.views] == [
            ("x_ptr", STORAGES[0]),
            ("out_ptr", STORAGES[1]),
        ]
        assert golden.code("ttir") == (GOLDEN_BLOCK / "code" / "kernel.ttir").read_bytes()
        assert golden.source_text() == text_of(golden)
        ((pre, post),) = block_contents().values()
        assert (golden.read("pre", 0, 0, 4096), golden.read("post", 0, 0, 4096)) == (pre, post)


def test_version_1_3_knows_a_dispatch_on_an_amd_gpu() -> None:
    with Reproducer.open(GOLDEN_HIP) as golden:
        manifest = golden.manifest
        launch = manifest.launch
        assert (manifest.kernel.language, manifest.device.kind, manifest.device.arch) == (
            "hip",
            "hip",
            "gfx90a",
        )
        assert launch.dispatch is not None and launch.parameters is not None
        assert launch.dispatch.work_items == WORK_ITEMS
        assert (launch.grid, launch.block) == ((4, 2, 1), (256, 1, 1))
        sizes = (launch.dispatch.group_bytes, launch.dispatch.private_bytes, launch.dispatch.dimensions)
        assert sizes == (2560, 16, 2)
        assert bytes.fromhex(launch.parameters.bytes) == HIP_KERNARG
        assert launch.parameters.layout == LAYOUT
        assert golden.code("hsaco") == (GOLDEN_HIP / "code" / "kernel.hsaco").read_bytes()
        source = manifest.source
        assert source is not None and source.build is not None
        assert (source.language, source.build.tool, source.build.arch) == ("hip", "hipcc", "gfx90a")
        assert golden.source_text() == text_of(golden)
        for number, (pre, post) in native_contents().items():
            assert golden.read("pre", number, 0, len(pre)) == pre
            assert golden.read("post", number, 0, len(post)) == post


def test_version_1_4() -> None:
    with Reproducer.open(GOLDEN_IDLE) as golden:
        checks = golden.checks()
        assert checks is not None and checks.self_check is not None
        assert (checks.self_check.result, checks.self_check.reason) == ("undecided", IDLE_REASON)
        assert golden.source_text() == text_of(golden) and not golden.chunks_changed(0)
        ((pre, post),) = idle_contents().values()
        assert (golden.read("pre", 0, 0, len(pre)), golden.read("post", 0, 0, len(post))) == (pre, post)


def test_version_1_5() -> None:
    with Reproducer.open(GOLDEN_ARENA) as golden:
        assert golden.manifest.zeros == ARENA_ZEROS
        assert golden.read("pre", 0, 0, 5000) == noise(5000, 11)
        assert golden.read("post", 1, 0, CHUNK) == noise(CHUNK, 12)


def test_version_1_6() -> None:
    with Reproducer.open(GOLDEN_NUMBA) as golden:
        source = golden.manifest.source
        assert source is not None and source.build is not None
        assert (source.language, source.build.tool, source.entry) == ("numba", "numba", "scale")
        assert golden.source_text() == text_of(golden)


def test_version_1_7() -> None:
    with Reproducer.open(GOLDEN_TEXTURES) as golden:
        assert golden.manifest.launch.textures == TEXTURES
        assert golden.manifest.regions[0].array == PYRAMID
        before, after = texture_contents()[0]
        assert golden.read("pre", 0, 0, len(before)) == before
        assert golden.read("post", 0, 0, len(after)) == after
        assert sampler_text(SAMPLER) == "clamp, linear, normalized coordinates"


def test_version_1_8() -> None:
    with Reproducer.open(GOLDEN_CUTE_DSL) as golden:
        source = golden.manifest.source
        assert source is not None and source.build is not None
        assert (source.language, source.build.tool, source.entry) == ("python-dsl", "cute-dsl", "scale")
        assert golden.source_text() == text_of(golden)
        assert [golden.file(file) for file in source.originals] == [
            (GOLDEN_CUTE_DSL / "source" / "call.json").read_bytes()
        ]


def test_memory_of_version_1_9() -> None:
    with Reproducer.open(GOLDEN_PAYLOADS) as golden, Reproducer.open(GOLDEN) as first:
        assert golden.manifest.memory.digest_of == "payloads"
        digests = hashlib.sha256()
        data = (GOLDEN_PAYLOADS / "memory" / "chunks").read_bytes()
        for record in golden.index.table:
            stored = data[int(record["offset"]) :][: int(record["stored"])]
            digests.update(hashlib.sha256(stored).digest())
        assert golden.manifest.memory.chunks.sha256 == digests.hexdigest()
        for number, region in enumerate(golden.manifest.regions):
            for state in STATES:
                assert golden.read(state, number, 0, region.size) == first.read(state, number, 0, region.size)


def test_needs_of_version_1_9() -> None:
    with Reproducer.open(GOLDEN_COLLECTIVE) as golden:
        closure = golden.manifest.closure
        assert closure.not_held == NEEDS
        assert closure.without_values and NEEDS[0] in closure.why_without_values


def test_limits_of_version_1_11() -> None:
    with Reproducer.open(GOLDEN_LIMITS) as golden:
        assert golden.manifest.launch.limits == schema.Limits(
            stack_bytes=65_536, heap_bytes=256 << 20, print_bytes=1 << 20, pending_launches=2048
        )


def test_memory_of_version_1_12() -> None:
    """Its files as FORMAT.md has them, read without kerncap's reader."""
    with Reproducer.open(GOLDEN_CHUNK_FILES) as golden, Reproducer.open(GOLDEN) as first:
        memory = golden.manifest.memory
        assert memory.digest_of == "payloads-blake3"
        assert [file.path for file in memory.chunk_files] == [
            "memory/chunks", "memory/chunks.1", "memory/chunks.2",
        ]  # fmt: skip
        before = 0
        for file in memory.chunk_files:
            data, digests = (GOLDEN_CHUNK_FILES / file.path).read_bytes(), hashlib.sha256()
            assert len(data) == file.size
            for record in golden.index.table:
                at = int(record["offset"]) - before
                if 0 <= at < len(data):
                    digests.update(blake3(data[at : at + int(record["stored"])]).digest())
                    if record["encoding"] == 0:
                        assert digest_of_raw(record) == blake3(data[at : at + int(record["raw"])]).digest()
            assert digests.hexdigest() == file.sha256
            before += file.size
        for number, region in enumerate(golden.manifest.regions):
            for state in STATES:
                assert golden.read(state, number, 0, region.size) == first.read(state, number, 0, region.size)


def digest_of_raw(record: np.void) -> bytes:
    return bytes(record["digest"].tobytes())


def test_limits_of_version_1_14() -> None:
    with Reproducer.open(GOLDEN_HEAP) as golden, Reproducer.open(GOLDEN_LIMITS) as old:
        limits = golden.manifest.launch.limits
        assert limits is not None and limits.heap_in_use
        assert msgspec.structs.replace(limits, heap_in_use=False) == old.manifest.launch.limits


def test_printed_text_of_version_1_15() -> None:
    with Reproducer.open(GOLDEN_PRINTED) as golden:
        assert golden.manifest.oracle.printed == "scaled 3 of 4\nscaled 4 of 4\n"


def test_the_place_of_the_code_of_version_1_16() -> None:
    with Reproducer.open(GOLDEN_CODE_PLACE) as golden, Reproducer.open(GOLDEN_HIP) as old:
        dispatch = golden.manifest.launch.dispatch
        assert dispatch is not None and dispatch.kernel_object == 0x7F4000300000
        assert msgspec.structs.replace(dispatch, kernel_object=None) == old.manifest.launch.dispatch


def test_ranks_of_version_1_17() -> None:
    """Each has the other's memory as a window, with the bytes that the owner has there."""
    with contextlib.ExitStack() as stack:
        ranks = [stack.enter_context(Reproducer.open(folder)) for folder in GOLDEN_RANKS]
        for number, (window, golden) in enumerate(zip((1, 0), ranks, strict=True)):
            assert golden.manifest.collective == schema.Collective(
                id="5eed0fa11ece0001", rank=number, ranks=2
            )
            region, theirs = golden.manifest.regions[window], ranks[1 - number]
            base = theirs.manifest.regions[window].base
            assert region.owner == schema.Owner(rank=1 - number, base=base)
            assert theirs.manifest.regions[window].owner is None
            for state in STATES:
                own = golden.read(state, window, 0, region.size)
                assert own == theirs.read(state, window, 0, region.size)


@pytest.mark.parametrize("folder", EVERY, ids=lambda folder: folder.name)
def test_todays_writer_makes_an_equal_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    if folder == GOLDEN_CHUNK_FILES:  # as if its memory were large
        monkeypatch.setattr(chunks, "LARGE_BYTES", 0)
    with Reproducer.open(write_again(folder, tmp_path)) as made, Reproducer.open(folder) as golden:
        made.verify()
        assert _without_memory_files(made) == _without_memory_files(golden)
        for number, region in enumerate(golden.manifest.regions):
            assert made.chunks_changed(number) == golden.chunks_changed(number)
            for state in STATES:
                ours = made.read(state, number, 0, region.size)
                assert ours == golden.read(state, number, 0, region.size)


def _without_memory_files(reproducer: Reproducer) -> Any:
    """The manifest's JSON, so that a key that is no longer read is missed."""
    manifest = json.loads(reproducer.manifest_bytes)
    manifest["version"]["minor"] = 0  # today's may be a greater one
    # Another zstd may pack differently; README.md states the stored size.
    manifest["files"] = [file for file in manifest.get("files", ()) if file["path"] != "README.md"]
    manifest["memory"].update(index=None, chunks=None, more_chunks=None)
    if manifest["memory"].get("digest_of") == "payloads":  # which today's writer leaves to ranges
        del manifest["memory"]["digest_of"]
    return manifest
