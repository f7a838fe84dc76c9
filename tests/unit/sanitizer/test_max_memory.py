"""Contents that would take more memory than is allowed are left out, and what needs them is unproven."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from kerncap.sanitizer import engine
from kerncap.sanitizer.checks.concrete_tier import settle
from kerncap.sanitizer.findings import LaunchReport, Proved, Unproven
from kerncap.sanitizer.launch import Launch, NoContents, ScalarArgument, Storage, TensorArgument
from kerncap.sanitizer.live.carried_out import CarryOutError, carry_out
from kerncap.sanitizer.max_memory import LimitedContents
from kerncap.sanitizer.options import Options
from kerncap.sanitizer.paged_bytes import PAGE, Bytes, NotReadable, PagedBytes, Run
from tests.unit.sanitizer.compiled import analysis_of

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
    """Zeros; ``brought`` counts their bytes as they are fetched."""

    def __init__(self, size: int) -> None:
        self.brought = 0
        self._contents = PagedBytes.fetched(size, self._fetch)

    def _fetch(self, runs: Sequence[Run], data: Bytes) -> None:
        self.brought += sum(end - start for start, end in runs)

    def read(self, storage: int) -> PagedBytes:
        return self._contents


def launch(contents: Held, size: int) -> Launch:
    storages = (Storage(1 << 32, size, 1 << 32, size, "index"), Storage(2 << 32, 64, 2 << 32, 64, "out"))
    arguments = (
        TensorArgument("index", 0, 1 << 32, "int32", 4, (size // 4,), (1,)),
        TensorArgument("out", 1, 2 << 32, "float32", 4, (16,), (1,)),
        ScalarArgument("n", 4),
    )
    return Launch("kernel", TTIR, (1, 1, 1), arguments, storages, contents)


def sanitized(limit: int, size: int = 1 << 20) -> tuple[LaunchReport, Held]:
    contents = Held(size)
    return engine.sanitize(launch(contents, size), Options(max_memory_bytes=limit)), contents


def bounds_of_the_store(report: LaunchReport) -> object:
    [found] = [one.verdict for one in report.settled if one.check == "oob" and one.access == "store"]
    return found


def test_what_does_not_fit_is_not_read_and_said() -> None:
    report, contents = sanitized(limit=1 << 20)
    assert isinstance(bounds_of_the_store(report), Unproven)
    assert contents.brought == 0
    needed = "contents of index were not all read: that needs at least 2.0 MiB, and --max-memory is 1.0 MiB"
    assert needed in report.notes
    assert report.needs_bytes == 2 * ((1 << 20) + 64)
    assert not sanitized(limit=report.needs_bytes)[0].notes


def test_only_pages_that_are_touched_count() -> None:
    report, contents = sanitized(limit=1 << 20, size=1 << 33)
    assert isinstance(bounds_of_the_store(report), Proved)
    assert contents.brought == PAGE and not report.notes and not report.needs_bytes


def test_a_launch_is_carried_out_within_the_limit() -> None:
    contents = Held(400)
    two = launch(contents, 400)
    two = replace(two, storages=(two.storages[0], replace(two.storages[1], size_bytes=400)))
    with pytest.raises(CarryOutError, match="needs at least 1.6 KiB, and --max-memory is 1000 B") as raised:
        carry_out(two, Options(max_memory_bytes=1000))
    assert (raised.value.lost, raised.value.needs_bytes) == ({1}, 1600)
    [(offset, data)] = carry_out(two, Options(max_memory_bytes=raised.value.needs_bytes))[1]
    assert (offset, data.tobytes()) == (2, b"\x80\x3f")  # 1.0, in the bytes that are not zero


def test_how_far_an_evaluation_is() -> None:
    said: list[tuple[str, int, int]] = []

    def progress(what: str) -> Callable[[int, int], None]:
        return lambda done, total: said.append((what, done, total))

    size = 1 << 18
    two = replace(launch(Held(size), size), grid=(size // 4, 1, 1))
    two = replace(two, storages=(two.storages[0], replace(two.storages[1], size_bytes=size)))
    carry_out(two, Options(progress=progress))
    assert said[0] == ("kernel: carried out", 1 << 14, size // 4)
    assert said[-1] == ("kernel: carried out", size // 4, size // 4)
    analysis = replace(analysis_of(two), options=Options(progress=progress))
    settle(analysis, [(one, "oob") for one in engine.memory_operations(analysis.module)])
    assert said[-1] == ("kernel: evaluated", size // 4, size // 4)


def test_storages_count_together() -> None:
    two = launch(Held(400), 400)
    two = replace(two, storages=(two.storages[0], replace(two.storages[1], size_bytes=400)))
    limited = LimitedContents(two, 1000)
    first, second = limited.read(0), limited.read(1)
    assert first is not None and second is not None
    first.need_range(0, 4)
    with pytest.raises(NotReadable):
        second.need_range(0, 4)
    first.need_range(0, 400)
    assert (
        limited.told is not None and "of out were not all read: that needs at least 1.6 KiB" in limited.told
    )
