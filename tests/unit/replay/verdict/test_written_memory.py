"""What a launch writes, must write, and must leave alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kerncap.format import schema
from tests.parameters import first_of
from tests.unit.replay import build
from tests.unit.replay.build import Launch
from tests.unit.replay.resident import Resident, resident
from tests.unit.replay.verdict.replayed import SCALE, run, scale

pytest.importorskip("triton")
pytest.importorskip("torch")


@pytest.mark.long
def test_in_place_scale_is_applied_once(tmp_path: Path) -> None:
    with resident(scale(), tmp_path) as launch:
        first, second = launch.judge(), launch.judge()
        assert first.passed and second.passed
        assert first.poisoned_bytes == 0  # what is read can't be poisoned
        assert not launch.judge(SCALE.replace("* s,", "* s * s,")).passed
        assert not launch.judge(SCALE.replace("* s,", ",")).passed


HISTOGRAM = """
@triton.jit
def histogram(x_ptr, bins_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.atomic_add(bins_ptr + x, 1, mask=i < n)
"""


@pytest.mark.long
def test_histogram_is_not_doubled(tmp_path: Path) -> None:
    x = np.random.default_rng(2).integers(0, 16, 500).astype(np.int32)
    before = np.arange(16, dtype=np.int32)
    launch = Launch(HISTOGRAM, "histogram", grid=(4, 1, 1))
    launch.tensor("x_ptr", x).tensor(
        "bins_ptr", before, before + np.bincount(x, minlength=16).astype(np.int32)
    )
    with resident(launch.argument("n", 500).constexpr("BLOCK", 128), tmp_path) as opened:
        assert opened.judge().passed
        assert opened.judge().passed
        assert not opened.judge(HISTOGRAM.replace("x, 1,", "x, 2,")).passed


NOTHING = """
@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pass
"""


@pytest.mark.long
def test_a_candidate_that_does_nothing_fails(adder: Resident) -> None:
    verdict = adder.judge(NOTHING)
    assert not verdict.passed
    assert verdict.reasons[0] == "4,000 bytes of out_ptr were never written (first at out_ptr[0])"


@pytest.mark.long
def test_after_a_second_launch_into_the_same_output_doing_nothing_still_fails(tmp_path: Path) -> None:
    launch = build.add()
    base, _, after = launch.regions[2]
    launch.regions[2] = (base, after, after)  # nothing changes: the output held the result already
    with resident(launch, tmp_path) as opened:
        line = "Result: PASS (12,000 bytes identical, 4,000 written bytes poisoned)"
        assert opened.judge().line == line
        assert not opened.judge(NOTHING).passed


def test_work_that_is_skipped_is_named(adder: Resident) -> None:
    verdict = adder.judge(build.ADD.replace("mask = i < n", "mask = (i < n) & (i != 300)"))
    assert verdict.reasons[0] == "4 bytes of out_ptr were never written (first at out_ptr[300])"


def test_a_write_out_of_bounds_is_detected(adder: Resident) -> None:
    verdict = adder.judge(build.ADD.replace("mask=mask)\n", "mask=i < n + 3)\n"))
    assert not verdict.passed
    assert "outside every captured region" in verdict.reasons[0]
    assert "0 bytes past the end of region 2, which holds out_ptr" in verdict.reasons[0]


@pytest.mark.long
def test_a_write_beside_the_view_is_outside_the_write_set(tmp_path: Path) -> None:
    x = np.ones(64, dtype=np.float32)
    launch = Launch(build.ADD, "add")
    launch.tensor("x_ptr", x).tensor("y_ptr", x)
    pre, post = np.zeros(128, np.float32), np.zeros(128, np.float32)
    post[:64] = 2
    region = launch.region(pre, post)
    launch.argument("out_ptr", schema.TensorValue(view=launch.view("out_ptr", region, "float32", (64,))))
    with resident(launch.argument("n", 64).constexpr("BLOCK", 128), tmp_path) as opened:
        assert opened.judge().line == "Result: PASS (1,024 bytes identical, 256 written bytes poisoned)"
        store = "tl.load(y_ptr + i, mask=mask), mask=mask"
        for value in ("1.0", "tl.where(i < n, 2.0, 0.0)"):  # zero lay there before
            verdict = opened.judge(build.ADD.replace(store, f"{value}, mask=i < n + 2"))
            assert "8 bytes outside the write set were changed" in verdict.reasons[0]
            assert "0 bytes past the end of out_ptr" in verdict.reasons[0]


HALVES = """
@triton.jit
def halves(src_ptr, dst_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(dst_ptr + i, tl.load(src_ptr + i, mask=i < n) + 1, mask=i < n)
"""


@first_of("overlapping", [False, True])
def test_input_and_output_share_one_buffer(tmp_path: Path, overlapping: bool) -> None:
    pre = np.arange(256, dtype=np.float32)
    post = pre.copy()
    post[128:] = pre[:128] + 1
    launch = Launch(HALVES, "halves")
    region = launch.region(pre, post)
    # Overlapping: the input's view spans the whole buffer, as a tensor passed with its storage does.
    source = launch.view("src_ptr", region, "float32", (256,) if overlapping else (128,))
    target = launch.view("dst_ptr", region, "float32", (128,), offset=512)
    launch.argument("src_ptr", schema.TensorValue(view=source)).argument(
        "dst_ptr", schema.TensorValue(view=target)
    )
    with resident(launch.argument("n", 128).constexpr("BLOCK", 128), tmp_path) as opened:
        line = "Result: PASS (1,024 bytes identical, 512 written bytes poisoned)"
        assert opened.judge().line == line
        nothing = "@triton.jit\ndef halves(src_ptr, dst_ptr, n, BLOCK: tl.constexpr):\n    pass\n"
        assert not opened.judge(nothing).passed


STRIDED = """
@triton.jit
def every_other(x_ptr, out_ptr, n, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i * STRIDE, tl.load(x_ptr + i, mask=i < n), mask=i < n)
"""


def test_gaps_of_a_strided_output_stay_untouched(tmp_path: Path) -> None:
    x = np.arange(100, dtype=np.float32)
    pre = np.full(200, 5, np.float32)
    post = pre.copy()
    post[::2] = x
    launch = Launch(STRIDED, "every_other").tensor("x_ptr", x)
    region = launch.region(pre, post)
    view = launch.view("out_ptr", region, "float32", (100,), strides=(2,))
    launch.argument("out_ptr", schema.TensorValue(view=view)).argument("n", 100)
    with resident(launch.constexpr("STRIDE", 2).constexpr("BLOCK", 128), tmp_path) as opened:
        verdict = opened.judge()
        assert verdict.passed and verdict.poisoned_bytes == 400
        for value in ("6.0", "5.0"):  # 5.0 lay there before
            dense = f"{STRIDED}    tl.store(out_ptr + i * STRIDE + 1, {value}, mask=i < 1)\n"
            assert "4 bytes outside the write set were changed" in opened.judge(dense).reasons[0]


UNUSED = """
@triton.jit
def use_one(x_ptr, spare_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i) * 2)
"""


@pytest.mark.long
def test_an_argument_that_is_not_used_stays_untouched(tmp_path: Path) -> None:
    x, spare = np.arange(64, dtype=np.float32), np.full(64, 3, np.float32)
    launch = Launch(UNUSED, "use_one").tensor("x_ptr", x).tensor("spare_ptr", spare)
    launch.tensor("out_ptr", np.zeros(64, np.float32), x * 2).constexpr("BLOCK", 64)
    with resident(launch, tmp_path) as opened:
        assert opened.judge().line == "Result: PASS (768 bytes identical, 256 written bytes poisoned)"
        written = opened.judge(UNUSED + "    tl.store(spare_ptr + i, 3.0)\n")  # 3.0 lay there before
        assert written.reasons == ["256 bytes outside the write set were changed (first at spare_ptr[0])"]
        read = opened.judge(UNUSED.replace("* 2)", "* 2 + tl.load(spare_ptr + i) - 3.0)"))
        assert not read.passed


MAXIMUM = """
@triton.jit
def maximum(x_ptr, best_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(best_ptr + i, x, mask=x > tl.load(best_ptr + i))
"""


def test_an_update_that_depends_on_old_contents_keeps_them(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    x, best = (random.standard_normal(128).astype(np.float32) for _ in range(2))
    launch = Launch(MAXIMUM, "maximum").tensor("x_ptr", x).tensor("best_ptr", best, np.maximum(x, best))
    result = run(launch.constexpr("BLOCK", 128).seal(tmp_path))
    assert result.passed and result.verdict.poisoned_bytes == 0


GATHER = """
@triton.jit
def gather(index_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + tl.load(index_ptr + i)))
"""


@pytest.mark.long
def test_poisoned_indices_crash_the_run_and_not_the_measurement(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    index = random.integers(0, 300, 128).astype(np.int64)
    x = random.standard_normal(300).astype(np.float32)
    launch = Launch(GATHER, "gather").tensor("index_ptr", index).tensor("x_ptr", x)
    path = (
        launch.tensor("out_ptr", np.zeros(128, np.float32), x[index]).constexpr("BLOCK", 128).seal(tmp_path)
    )
    result = run(path)
    assert result.passed and result.verdict.poisoned_bytes == 512


TABLE = """
@triton.jit
def through_table(table_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + tl.program_id(0) * BLOCK + i, tl.load(row + i) * 2)
"""


def table(base: int | None = None) -> Launch:
    rows = [np.arange(64, dtype=np.float32) + k for k in (0, 1000)]
    launch = Launch(TABLE, "through_table", grid=(2, 1, 1))
    addresses = np.array([build.BASE + (2 + k) * build.SPACING for k in range(2)], np.int64)
    launch.tensor("table_ptr", addresses)
    launch.tensor("out_ptr", np.zeros(128, np.float32), np.concatenate(rows) * 2, base=base)
    for row in rows:
        launch.region(row)
    return launch.constexpr("BLOCK", 64)


@pytest.mark.long
def test_pointers_in_memory_stay_valid(tmp_path: Path) -> None:
    assert run(table().seal(tmp_path)).verdict.line.startswith("Result: PASS (1,040 bytes identical")


@pytest.mark.long
def test_a_taken_address_is_relocated_and_said(tmp_path: Path) -> None:
    unmappable = 0x0800_0000_0000_0000  # no program has memory there
    result = run(table(base=unmappable).seal(tmp_path))
    assert result.passed and result.relocated == [1]
    assert any(note.startswith("relocated: the captured address of region 1") for note in result.notes)


@pytest.mark.long
def test_a_kernel_that_writes_nothing_has_nothing_to_compare(tmp_path: Path) -> None:
    launch = build.add(source=NOTHING)
    base, before, _ = launch.regions[2]
    launch.regions[2] = (base, before, before)
    line = run(launch.seal(tmp_path)).verdict.line
    assert line.startswith("Result: UNDECIDED (nothing to compare: the launch writes nothing")
