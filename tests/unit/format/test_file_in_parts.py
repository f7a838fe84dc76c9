"""A file that several threads write is what one would have written, mapped or not."""

from __future__ import annotations

import errno
import os
import resource
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kerncap.format import file_in_parts
from kerncap.format.file_in_parts import FileInParts
from kerncap.scratch import SHARED_MEMORY

PAGE = 4096


@pytest.fixture(params=["memory", "disk"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where files are mapped from the first byte on, in windows of two pages; and one where not."""
    monkeypatch.setattr(file_in_parts, "_MAPPED_FROM", 0)
    monkeypatch.setattr(file_in_parts, "_WINDOW", 2 * PAGE)
    if request.param == "disk":
        monkeypatch.setattr(file_in_parts, "SHARED_MEMORY", tmp_path / "absent")
        return tmp_path
    return SHARED_MEMORY


def test_parts_lie_where_they_belong(place: Path) -> None:
    """Short parts, parts over several windows, in any order, with a hole between them."""
    expected = bytearray(40 * PAGE + 5)
    writes = []
    for number, at in enumerate(range(0, 40 * PAGE, 5 * PAGE)):
        parts = [bytes([number + 1]) * size for size in (3, 2 * PAGE, PAGE + 1)]
        writes.append((at + 1, parts))
        expected[at + 1 : at + 1 + sum(map(len, parts))] = b"".join(parts)
    with tempfile.TemporaryFile(dir=place) as made:
        file = FileInParts(made.fileno())
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda one: file.write(*one), reversed(writes)))
        file.finish(len(expected))
        assert os.pread(made.fileno(), len(expected) + 1, 0) == expected


def test_no_room_is_an_error_and_not_a_signal(place: Path) -> None:
    """A limit on the size of files stands for the full disk."""
    with tempfile.TemporaryFile(dir=place) as made:
        file = FileInParts(made.fileno())
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 * PAGE, hard))
        try:
            file.write(0, [bytes(PAGE)])
            with pytest.raises(OSError, match="File too large") as caught:
                file.write(PAGE, [b"x" * 4 * PAGE])
            assert caught.value.errno == errno.EFBIG
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
