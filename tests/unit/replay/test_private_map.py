"""Staged files as memory: theirs stays as it is, and no descriptor is held."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncap.replay.worker.common.private_map import private_map, private_state

SIZES = [1, 4096, 64 * 1024, 64 * 1024 + 1, 3 << 20]


@pytest.mark.parametrize("size", SIZES)
def test_it_is_written_and_the_file_is_not(tmp_path: Path, size: int) -> None:
    data = np.arange(size + 3, dtype=np.uint32).astype(np.uint8).tobytes()
    (tmp_path / "file").write_bytes(data)
    before = len(os.listdir("/proc/self/fd"))
    held = [private_map([tmp_path / "file"], size) for _ in range(5)]
    assert len(os.listdir("/proc/self/fd")) == before
    array = np.frombuffer(held[0], np.uint8)
    assert array.tobytes() == data[:size]
    array[:] = 0
    assert (tmp_path / "file").read_bytes() == data and bytes(held[1]) == data[:size]


def mappings(path: Path) -> int:
    return Path("/proc/self/maps").read_text().count(str(path))


def test_what_nobody_holds_is_no_mapping(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1 << 20))
    array = np.frombuffer(private_map([path], 1 << 20), np.uint8)
    assert mappings(path) == 1
    del array
    assert mappings(path) == 0


def test_a_shorter_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"ab")
    with pytest.raises(OSError, match="ends before byte 3"):
        private_map([tmp_path / "file"], 3)


@pytest.mark.parametrize("page", [100, mmap.PAGESIZE])
def test_a_state_is_its_files_and_what_changed_in_them(tmp_path: Path, page: int) -> None:
    """Of small regions, which are read, and of others, which are mapped: ranges in one file and over both."""
    size, first = 40 * page - 3, 24 * page
    pre, post = (np.random.default_rng(seed).integers(0, 256, size, np.uint8) for seed in (1, 2))
    for name, data in (("pre", pre), ("post", post)):
        (tmp_path / f"{name}.0").write_bytes(data[:first].tobytes())
        (tmp_path / f"{name}.1").write_bytes(data[first:].tobytes())
        (tmp_path / f"{name}.2").write_bytes(b"")
    changed = [[0, 2 * page], [20 * page, 30 * page], [39 * page, size]]
    files = {name: [f"{name}.{number}" for number in range(3)] for name in ("pre", "post")}
    region: Any = {"size": size, **files, "changed": changed}
    expected = pre.copy()
    for start, stop in changed:
        expected[start:stop] = post[start:stop]
    assert (np.frombuffer(private_state(tmp_path, region, "pre"), np.uint8) == pre).all()
    assert (np.frombuffer(private_state(tmp_path, region, "post"), np.uint8) == expected).all()
