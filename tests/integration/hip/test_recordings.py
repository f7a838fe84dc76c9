"""A folder of AMD's kerncap with a HIP dispatch, as a reproducer that the emulated GPU replays."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kerncap.answer import Answer
from kerncap.api.from_recording import from_recording
from kerncap.api.replay import ReplayOptions, replay
from kerncap.format import Reproducer

from . import replay_launches as launches
from .replay_launches import emulator, launch

EMULATOR = emulator()


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return launches.kernels(tmp_path_factory.mktemp("hip"))


@pytest.fixture
def recording(code: bytes, tmp_path: Path) -> tuple[Path, Path]:
    """(what AMD's tool would have written, a reproducer of the same launch)."""
    a, b = (np.random.default_rng(seed).standard_normal(1000).astype(np.float32) for seed in (1, 2))
    made = launch("vector_add", code, grid=(16, 1, 1), work_items=(1000, 1, 1))
    made.array(a).array(b).array(np.full(1000, 7, np.float32), a + b).integer(1000)
    own = made.seal(tmp_path / "own")
    folder = tmp_path / "vector_add" / "capture"
    (folder / "memory").mkdir(parents=True)
    with Reproducer.open(own) as opened:
        manifest = opened.manifest
        assert manifest.launch.parameters is not None
        (folder / "kernarg.bin").write_bytes(bytes.fromhex(manifest.launch.parameters.bytes))
        rows = []
        for number, region in enumerate(manifest.regions):
            rows.append({"base": region.base, "size": region.size})
            data = opened.read("pre", number, 0, region.size)
            (folder / f"memory/region_{region.base:x}.bin").write_bytes(data)
        mangled = manifest.kernel.mangled or manifest.kernel.name
    (folder / "kernel.hsaco").write_bytes(code)
    (folder / "memory_regions.json").write_text(json.dumps({"regions": rows[::-1]}))
    dispatch = {
        "mangled_name": f"{mangled}.kd", "demangled_name": "vector_add(float const*, ...) [clone .kd]",
        "agent_name": launches.ARCH, "isa_name": f"amdgcn-amd-amdhsa--{launches.ARCH}", "wavefront_size": 64,
        "grid": [1000, 1, 1], "block": [64, 1, 1], "group_segment_size": 0, "private_segment_size": 0,
        "kernarg_size": 280, "dispatch_index": 2,
    }  # fmt: skip
    (folder / "dispatch.json").write_text(json.dumps(dispatch))
    return folder.parent, own


def test_a_dispatch_is_replayed(recording: tuple[Path, Path], tmp_path: Path) -> None:
    [path] = from_recording(recording[0], tmp_path / "out").paths
    with Reproducer.open(path) as made, Reproducer.open(recording[1]) as own:
        assert made.manifest.launch.dispatch is not None and own.manifest.launch.dispatch is not None
        assert made.manifest.launch.dispatch.work_items == own.manifest.launch.dispatch.work_items
        assert made.manifest.launch.grid == (16, 1, 1) and made.manifest.device.arch == launches.ARCH
        assert {each.base: each.size for each in made.manifest.regions} == {
            each.base: each.size for each in own.manifest.regions
        }
        made.verify()
    result = replay(path, ReplayOptions(trust=True, timed_runs=0, emulator=EMULATOR))
    assert result.verdict.answer is Answer.UNDECIDED
    assert "the launch ran to its end" in result.verdict.summary


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("kernel.hsaco", None, "it has no kernel.hsaco"),
        ("memory_regions.json", None, "capture again without KERNCAP_DISABLE_SNAPSHOT"),
        ("kernel.hsaco", b"\x7fELF", "kernel.hsaco: "),
        ("kernarg.bin", b"1234", "kernarg.bin has 4 bytes of"),
        ("memory_regions.json", b'{"regions": [{"base": 4096, "size": 16}]}', "region_1000.bin is missing"),
    ],
)
def test_what_it_lacks_is_named(
    recording: tuple[Path, Path], tmp_path: Path, name: str, data: bytes | None, reason: str
) -> None:
    file = recording[0] / "capture" / name
    file.unlink()
    if data is not None:
        file.write_bytes(data)
    made = from_recording(recording[0], tmp_path / "out")
    assert made.paths == () and reason in made.left_out[0].reason
