"""The golden reproducer of each released version stays readable for ever."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import numpy as np
import pytest

from kerncap.format import Reproducer, WriteSet, schema
from kerncap.format.memory import STATES
from tests.golden.make import CHUNK, SOURCE, contents, make, masks
from tests.unit.format.damage import GOLDEN


def test_manifest_of_version_1_0() -> None:
    with Reproducer.open(GOLDEN) as golden:
        manifest = golden.manifest
        assert (manifest.version.major, manifest.version.minor) == (1, 0)
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
        assert golden.source_text() == SOURCE.decode()
        golden.verify()


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


def test_todays_writer_makes_an_equal_one(tmp_path: Path) -> None:
    with Reproducer.open(make(tmp_path)) as made, Reproducer.open(GOLDEN) as golden:
        made.verify()
        # Another zstd may pack differently; what is inside may not differ.
        assert _without_memory_files(made.manifest) == _without_memory_files(golden.manifest)
        for number, region in enumerate(golden.manifest.regions):
            assert made.chunks_changed(number) == golden.chunks_changed(number)
            for state in STATES:
                ours = made.read(state, number, 0, region.size)
                assert ours == golden.read(state, number, 0, region.size)


def _without_memory_files(manifest: schema.Manifest) -> schema.Manifest:
    empty = schema.StoredFile(path="memory", size=0, sha256="0" * 64)
    memory = msgspec.structs.replace(manifest.memory, index=empty, chunks=empty)
    # README.md tells the stored size, which may differ with them.
    files = tuple(file for file in manifest.files if file.path != "README.md")
    return msgspec.structs.replace(manifest, memory=memory, files=files)
