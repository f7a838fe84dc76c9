"""Mutations of the golden reproducer, digests set right again so that they reach the checks behind."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import struct
from pathlib import Path
from typing import Any

import msgspec

from kerncap.errors import FormatError
from kerncap.format import Reproducer, WriteSet
from kerncap.report.inspect_text import render
from tests.unit.format.damage import GOLDEN, GOLDEN_NATIVE, write_manifest

GOLDENS = (GOLDEN, GOLDEN_NATIVE)
WORDS: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**48, 2**60, 2**63, 10**40, 1.5, "", "../x", "/etc/passwd", "a\0b",
    "\ud800",    "x" * 5000, "device", "int", [], {}, [[]], {"kind": "none"}, {"kind": "tensor", "view": 7},
)  # fmt: skip
NUMBERS = (0, 1, 2, 4, 5, 255, 4096, 2**18, 2**31, 2**32 - 1)


def mutate(folder: Path, choose: random.Random) -> None:
    """Change manifest, index, chunks or checks of the copy in ``folder`` in one to three places."""
    for _ in range(choose.randint(1, 3)):
        choose.choice((_manifest_value, _manifest_bytes, _index, _index, _chunks, _checks))(folder, choose)
    write_manifest(folder, (folder / "manifest.json").read_bytes())


def read_all(folder: Path) -> None:
    """Do all that `inspect --verify` does, and read every region that is small."""
    from kerncap.api.inspect import inspect

    render(inspect(folder, verify=True))
    with Reproducer.open(folder) as reproducer:
        for number, region in enumerate(reproducer.manifest.regions):
            size = min(region.size, 1 << 20)
            reproducer.read("pre", number, 0, size)
            reproducer.read("post", number, region.size - size, size)
        reproducer.source_text()
        WriteSet.load(reproducer)


def one_case(seed: int | str, parent: Path) -> str | None:
    """Mutate by ``seed`` and read; the FormatError's text, or None when it still is a reproducer."""
    folder = parent / "repro"
    shutil.rmtree(folder, ignore_errors=True)
    choose = random.Random(seed)
    shutil.copytree(choose.choice(GOLDENS), folder)
    mutate(folder, choose)
    try:
        read_all(folder)
    except FormatError as error:
        assert len(str(error).splitlines()) == 1, str(error)
        return str(error)
    return None


def _manifest_value(folder: Path, choose: random.Random) -> None:
    path = folder / "manifest.json"
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return
    places: list[tuple[Any, Any]] = []
    pending = [document]
    while pending:
        node = pending.pop()
        keys: Any = node if isinstance(node, dict) else range(len(node))
        for key in keys:
            places.append((node, key))
            if isinstance(node[key], dict | list):
                pending.append(node[key])
    if places:
        node, key = choose.choice(places)
        if choose.random() < 0.15:
            del node[key]
        elif choose.random() < 0.3 and isinstance(node[key], int):
            node[key] += choose.choice((-1, 1, 7, 4096))
        else:
            node[key] = choose.choice(WORDS)
    path.write_bytes(json.dumps(document).encode())


def _manifest_bytes(folder: Path, choose: random.Random) -> None:
    data = bytearray((folder / "manifest.json").read_bytes())
    if data:
        at = choose.randrange(len(data))
        change = choose.choice(("flip", "cut", "double", "nest"))
        if change == "flip":
            data[at] = choose.randrange(256)
        elif change == "cut":
            del data[at : at + choose.choice((1, 8, len(data)))]
        elif change == "double":
            data[at:at] = data[at : at + 64]
        else:
            data[at:at] = b"[" * choose.choice((1, 40, 50_000))
    (folder / "manifest.json").write_bytes(data)


def _index(folder: Path, choose: random.Random) -> None:
    path = folder / "memory/index"
    data = bytearray(path.read_bytes())
    try:
        index = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        index = None
    name = choose.choice(("table", "pre", "post"))
    if isinstance(index, dict) and isinstance(index.get(name), bytes) and choose.random() < 0.7:
        column = bytearray(index[name])
        before = bytes(column)
        if len(column) >= 4:
            at = choose.randrange(len(column) // 4) * 4
            struct.pack_into("<I", column, at, choose.choice(NUMBERS))
        data = data.replace(before, column) if before else data
    elif data:
        data[choose.randrange(len(data))] = choose.randrange(256)
    _tie(folder, path, bytes(data), "index")


def _chunks(folder: Path, choose: random.Random) -> None:
    path = folder / "memory/chunks"
    data = bytearray(path.read_bytes())
    at = choose.randrange(min(40, len(data))) if choose.random() < 0.5 else choose.randrange(len(data))
    data[at] = choose.randrange(256)
    _tie(folder, path, bytes(data), "chunks")


def _checks(folder: Path, choose: random.Random) -> None:
    path = choose.choice(sorted((*folder.glob("checks*.json"), *folder.glob("write_set-*"))))
    data = bytearray(path.read_bytes())
    data[choose.randrange(len(data))] = choose.randrange(256)
    path.write_bytes(data)


def _tie(folder: Path, path: Path, data: bytes, name: str) -> None:
    """Write the file and set its entry in the manifest right, if there still is one."""
    path.write_bytes(data)
    try:
        document = json.loads((folder / "manifest.json").read_bytes())
        document["memory"][name].update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return
    (folder / "manifest.json").write_bytes(json.dumps(document).encode())
