"""What must fit together of a launch's textures, and how an array's bytes lie in its region."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from kerncap.format import schema
from kerncap.format.textures import array_bytes, array_text, extents, format_text
from tests.unit.format.damage import GOLDEN_TEXTURES, damaged, edit_manifest, put

TEXTURE = ("launch", "textures")


def array(width: int, height: int = 0, depth: int = 0, flags: int = 0, levels: int = 1) -> schema.Array:
    return schema.Array(
        width=width, height=height, depth=depth, format=0x20, channels=2, flags=flags, levels=levels
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "levels"),
    [
        (array(20), [(20, 0, 0)]),
        (array(20, 10, levels=4), [(20, 10, 0), (10, 5, 0), (5, 2, 0), (2, 1, 0)]),
        (array(8, 4, 2, levels=3), [(8, 4, 2), (4, 2, 1), (2, 1, 1)]),
        (array(8, 4, 5, flags=1, levels=3), [(8, 4, 5), (4, 2, 5), (2, 1, 5)]),
        (array(8, 8, 6, flags=4, levels=2), [(8, 8, 6), (4, 4, 6)]),
    ],
)
def test_levels_of_an_array(shape: schema.Array, levels: list[tuple[int, int, int]]) -> None:
    assert list(extents(shape)) == levels
    assert array_bytes(shape) == 8 * sum(x * max(1, y) * max(1, z) for x, y, z in levels)


def test_words_for_people() -> None:
    assert array_text(array(8, 8, 6, flags=5, levels=2)) == "cubemap 8x8x6 float32x2, 2 levels"
    assert array_text(array(8, 0, 6, flags=1)) == "layered 8x6 float32x2"
    assert format_text(0xC0, 1) == "format 0xc0x1"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (put("regions", 0, "array", "width")(65), "an array of 10880 bytes in a region of 10752"),
        (put("regions", 0, "array", "levels")(2**31), "<= 32"),
        (put("regions", 0, "array", "format")(0x91), "an array of format 145 can't be held"),
        (put("regions", 0, "array")(None), "only a region of the kind array has an array"),
        (put("regions", 0, "kind")("device"), "only a region of the kind array has an array"),
        (put(*TEXTURE, 0, "region")(1), "region 1 is not an array"),
        (put(*TEXTURE, 0, "region")(2), "region 2 of only 2"),
        (put(*TEXTURE, 0, "region")(None), "region None of only 2"),
        (put(*TEXTURE, 2, "level")(3), "level 3 of only 3"),
        (put(*TEXTURE, 0, "handle")(0), ">= 1"),
        (put(*TEXTURE, 1, "handle")(1), "texture 1 is listed twice"),
        (put(*TEXTURE, 0, "sampler")(None), "every texture has a sampler"),
        (put(*TEXTURE, 0, "sampler")("00"), "matching regex"),
        (put(*TEXTURE, 0, "view")("zz" * 112), "matching regex"),
        (put(*TEXTURE, 0, "kind")("surface"), "and no surface has one"),
        (put(*TEXTURE, 2, "resource")("linear"), "a surface is on an array"),
        (put(*TEXTURE, 1, "width")(4097), "4097 bytes at 0x7f4000200000 are in no region"),
        (put(*TEXTURE, 1, "address")(0x7F4300000000), "bytes at 0x7f4300000000 are in no region"),
        (put("device", "kind")("hip"), "only a native launch of CUDA has textures"),
    ],
)
def test_rules(tmp_path: Path, edit: Any, message: str) -> None:
    folder = tmp_path / "textures"
    shutil.copytree(GOLDEN_TEXTURES, folder)
    edit_manifest(folder, edit)
    damaged(folder, "manifest.json", re.escape(message))
