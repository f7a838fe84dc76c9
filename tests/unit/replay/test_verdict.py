"""What a replay must and must not pass: cases that a tool comparing replay with replay gets wrong."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncap.answer import Answer
from kerncap.api.replay import ReplayOptions, ReplayResult, replay
from kerncap.api.verify import VerifyOptions, verify
from kerncap.errors import ReplayError
from kerncap.exit_status import ExitStatus
from kerncap.format import schema
from kerncap.replay.outcome import CandidateError
from kerncap.replay.wording import Tolerance
from kerncap.replay.worker_process import Worker
from tests.parameters import first_of

from . import build
from .build import Launch
from .resident import Resident, candidate, resident

pytest.importorskip("triton")
pytest.importorskip("torch")


def run(path: Path, **options: Any) -> ReplayResult:
    return replay(path, ReplayOptions(**{"timeout_s": 20.0, **options}))


@pytest.fixture(scope="module")
def adder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resident]:
    with resident(build.add(), tmp_path_factory.mktemp("adder")) as opened:
        yield opened


def test_vector_add_is_identical(tmp_path: Path) -> None:
    result = run(build.add().seal(tmp_path))
    assert result.verdict.line == "Result: PASS (12,000 bytes identical, 4,000 written bytes poisoned)"


def test_a_wrong_oracle_fails_with_index_and_values(tmp_path: Path) -> None:
    launch = build.add()
    base, before, after = launch.regions[2]
    wrong = np.frombuffer(after, np.float32).copy()
    wrong[17] += 1
    launch.regions[2] = (base, before, wrong.tobytes())
    result = run(launch.seal(tmp_path))
    assert not result.passed
    assert "out_ptr: 1 of 1,000 elements differ, first at out_ptr[17]" in result.verdict.reasons[0]


SCALE = """
@triton.jit
def scale(x_ptr, s, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) * s, mask=i < n)
"""


def scale() -> Launch:
    x = np.arange(1, 513, dtype=np.float32)
    launch = Launch(SCALE, "scale", grid=(2, 1, 1)).tensor("x_ptr", x, x * 3)
    return launch.argument("s", 3.0).argument("n", 512).constexpr("BLOCK", 256)


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


def plus(error: str) -> str:
    """The vector add with an error on every element."""
    return build.ADD.replace("tl.load(y_ptr + i, mask=mask),", f"tl.load(y_ptr + i, mask=mask) + {error},")


def test_tolerance_is_honoured_for_a_candidate(adder: Resident) -> None:
    both_ways = "tl.where(i % 2 == 0, 3e-6, -3e-6)"
    assert adder.judge(plus(both_ways)).line.startswith("Result: PASS (within tolerance: max abs 3")
    assert not adder.judge(plus("3e-6"), Tolerance(rtol=0.0, atol=1e-7)).passed
    assert not adder.judge(plus("1e-2")).passed
    assert adder.judge(plus("1e-2"), Tolerance(atol=2e-2)).passed


def test_a_tolerance_is_not_there_to_be_used_up(adder: Resident) -> None:
    one_way = adder.judge(plus("3e-6"))
    assert (
        "1,000 of 1,000 elements are off in the same direction, by 0.26 of the tolerance" in one_way.summary
    )
    near = adder.judge(plus("tl.where(i % 2 == 0, 9e-6, -9e-6)"))
    assert "not rounding, but an error that uses up the tolerance" in near.summary
    assert adder.judge(plus("3e-6"), Tolerance(atol=1e-5)).passed, "what the user allows is allowed"


def test_of_values_below_the_tolerance_nothing_is_shown(tmp_path: Path) -> None:
    x, y = np.random.default_rng(3).standard_normal((2, 1000)).astype(np.float32) * np.float32(1e-7)
    launch = Launch(build.ADD, "add", grid=(4, 1, 1)).tensor("x_ptr", x).tensor("y_ptr", y)
    launch = launch.tensor("out_ptr", np.zeros_like(x), x + y).argument("n", 1000).constexpr("BLOCK", 256)
    with resident(launch, tmp_path) as tiny:
        nothing = tiny.judge(
            build.ADD.replace("tl.load(y_ptr + i, mask=mask),", "-tl.load(x_ptr + i, mask=mask),")
        )
        assert nothing.answer is Answer.UNDECIDED
        assert "errors of up to 4" in nothing.summary and "no value is larger than 4" in nothing.summary
        close = tiny.judge(build.ADD.replace("mask=mask),", "mask=mask) * 1.0000001,"))
        assert close.line.startswith("Result: PASS (within tolerance")
        zeros = build.ADD.replace("tl.load(x_ptr + i, mask=mask) +", "0.0 *")
        assert tiny.judge(zeros, Tolerance(atol=1e-5)).passed, "what the user allows is allowed"


def test_what_may_be_another_order_of_a_sum_is_told_what_else_judges_it(adder: Resident) -> None:
    verdict = adder.judge(plus("1.2e-5"))
    assert not verdict.passed
    [note] = verdict.notes
    assert "of the largest value near, as a sum in another order may be" in note
    assert "--stages smoke,numerics" in note and "--atol 1.3e-05" in note
    assert not adder.judge(plus("1e-3")).notes


def test_the_captured_kernel_gets_no_tolerance(tmp_path: Path) -> None:
    launch = build.add()
    base, before, after = launch.regions[2]
    near = np.frombuffer(after, np.float32) + np.float32(3e-6)
    launch.regions[2] = (base, before, near.astype(np.float32).tobytes())
    assert not run(launch.seal(tmp_path)).passed


def test_nan_is_no_wildcard(adder: Resident) -> None:
    verdict = adder.judge(plus("tl.where(i == 5, float('nan'), 0.0)"), Tolerance(1e30, 1e30))
    assert not verdict.passed
    assert "1 elements are NaN on one side only" in verdict.reasons[0]


def test_nan_where_the_application_got_nan_agrees(tmp_path: Path) -> None:
    launch = build.add()
    x = np.frombuffer(launch.regions[0][1], np.float32).copy()
    y = np.frombuffer(launch.regions[1][1], np.float32)
    x[3], x[4] = np.nan, np.inf
    for region, (pre, post) in {0: (x, x), 2: (np.zeros(1000, np.float32), x + y)}.items():
        launch.regions[region] = (launch.regions[region][0], pre.tobytes(), post.tobytes())
    with resident(launch, tmp_path) as opened:
        assert opened.judge().passed
        assert opened.judge(plus("1e-6")).passed


def test_an_endless_loop_is_a_timeout(adder: Resident) -> None:
    endless = build.ADD + "    while tl.load(x_ptr) == tl.load(x_ptr):\n        pass\n"
    line = adder.judge(endless, timeout_s=1.0).line
    why = "the kernel did not end within 1 s; a longer --timeout would decide it"
    assert line == f"Result: UNDECIDED ({why})"
    assert adder.judge(build.ADD).exact  # and the engine lives on


WILD = build.ADD + "    tl.store((tl.program_id(0) + 8).to(tl.int64).to(tl.pointer_type(tl.float32)), 1.0)\n"


def test_a_crash_is_reported(adder: Resident) -> None:
    assert adder.judge(WILD).line == "Result: FAIL (the kernel died with SIGSEGV)"
    assert adder.judge(build.ADD).exact


_WHY = "the worker was killed, probably for memory; a run with more memory would decide it"
KILLED = f"Result: UNDECIDED ({_WHY})"


def test_a_worker_that_the_system_kills_says_nothing_of_the_kernel(
    adder: Resident, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_imported = "import os\nimport signal\n\nos.kill(os.getpid(), signal.SIGKILL)\n"
    with pytest.raises(ReplayError, match="was killed, probably for memory") as lost:
        adder.judge(while_imported + build.ADD)
    assert lost.value.exit_status == ExitStatus.UNDECIDED
    while_launched = build.ADD + "    __import__('os').kill(__import__('os').getpid(), 9)\n"
    assert adder.judge(while_launched).line == KILLED
    assert adder.judge(build.ADD).exact
    monkeypatch.setattr(Worker, "alive", True)  # what nobody has noticed yet
    worker = adder.engine.connection._worker
    assert worker is not None
    os.kill(worker._process.pid, signal.SIGKILL)
    assert adder.engine.launch().status == "killed"
    monkeypatch.undo()
    assert adder.judge(build.ADD).exact


@pytest.mark.long
def test_a_captured_fault_is_reproduced(tmp_path: Path) -> None:
    launch = build.add(source=WILD)
    launch.oracle = schema.Oracle(kind="fault", error="SIGSEGV")
    path = launch.seal(tmp_path)
    assert run(path).verdict.line == "Result: PASS (fault reproduced: the kernel died with SIGSEGV)"
    assert not verify(path).passed
    fixed = candidate(tmp_path, build.ADD)
    by_replays = verify(path, VerifyOptions(candidate=fixed))
    assert by_replays.passed and by_replays.judged_by == "the agreement of 3 replays"


def test_another_signature_is_explained(adder: Resident) -> None:
    other = build.ADD.replace("out_ptr", "dst_ptr")
    with pytest.raises(CandidateError) as caught:
        adder.judge(other)
    assert "the launch passes out_ptr, which it does not take; it takes dst_ptr" in str(caught.value)
    assert "Expected (x_ptr, y_ptr, out_ptr, n, BLOCK)" in str(caught.value)


def test_a_candidate_that_does_not_import_is_explained(adder: Resident) -> None:
    with pytest.raises(CandidateError, match=r"can't be imported: SyntaxError: .*line 5") as caught:
        adder.judge("def broken(:\n")
    assert "def broken(:" in caught.value.detail


def test_an_exception_in_the_kernel_is_a_failed_run(adder: Resident) -> None:
    verdict = adder.judge(build.ADD + "    tl.load(no_such_name)\n")
    assert not verdict.passed and "no_such_name" in verdict.reasons[0]


def test_bfloat16_and_float8_are_compared_in_their_own_dtype(tmp_path: Path) -> None:
    bits = np.arange(0x3F00, 0x3F80, dtype=np.uint16)  # bfloat16 from 0.5 to 1
    copy = """
@triton.jit
def copy(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i))
"""
    launch = Launch(copy, "copy").tensor("x_ptr", bits, dtype="bfloat16")
    launch.tensor("out_ptr", np.zeros(128, np.uint16), bits, dtype="bfloat16")
    with resident(launch.constexpr("BLOCK", 128), tmp_path) as opened:
        assert opened.judge().passed
        product = "(tl.load(x_ptr + i).to(tl.float32) * 1.005).to(tl.bfloat16))"
        scaled = opened.judge(copy.replace("tl.load(x_ptr + i))", product))
        assert scaled.line.startswith("Result: PASS (within tolerance")
    eight = np.arange(0x30, 0x40, dtype=np.uint8)
    launch = Launch(copy, "copy").tensor("x_ptr", eight, dtype="float8_e4m3fn")
    launch.tensor("out_ptr", np.zeros(16, np.uint8), eight, dtype="float8_e4m3fn")
    assert run(launch.constexpr("BLOCK", 16).seal(tmp_path)).passed


def test_until_fail_counts_runs(tmp_path: Path) -> None:
    result = run(build.add().seal(tmp_path), until_fail=3)
    assert result.passed and result.runs == 3


@pytest.mark.long
def test_timed_runs_give_median_and_spread(tmp_path: Path) -> None:
    timing = run(scale().seal(tmp_path), timed_runs=3).timing
    assert timing is not None and timing.runs == 3
    assert 0 < timing.low_ms <= timing.median_ms <= timing.high_ms
