"""Storages of a reproducer's launch, their bytes, and the places of its source."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncap.api.sanitize import judged
from kerncap.errors import BackendUnavailable
from kerncap.format import Reproducer
from kerncap.report.sanitize_answer import counts_of
from kerncap.sanitizer.launch import TensorArgument
from kerncap.sanitizer.options import Options
from kerncap.sanitizer.sources.reproducer import launch_from_reproducer, notes_of
from kerncap.sanitizer.sources.source_lines import texts_of, with_original_places
from tests.golden.contents import BLOCK, block_contents
from tests.unit.format.damage import GOLDEN_BLOCK, edit_manifest


def edited(tmp_path: Path, edit: Any) -> Reproducer:
    folder = Path(shutil.copytree(GOLDEN_BLOCK, tmp_path / "block"))
    edit_manifest(folder, edit)
    return Reproducer.open(folder)


def test_storages_and_what_is_left_of_their_block() -> None:
    with Reproducer.open(GOLDEN_BLOCK) as reproducer:
        launch = launch_from_reproducer(reproducer)
        assert [(one.address - BLOCK, one.size_bytes, one.name) for one in launch.storages] == [
            (0, 512, ""), (512, 1000, "x_ptr"), (1512, 24, ""), (1536, 1000, "out_ptr"), (2536, 1560, ""),
        ]  # fmt: skip
        assert {(one.allocation_address, one.allocation_bytes) for one in launch.storages} == {(BLOCK, 4096)}
        x, out = launch.arguments[:2]
        assert isinstance(x, TensorArgument) and isinstance(out, TensorArgument)
        assert (x.storage, x.address - BLOCK, out.storage) == (1, 512, 3)
        ((pre, _),) = block_contents().values()
        for index, storage in enumerate(launch.storages):
            start = storage.address - BLOCK
            data = launch.contents.read(index)
            assert data is not None and data.whole().tobytes() == pre[start : start + storage.size_bytes]
            assert launch.contents.unwritten(index) is None
        assert launch.target == "cuda:90" and launch.sources["/app/kernels.py"].startswith(
            "\n\n\n\n@triton.jit"
        )
        assert notes_of(reproducer.manifest) == ()


def test_a_gluon_kernel_is_checked_by_its_ttgir(tmp_path: Path) -> None:
    def edit(manifest: Any) -> None:
        (ttir,) = (one for one in manifest["code"] if one["stage"] == "ttir")
        ttir["stage"] = "ttgir"

    with edited(tmp_path, edit) as reproducer:
        assert counts_of(judged(reproducer, Options())).operations == 2
        assert counts_of(judged(reproducer, Options(), stage="ttgir")).operations == 2
    with Reproducer.open(GOLDEN_BLOCK) as reproducer, pytest.raises(BackendUnavailable, match="TTGIR"):
        judged(reproducer, Options(), stage="ttgir")


def test_storages_that_share_bytes_are_one_across_regions(tmp_path: Path) -> None:
    """A second region inside of the block (regions may overlap), and a tensor in it."""

    def edit(manifest: Any) -> None:
        manifest["regions"].append({**manifest["regions"][0], "base": BLOCK + 1000, "size": 1000})
        manifest["closure"]["included_bytes"] += 1000
        manifest["views"][1] |= {"region": 1, "offset": 0}
        manifest["views"][1].pop("storage")

    with edited(tmp_path, edit) as reproducer:
        launch = launch_from_reproducer(reproducer)
        x, out = launch.arguments[:2]
        assert isinstance(x, TensorArgument) and isinstance(out, TensorArgument)
        assert x.storage == out.storage
        storage = launch.storages[x.storage]
        assert (storage.address - BLOCK, storage.size_bytes) == (512, 1488)
        data = launch.contents.read(x.storage)
        assert data is not None
        floats = data.whole()[:488].view(np.float32)  # what only the first region has
        assert floats.tolist() == list(range(122))


def test_an_empty_tensor_does_not_cut_a_block(tmp_path: Path) -> None:
    def edit(manifest: Any) -> None:
        manifest["views"][1] |= {"offset": 3000, "shape": [0], "storage": [3000, 0]}

    with edited(tmp_path, edit) as reproducer:
        launch = launch_from_reproducer(reproducer)
        assert [(one.address - BLOCK, one.size_bytes) for one in launch.storages if one.size_bytes] == [
            (0, 512), (512, 1000), (1512, 2584),
        ]  # fmt: skip
        assert [one.name for one in launch.storages] == ["", "x_ptr", "", "out_ptr"]


def test_a_module_without_its_originals_gives_the_lines_that_it_has() -> None:
    with Reproducer.open(GOLDEN_BLOCK) as reproducer:
        texts = texts_of(reproducer)
        assert texts["source/kernel.py"] == (GOLDEN_BLOCK / "source" / "kernel.py").read_text()
        assert texts["/app/kernels.py"].splitlines()[8] == "    tl.store(out_ptr + offsets, x * 2.0)"


def test_places_of_a_module_are_the_applications() -> None:
    with Reproducer.open(GOLDEN_BLOCK) as reproducer:
        source = reproducer.manifest.source
        assert source is not None
        text = '#a = loc("/tmp/a\\"b.py":6:5)\n#b = loc("/tmp/a\\"b.py":1:1)\n#c = loc("/lib/x.py":6:5)\n'
        assert with_original_places(text, '/tmp/a"b.py', source) == (
            '#a = loc("/app/kernels.py":6:5)\n#b = loc("source/kernel.py":1:1)\n#c = loc("/lib/x.py":6:5)\n'
        )
