"""The rules of native launches, of dispatches on an AMD GPU, and of a tensor's storage in its region."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from kerncap.format import Reproducer
from tests.unit.format.damage import GOLDEN_HIP, damaged, edit_manifest, put

PARAMETERS = ("launch", "parameters")


@pytest.mark.parametrize(
    ("edit", "after", "message"),
    [
        (put(*PARAMETERS, "layout", 4, 1)(17), None, "parameter 4 at bytes 32 to 49; 32 to 48 are left"),
        (put(*PARAMETERS, "layout", 1, 0)(4), None, "parameter 1 at bytes 4 to 12; 8 to 48 are left"),
        (put(*PARAMETERS, "layout", 0, 1)(2**48), None, "parameter 0 at bytes 0 to"),
        (put(*PARAMETERS, "layout", 0, 1)(2**49), "281474976710656", "<= 281474976710656"),
        (put(*PARAMETERS, "layout", 0)([0]), None, "of length 2"),
        (put(*PARAMETERS, "bytes")("0g"), '"0g"', "matching regex"),
        (put(*PARAMETERS, "bytes")("abc"), '"abc"', "matching regex"),
        (put(*PARAMETERS, "bytes")("00" * 65_537), None, "length <= 131072"),
        (put("launch", "block")(None), None, "a native launch without block"),
        (put("launch", "parameters")(None), None, "a native launch without parameters"),
        (put("launch", "block")([1, -1, 1]), "-1", ">= 0"),
        (put("launch", "attributes", 0, "value")("00"), '"00"', "matching regex"),
        (put("launch", "attributes")([{"id": 1, "value": "0" * 128}] * 65), None, "length <= 64"),
        (put("kernel", "mangled")("_Z" + "x" * 2**18), None, "length <= 262144"),
        (put("kernel", "name")("x" * 4097), None, "length <= 4096"),
        (put("source", "build", "unit")("source/other.cu"), '"source/other.cu"', "not a file of the source"),
        (put("source", "build", "unit")("../scale.cu"), '"../scale.cu"', "not a file of the source"),
        (
            put("source", "build", "headers", "/app/gain.h")("README.md"),
            '"README.md"',
            "not a file of the source",
        ),
        (put("source", "build", "include_dirs", 0, "stored")("../.."), '"../.."', "leads out"),
        (put("source", "language")("perl"), '"perl"', "Invalid enum value"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_native_rules(native_folder: Path, edit: Any, after: str | None, message: str) -> None:
    edit_manifest(native_folder, edit)
    error = damaged(native_folder, "manifest.json", re.escape(message))
    if after is not None and after.startswith('"'):
        text = (native_folder / "manifest.json").read_bytes()
        assert text[error.offset :].startswith(after.encode())


# --- launches on an AMD GPU, since version 1.3 ------------------------------------------------------------

DISPATCH = ("launch", "dispatch")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (put(*DISPATCH, "work_items")([1025, 2, 1]), "1025 work-items in workgroups of 256 are not the 4"),
        (put(*DISPATCH, "work_items")([768, 2, 1]), "768 work-items in workgroups of 256 are not the 4"),
        (put("launch", "grid")([4, 3, 1]), "2 work-items in workgroups of 1 are not the 3"),
        (put(*DISPATCH, "work_items")([0, 2, 1]), ">= 1"),
        (put(*DISPATCH, "work_items")([2**32, 2, 1]), "<= 4294967295"),
        (put(*DISPATCH, "work_items")([1000, 2]), "of length 3"),
        (put(*DISPATCH, "group_bytes")(2**32), "<= 4294967295"),
        (put(*DISPATCH, "private_bytes")(-1), ">= 0"),
        (put(*DISPATCH, "dimensions")(4), "<= 3"),
        (put("launch", "block")([0, 1, 1]), "without the size of its workgroups"),
        (put("kernel", "language")("opencl"), "Invalid enum value"),
        (put("source", "build", "tool")("clang"), "Invalid enum value"),
    ],
)
def test_rules_of_a_dispatch(tmp_path: Path, edit: Any, message: str) -> None:
    folder = tmp_path / "hip"
    shutil.copytree(GOLDEN_HIP, folder)
    edit_manifest(folder, edit)
    damaged(folder, "manifest.json", re.escape(message))


def test_an_older_reader_ignores_the_dispatch(tmp_path: Path) -> None:
    """A key that is not known is no error: so does this reader with what comes after it."""
    folder = tmp_path / "hip"
    shutil.copytree(GOLDEN_HIP, folder)
    edit_manifest(folder, put("launch", "queue")({"priority": 3}))
    with Reproducer.open(folder) as reproducer:
        assert reproducer.manifest.launch.dispatch is not None


def test_a_native_reproducer_of_1_0_has_no_native_part(folder: Path) -> None:
    with Reproducer.open(folder) as reproducer:
        launch = reproducer.manifest.launch
        assert (launch.block, launch.parameters, launch.attributes, launch.cooperative) == (
            None,
            None,
            (),
            False,
        )


# --- a tensor's own storage in its region, since version 1.2 ----------------------------------------------


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        ([512, 3585], "storage of bytes 512 to 4097 of region 0, which has 4096"),
        ([512, 2**49], "<= 281474976710656"),
        ([-1, 4], ">= 0"),
        ([516, 1000], "view reaches bytes 512 to 1512, its storage has only 516 to 1516"),
        ([512, 999], "view reaches bytes 512 to 1512, its storage has only 512 to 1511"),
        ([512], "of length 2"),
        ("512", "Expected `array | null`"),
    ],
)
def test_a_storage_lies_in_its_region_and_holds_its_view(
    block_folder: Path, storage: Any, message: str
) -> None:
    edit_manifest(block_folder, put("views", 0, "storage")(storage))
    damaged(block_folder, "manifest.json", re.escape(message))


def test_a_storage_may_be_left_out(block_folder: Path) -> None:
    edit_manifest(block_folder, lambda manifest: manifest["views"][0].pop("storage"))
    with Reproducer.open(block_folder) as reproducer:
        assert reproducer.manifest.views[0].storage is None
