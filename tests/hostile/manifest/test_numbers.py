"""Numbers and names that no launch has are refused at the reader, so that no command behind it meets them."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kerncap.errors import BackendUnavailable, FormatError
from kerncap.format import Reproducer
from kerncap.replay import trust
from kerncap.replay.staging import stage
from tests.unit.format.damage import GOLDEN, GOLDEN_BLOCK, GOLDEN_HIP, GOLDEN_NATIVE, edit_manifest

INT = {"kind": "int", "value": "1"}


def view(**changes: Any) -> tuple[Path, tuple[str | int, ...], Any]:
    return GOLDEN_BLOCK, ("views", 0), changes


def named(**changes: Any) -> tuple[Path, tuple[str | int, ...], Any]:
    value = {
        "kind": "sequence",
        "type": "namedtuple",
        "type_name": "P",
        "fields": ["a", "b"],
        "items": [INT, INT],
    }
    return GOLDEN_BLOCK, ("arguments", 3), {"value": {**value, **changes}}


def descriptor(**changes: Any) -> tuple[Path, tuple[str | int, ...], Any]:
    value = {"kind": "descriptor", "view": 0, "shape": [2, 2], "strides": [2, 1], "block_shape": [2, 2]}
    return GOLDEN_BLOCK, ("arguments", 3), {"value": {**value, **changes}}


def launch(golden: Path = GOLDEN_BLOCK, **changes: Any) -> tuple[Path, tuple[str | int, ...], Any]:
    return golden, ("launch",), changes


BIG = 2**48
ATTACKS = {
    # a view's shape
    "64 dimensions": (view(shape=[1] * 64, strides=[1] * 64), "length <= 25"),
    "26 dimensions": (view(shape=[1] * 26, strides=[1] * 26), "length <= 25"),
    "a hundred thousand dimensions": (view(shape=[1] * 10**5, strides=[1] * 10**5), "length <= 25"),
    "2^96 elements": (view(shape=[BIG, BIG], strides=[0, 0]), r"2\^63 bytes or more"),
    "2^63 elements": (view(shape=[2**15, BIG], strides=[0, 0], itemsize=1), r"2\^63 bytes or more"),
    "2^61 elements of 4 bytes": (view(shape=[2**13, BIG], strides=[0, 0]), r"2\^63 bytes or more"),
    "none of 2^96": (view(shape=[0, BIG, BIG], strides=[0, 0, 0]), r"2\^63 bytes or more"),
    "2^96 and then none": (view(shape=[BIG, BIG, 0], strides=[0, 0, 0]), r"2\^63 bytes or more"),
    "25 times 2^48": (view(shape=[BIG] * 25, strides=[0] * 25), r"2\^63 bytes or more"),
    "an extent of 2^63": (view(shape=[2**63], strides=[0]), "Expected `int` <="),
    "an extent below 0": (view(shape=[-1]), "Expected `int` >= 0"),
    "an extent of 1.5": (view(shape=[1.5]), "Expected `int`"),
    "a stride of 2^63": (view(strides=[2**63]), "Expected `int` <="),
    "a stride out of the region": (view(strides=[-1]), "view reaches bytes"),
    "a stride of -2^48": (view(strides=[-BIG]), "view reaches bytes"),
    "an offset of 2^63": (view(offset=2**63), "Expected `int` <="),
    "an itemsize of 2^31": (view(itemsize=2**31), "Expected `int` <="),
    "an itemsize of 0": (view(itemsize=0), "Expected `int` >="),
    # a named tuple
    "a keyword as a field": (named(fields=["a", "class"]), "field 1 has a name"),
    "a space in a field": (named(fields=["a", "b c"]), "field 1 has a name"),
    "a call in a field": (named(fields=["a", "b)or exit("]), "field 1 has a name"),
    "an empty field": (named(fields=["a", ""]), "field 1 has a name"),
    "a private field": (named(fields=["a", "_b"]), "field 1 has a name"),
    "a dunder": (named(fields=["a", "__class__"]), "field 1 has a name"),
    "another place's field": (named(fields=["a", "_0"]), "field 1 has a name"),
    "a number as a field": (named(fields=["a", "1"]), "field 1 has a name"),
    "a NUL in a field": (named(fields=["a", "b\0"]), "field 1 has a name"),
    "a field twice": (named(fields=["a", "a"]), "named twice"),
    "fewer fields": (named(fields=["a"]), "1 field names for 2 items"),
    "no fields": (named(fields=None), "without the names"),
    "no type": (named(type_name=None), "without the names"),
    "a keyword as a type": (named(type_name="class"), "not a name that a Python type"),
    "a type in a module": (named(type_name="a.b"), "not a name that a Python type"),
    "a space in a type": (named(type_name="a b"), "not a name that a Python type"),
    "a type of no letters": (named(type_name=""), "not a name that a Python type"),
    "4097 fields": (named(fields=["a"] * 4097, items=[INT] * 4097), "length <= 4096"),
    # a descriptor
    "a descriptor of 2^96": (descriptor(shape=[BIG, BIG]), r"2\^63 bytes or more"),
    "a descriptor's blocks": (descriptor(block_shape=[BIG, BIG]), r"2\^63 bytes or more"),
    "26 dimensions of a descriptor": (
        descriptor(shape=[1] * 26, strides=[1] * 26, block_shape=[1] * 26), "length <= 25",
    ),
    # the launch
    "2^93 workgroups": (launch(grid=[2**31 - 1] * 3), r"2\^63 workgroups or more"),
    "a grid below 0": (launch(grid=[-1, 1, 1]), "Expected `int` >= 0"),
    "a grid of 2^31": (launch(grid=[2**31, 1, 1]), "Expected `int` <="),
    "a grid of two": (launch(grid=[1, 1]), "length 3"),
    "a block of 2^62": (launch(GOLDEN_NATIVE, block=[2**31 - 1, 2**31 - 1, 1]), "more than 65536"),
    "a block of 65537": (launch(GOLDEN_NATIVE, block=[65_537, 1, 1]), "more than 65536"),
    "a block of none of 2^62": (launch(GOLDEN_NATIVE, block=[2**31 - 1, 2**31 - 1, 0]), "more than 65536"),
    "a cluster of 2^93": (launch(GOLDEN_NATIVE, cluster=[2**31 - 1] * 3), "more than 65536"),
    "shared memory of 2^63": (launch(GOLDEN_NATIVE, shared_bytes=2**63), "Expected `int` <="),
    "an ordinal of 2^31": (launch(ordinal=2**31), "Expected `int` <="),
    "an ordinal below 0": (launch(ordinal=-1), "Expected `int` >= 0"),
    "a workgroup of none": (launch(GOLDEN_HIP, block=[0, 1, 1]), "without the size of its workgroups"),
    "another grid": (launch(GOLDEN_HIP, grid=[2**31 - 1, 1, 1]), "are not the 2147483647 of the grid"),
}  # fmt: skip


def refused(folder: Path, message: str) -> None:
    with pytest.raises(FormatError, match=message) as error:
        Reproducer.open(folder)
    assert str(error.value).isprintable() and len(str(error.value)) < 1000


@pytest.mark.parametrize("name", ATTACKS)
def test_numbers_and_names(tmp_path: Path, name: str) -> None:
    (golden, place, changes), message = ATTACKS[name]
    folder = Path(shutil.copytree(golden, tmp_path / "repro"))

    def edit(manifest: Any) -> None:
        node = manifest
        for step in place:
            node = node[step]
        node.update(copy.deepcopy(changes))
        if place[0] == "views":
            node.pop("storage", None)

    edit_manifest(folder, edit)
    refused(folder, message)


@pytest.mark.parametrize(
    ("part", "item", "count"),
    [
        (
            "views",
            {"region": 0, "offset": 0, "dtype": "int8", "itemsize": 1, "shape": [], "strides": []},
            4097,
        ),
        ("regions", {"base": 0, "size": 1, "kind": "device"}, 65_537),
        ("arguments", {"name": "a", "role": "runtime", "value": {"kind": "none"}}, 4097),
        ("files", {"path": "README.md", "size": 0, "sha256": "0" * 64}, 65_537),
    ],
)
def test_counts(tmp_path: Path, part: str, item: Any, count: int) -> None:
    folder = Path(shutil.copytree(GOLDEN_BLOCK, tmp_path / "repro"))
    edit_manifest(folder, lambda manifest: manifest.update({part: [item] * count}))
    refused(folder, "Expected `array` of length <=")


def test_values_are_counted_wherever_they_stand(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN_BLOCK, tmp_path / "repro"))
    row = {"kind": "sequence", "items": [{"kind": "none"}] * 4096}
    edit_manifest(
        folder, lambda manifest: manifest["arguments"][3].update(value={**row, "items": [row] * 20})
    )
    refused(folder, "more than 65536 values")


@pytest.mark.parametrize("launcher", ["interpreter", "jit", "binary"])
def test_a_negative_stride_is_read_and_not_replayed(launcher: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """FORMAT.md allows it and version 1.0's golden file has one; torch has no such tensors."""
    monkeypatch.setattr(trust, "check", lambda *_: None)  # consent is not what is looked at here
    views = json.loads((GOLDEN / "manifest.json").read_bytes())["views"]
    assert [v["name"] for v in views if min(v["strides"], default=0) < 0] == ["x_flip"]
    with Reproducer.open(GOLDEN) as reproducer:
        with pytest.raises(BackendUnavailable, match="x_flip has a negative stride"):
            stage(reproducer, launcher, "host", -1)
