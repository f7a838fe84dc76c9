"""How far a result may be off, and what NaN means."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kerncap.answer import Answer
from kerncap.api.verify import VerifyOptions, verify
from kerncap.replay.verdict_words import Tolerance
from tests.unit.replay import build
from tests.unit.replay.build import Launch
from tests.unit.replay.resident import Resident, candidate, resident
from tests.unit.replay.verdict.replayed import run

pytest.importorskip("triton")
pytest.importorskip("torch")


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


@pytest.mark.parametrize("captured", [np.float64, np.float32])
def test_float32_in_place_of_float64_is_undecided(tmp_path: Path, captured: type) -> None:
    x, y = (
        one.astype(captured).astype(np.float64) for one in np.random.default_rng(3).normal(size=(2, 1000))
    )
    y = y if captured is np.float64 else np.zeros_like(x)  # a sum that float32 has exactly
    launch = Launch(build.ADD, "add", grid=(4, 1, 1)).tensor("x_ptr", x).tensor("y_ptr", y)
    launch = launch.tensor("out_ptr", np.zeros_like(x), x + y).argument("n", 1000).constexpr("BLOCK", 256)
    file = candidate(tmp_path, build.ADD.replace("mask=mask),", "mask=mask).to(tl.float32),"))
    file.write_text(file.read_text().replace("mask=mask) +", "mask=mask).to(tl.float32) +"))
    line = verify(launch.seal(tmp_path), VerifyOptions(candidate=file, stages=("oracle",))).verdict.line
    other = "" if captured is np.float64 else "on other values of x_ptr, y_ptr: "
    assert line.startswith(f"Result: UNDECIDED ({other}out_ptr: errors are within the tolerance, and like"), (
        line
    )


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
    assert "1 element is NaN on one side only" in verdict.reasons[0]


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
