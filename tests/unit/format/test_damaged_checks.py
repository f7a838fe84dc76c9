"""The rules of `checks.json` and of the write set."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerncap.format import Checks, Reproducer, SelfCheck, WriteSet
from tests.unit.format.damage import damaged, edit_manifest, put


def test_checks_of_another_manifest_are_ignored_with_a_note(folder: Path) -> None:
    edit_manifest(folder, put("created")("2027-01-01T00:00:00Z"))
    with Reproducer.open(folder) as reproducer:
        assert reproducer.checks() is None
        assert WriteSet.load(reproducer) is None
        assert reproducer.notes == ["checks.json belongs to another manifest and is ignored"]


def rewrite_set(folder: Path, edit: Callable[[Any], None]) -> str:
    """Change the write set's map and tie it in again; gives its file name."""
    with Reproducer.open(folder) as reproducer:
        checks = reproducer.checks()
        assert checks is not None and checks.write_set is not None
        old = folder / checks.write_set.path
        content = msgspec.msgpack.decode(old.read_bytes())
        edit(content)
        data = msgspec.msgpack.encode(content)
        old.write_bytes(data)
        stored = msgspec.structs.replace(
            checks.write_set, size=len(data), sha256=hashlib.sha256(data).hexdigest()
        )
        reproducer.write_checks(msgspec.structs.replace(checks, write_set=stored))
        return old.name


def set_region(field: int, value: Any) -> Callable[[Any], None]:
    def edit(content: Any) -> None:
        content["regions"][0][field] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda c: c.update(version=3), "write set version 3 is not known"),
        (lambda c: c.update(manifest_sha256="0" * 64), "belongs to another manifest"),
        (lambda c: c["regions"].append(c["regions"][0]), "region 2 is not in the manifest, or there twice"),
        (set_region(0, 4), "region 4 is not in the manifest"),
        (set_region(1, 2**40), "region 2 has 4096 bytes, not 1099511627776"),
        (set_region(3, []), "0 pieces do not fit 4096 bytes"),
        (set_region(4, [b"", b""]), "2 pieces do not fit 4096 bytes"),
        (set_region(3, [b"none"]), "damaged mask: not a zstd frame"),
        (set_region(2, [b""]), "damaged mask: a byte is also input but not written"),
        (lambda c: c["regions"][0].__setitem__(4, c["regions"][0][2]), "a byte is untouched and written"),
        (lambda c: c.pop("regions"), "not a write set"),
    ],
)
def test_a_rule_of_the_write_set(folder: Path, edit: Callable[[Any], None], message: str) -> None:
    damaged(folder, rewrite_set(folder, edit), message)


def test_write_set_under_another_name(folder: Path) -> None:
    with Reproducer.open(folder) as reproducer:
        checks = reproducer.checks()
        assert checks is not None and checks.write_set is not None
        stored = msgspec.structs.replace(checks.write_set, path="../write_set.bin")
        reproducer.write_checks(msgspec.structs.replace(checks, write_set=stored))
    damaged(folder, "checks.json", "expected write_set-<16 hex>.bin")


def test_checks_cannot_be_written_for_another_manifest(folder: Path) -> None:
    with Reproducer.open(folder) as reproducer, pytest.raises(ValueError, match="another manifest"):
        reproducer.write_checks(Checks(manifest_sha256="0" * 64, self_check=SelfCheck(result="pass")))
