"""Contents that would take more memory than is allowed are left out, and what needs them is unproven."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kerncap.sanitizer import engine
from kerncap.sanitizer.analysis import Options
from kerncap.sanitizer.findings import LaunchReport, Proved, Unproven
from kerncap.sanitizer.launch import Bytes, Launch, NoContents, ScalarArgument, Storage, TensorArgument
from kerncap.sanitizer.limited_contents import LimitedContents

TTIR = """
module {
  tt.func public @kernel(%index: !tt.ptr<i32>, %out: !tt.ptr<f32>, %n: i32) {
    %pid = tt.get_program_id x : i32
    %at = tt.addptr %index, %pid : !tt.ptr<i32>, i32
    %i = tt.load %at : !tt.ptr<i32>
    %place = tt.addptr %out, %i : !tt.ptr<f32>, i32
    %one = arith.constant 1.000000e+00 : f32
    tt.store %place, %one : !tt.ptr<f32>
    tt.return
  }
}
"""


class Held(NoContents):
    """Zeros, of which ``held`` bytes are backed."""

    def __init__(self, size: int, held: int | None) -> None:
        self._size, self._held = size, held
        self.reads = 0

    def held(self, storage: int) -> int | None:
        return self._held

    def read(self, storage: int) -> Bytes | None:
        self.reads += 1
        return np.zeros(self._size, np.uint8)


def launch(contents: Held, size: int) -> Launch:
    storages = (Storage(1 << 32, size, 1 << 32, size, "index"), Storage(2 << 32, 64, 2 << 32, 64, "out"))
    arguments = (
        TensorArgument("index", 0, 1 << 32, "int32", 4, (size // 4,), (1,)),
        TensorArgument("out", 1, 2 << 32, "float32", 4, (16,), (1,)),
        ScalarArgument("n", 4),
    )
    return Launch("kernel", TTIR, (1, 1, 1), arguments, storages, contents)


def sanitized(held: int | None, limit: int, size: int = 1 << 20) -> tuple[LaunchReport, Held]:
    contents = Held(size, held)
    return engine.sanitize(launch(contents, size), Options(max_memory_bytes=limit)), contents


def bounds_of_the_store(report: LaunchReport) -> object:
    [found] = [one.verdict for one in report.settled if one.check == "oob" and one.access == "store"]
    return found


@pytest.mark.parametrize("held", [1 << 20, None])
def test_what_does_not_fit_is_not_read_and_said(held: int | None) -> None:
    report, contents = sanitized(held, limit=1 << 20)
    assert isinstance(bounds_of_the_store(report), Unproven)
    assert contents.reads == 0
    needed = "contents of index were not read: that needs 2.0 MiB, and --max-memory is 1.0 MiB"
    assert needed in report.notes


def test_only_what_is_backed_counts() -> None:
    report, _ = sanitized(4096, limit=1 << 20)
    assert isinstance(bounds_of_the_store(report), Proved)
    assert not report.notes


def test_storages_count_together() -> None:
    two = launch(Held(400, 400), 400)
    two = replace(two, storages=(two.storages[0], replace(two.storages[1], size_bytes=400)))
    limited = LimitedContents(two, 1000)
    assert limited.read(0) is not None
    assert limited.read(1) is None
    assert limited.read(0) is not None
    assert limited.needed_bytes == 1600
