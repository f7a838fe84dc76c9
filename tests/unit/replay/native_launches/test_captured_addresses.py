"""Memory of native launches at its captured address, or elsewhere with all that points to it."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from kerncap.api.replay import ReplayResult
from kerncap.format import schema

from .. import native
from ..native import BASE, SPACING, Native, run


def sum_of_rows() -> Native:
    """A launch with a table of pointers in memory."""
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    launch = Native("_Z11sum_of_rowsPKPKfPfii")
    table = launch.region(np.array([BASE + (k + 1) * SPACING for k in range(3)], dtype=np.uint64))
    for row in rows:
        launch.region(row)
    launch.pointer(table, "uint64", 3)
    launch.array(np.zeros(3, dtype=np.float32), rows.sum(axis=1)).integer(3).integer(4)
    return launch


def test_pointers_in_memory_stay_valid(tmp_path: Path) -> None:
    assert run(sum_of_rows().seal(tmp_path)).verdict.exact


def test_a_taken_address_is_relocated_with_all_that_points_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNCAP_RIG_TAKEN", f"{BASE + 2 * SPACING:#x}:0x1000,{BASE + 4 * SPACING:#x}:0x1000")
    result = run(sum_of_rows().seal(tmp_path))
    assert result.verdict.exact
    assert result.relocated == [2, 4]
    assert any("2 words that point there were changed" in note for note in result.notes)


def test_variables_alone_take_part(tmp_path: Path) -> None:
    launch = Native("_Z4tickv")
    launch.region(np.array([40], np.int32), np.array([42], np.int32), kind="global", name="total")
    launch.region(np.array([2], np.int32), kind="global", name="step")
    result = run(launch.seal(tmp_path), timed_runs=20)
    assert result.verdict.exact
    assert result.relocated == []  # nothing points to them: where they lie does not matter


def test_a_pointer_to_a_variable_follows_it(tmp_path: Path) -> None:
    at = BASE + 5 * SPACING
    launch = Native("follow")
    cell = launch.region(np.array([at], np.uint64), np.array([at + 4], np.uint64))
    launch.region(
        np.array([7, 7], np.int32), np.array([8, 7], np.int32), kind="global", name="counted", base=at
    )
    launch.pointer(cell, "uint64", 1)
    result = run(launch.seal(tmp_path), timed_runs=20)
    assert result.verdict.exact, result.verdict.reasons
    assert result.relocated == [1]
    assert any(note.startswith("relocated: ") for note in result.notes)


def test_a_variable_that_points_to_memory(tmp_path: Path) -> None:
    data = np.arange(8, dtype=np.float32)
    launch = Native("_Z14through_globalPfi")
    source = launch.region(data)
    launch.region(np.array([launch.base(source)], np.uint64), kind="global", name="table")
    launch.array(np.zeros(8, np.float32), 2 * data).integer(8)
    assert run(launch.seal(tmp_path)).verdict.exact


@pytest.mark.parametrize("base", [0x5F00_0000_1000, 1 << 62])
def test_host_memory_lies_at_its_address_if_it_can(tmp_path: Path, base: int) -> None:
    """No process has addresses such as the second."""
    launch = native.add()
    region, before, after = launch.regions[1]
    launch.regions[1] = schema.Region(base=base, size=region.size, kind="host", device=-1), before, after
    launch.parameters[1] = struct.pack("<Q", base)
    result = run(launch.seal(tmp_path))
    assert result.verdict.exact
    relocated = base == 1 << 62
    assert result.relocated == [1] * relocated
    said = any("1 words that point there were changed" in note for note in result.notes)
    assert said or not relocated


def test_managed_memory_becomes_device_memory_and_says_so(tmp_path: Path) -> None:
    launch = native.add()
    region, before, after = launch.regions[2]
    launch.regions[2] = schema.Region(base=region.base, size=region.size, kind="managed"), before, after
    result = run(launch.seal(tmp_path))
    assert result.verdict.exact
    assert "region 2 was managed memory and is plain device memory here" in result.notes


def test_regions_of_one_slab(tmp_path: Path) -> None:
    a = np.arange(100, dtype=np.float32)
    launch = Native("_Z10vector_addPKfS0_Pfi", block=(128, 1, 1))
    launch.array(a, base=BASE).array(a, base=BASE + 512)
    launch.array(np.zeros(100, np.float32), 2 * a, base=BASE + 1024).integer(100)
    assert run(launch.seal(tmp_path)).verdict.exact


def run_of_device(device: int, folder: Path) -> ReplayResult:
    launch = native.add()
    region, before, after = launch.regions[0]
    other = schema.Region(base=region.base, size=region.size, kind="device", device=device)
    launch.regions[0] = other, before, after
    result = run(launch.seal(folder))
    assert result.verdict.exact
    return result


def test_memory_of_a_device_that_is_not_here(tmp_path: Path) -> None:
    result = run_of_device(3, tmp_path)
    assert any("region 0 was on CUDA device 3" in note for note in result.notes)


def test_memory_of_another_device_lies_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNCAP_RIG_DEVICES", "2")
    result = run_of_device(1, tmp_path)
    assert result.notes == []
