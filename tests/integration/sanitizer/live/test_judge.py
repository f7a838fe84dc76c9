"""What makes two launches the same, as far as their analysis goes."""

from __future__ import annotations

import dataclasses
import tracemalloc
from collections.abc import Sequence

import numpy as np

from kerncap.sanitizer.findings import LaunchReport
from kerncap.sanitizer.launch import Launch, ScalarArgument, Storage, TensorArgument
from kerncap.sanitizer.live.carried_out import changed_stretches
from kerncap.sanitizer.live.judged_once import Judge
from kerncap.sanitizer.options import Options
from kerncap.sanitizer.paged_bytes import Bytes, Run
from kerncap.sanitizer.sources.fetched_contents import FetchedContents

BASE = 1 << 20


def launch(data: bytes, base: int = BASE, grid: int = 2, n: int = 4, pattern: bytes | None = None) -> Launch:
    def fetch(storage: int, runs: Sequence[Run], into: Bytes) -> bool:
        for start, end in runs:
            into[start:end] = np.frombuffer(data[start:end], np.uint8)
        return True

    return Launch(
        kernel="k",
        ttir="module {}",
        grid=(grid, 1, 1),
        arguments=(
            TensorArgument("x", 0, base, "float32", 4, (len(data) // 4,), (1,)),
            ScalarArgument("n", n),
        ),
        storages=(Storage(base, len(data), base, len(data), "x"),),
        contents=FetchedContents(fetch, [len(data)], [pattern], lambda storage: [(0, len(data))]),
    )


def looking(what: str) -> Judge:
    def engine(one: Launch, options: Options) -> LaunchReport:
        if what == "bytes":
            contents = one.contents.read(0)
            assert contents is not None
            contents.whole()
        elif what == "written":
            one.contents.unwritten(0)
        return LaunchReport(one.kernel, one.grid, ())

    return Judge(engine=engine)


def repeats(judge: Judge, *launches: Launch) -> list[int]:
    for one in launches:
        judge.judge_launch(one)
    return [report.repeats for report in judge.reports]


def test_contents_that_were_not_looked_at_do_not_count() -> None:
    assert repeats(looking("nothing"), launch(b"a" * 16), launch(b"b" * 16)) == [1]


def test_contents_that_were_looked_at_do() -> None:
    assert repeats(looking("bytes"), launch(b"a" * 16), launch(b"b" * 16), launch(b"a" * 16)) == [1, 0]


def test_what_was_written_counts_and_not_what() -> None:
    fresh, partly = b"12345678" * 2, b"12345678" + b"a" * 8
    made = [launch(data, pattern=b"12345678") for data in (fresh, partly, b"12345678" + b"b" * 8)]
    assert repeats(looking("written"), *made) == [0, 1]


def test_an_equal_alignment_elsewhere_is_the_same() -> None:
    assert repeats(looking("nothing"), launch(b"a" * 16), launch(b"a" * 16, BASE + 8192)) == [1]
    assert repeats(looking("nothing"), launch(b"a" * 16), launch(b"a" * 16, BASE + 4)) == [0, 0]


def test_a_kernel_may_see_addresses() -> None:
    def twice(ttir: str, step: int) -> list[int]:
        made = [dataclasses.replace(launch(b"a" * 16, BASE + at), ttir=ttir) for at in (0, step)]
        return repeats(looking("nothing"), *made)

    assert twice("%1 = tt.int_to_ptr %0 : i64 -> !tt.ptr<f32>", 8192) == [0, 0]
    assert twice("{tt.divisibility = dense<4096> : tensor<1xi32>}", 4096) == [1]
    assert twice("{tt.divisibility = dense<4096> : tensor<1xi32>}", 2048) == [0, 0]
    assert twice("{tt.divisibility = 16 : i32}", 2048) == [1]


def test_everything_else_counts() -> None:
    first = launch(b"a" * 16)
    others = [
        launch(b"a" * 16, grid=3),
        launch(b"a" * 16, n=5),
        launch(b"a" * 20),
        dataclasses.replace(first, ttir="module { }"),
        dataclasses.replace(first, arguments=(first.arguments[0], ScalarArgument("n", 4.0))),
        dataclasses.replace(first, storages=(dataclasses.replace(first.storages[0], allocation_bytes=512),)),
    ]
    assert repeats(looking("nothing"), first, *others) == [0] * 7


def test_stretches_that_changed() -> None:
    before = np.zeros(10_000, np.uint8)
    after = before.copy()
    assert list(changed_stretches(before, after)) == []
    after[[5, 4095, 4096, 9_999]] = 1
    assert list(changed_stretches(before, after)) == [(5, 4097), (9_999, 10_000)]


def test_a_stretch_that_changed_takes_less_memory_than_its_copies() -> None:
    size = 32 << 20
    before, after = np.zeros(size, np.uint8), np.ones(size, np.uint8)
    tracemalloc.start()
    try:
        assert list(changed_stretches(before, after)) == [(0, size)]
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()
