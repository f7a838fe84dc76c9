"""Textures and surfaces of an unchanged program, on every kind of resource, given in every way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine

from .captured import Captured, Judge, build, capture

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]

# What a mangled name holds, of every kernel of textures.cu, and how many objects and arrays its launch has.
KERNELS = {
    "kc_1d": (1, 1), "kc_2d": (1, 1), "kc_3d": (1, 1), "10kc_layered": (2, 2), "kc_layered1d": (1, 1),
    "kc_cubemap": (1, 1), "kc_mipmapped": (2, 1), "kc_linear": (1, 0), "kc_pitched": (1, 0),
    "kc_bytes": (1, 1), "kc_by_value": (2, 2), "kc_constant": (2, 2), "kc_bindless": (4, 3),
    "kc_in_place": (1, 1),
}  # fmt: skip
WRONG = """
__global__ void kc_in_place(cudaSurfaceObject_t surface) {
  float value;
  surf2Dread(&value, surface, threadIdx.x * 4, threadIdx.y);
  surf2Dwrite(threadIdx.y == 7 ? value : value * 2 + 1, surface, threadIdx.x * 4, threadIdx.y);
}
"""


@pytest.fixture(scope="module")
def textures(kerncap_of_module: CommandLine, judge: Judge) -> Captured:
    captured = capture(kerncap_of_module, build("textures.cu"), options=("-k", "kc_", "--launch", "0:1"))
    judge.prepare(captured.reproducers)
    return captured


def test_the_program_notices_nothing(textures: Captured) -> None:
    textures.target_is_unchanged()
    assert textures.plain.status == 0, textures.plain.stderr


@pytest.mark.parametrize("kernel", KERNELS)
def test_replayed_bit_for_bit_and_verified(textures: Captured, judge: Judge, kernel: str) -> None:
    path = textures.one(kernel)
    manifest = textures.reproducers[path]
    objects, arrays = KERNELS[kernel]
    # A number that is also another object's brings that one in too.
    assert len(manifest.launch.textures) >= objects, manifest.launch.textures
    assert sum(region.kind == "array" for region in manifest.regions) >= arrays, manifest.regions
    judge.agrees(path)


def test_a_wrong_write_to_a_surface_is_found(textures: Captured, judge: Judge, tmp_path: Path) -> None:
    source = tmp_path / "wrong.cu"
    source.write_text(WRONG)
    judge.rejects(textures.one("kc_in_place"), source)
    source = tmp_path / "right.cu"
    source.write_text(WRONG.replace("threadIdx.y == 7 ? value : ", ""))
    judge.accepts(textures.one("kc_in_place"), source)
