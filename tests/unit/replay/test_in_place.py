"""Work in place that the oracle does not show: what else tells a kernel from one that does nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kerncap.answer import Answer
from kerncap.api.verify import VerifyOptions, shapes_stage, verify
from kerncap.api.verify.verify_result import Case
from kerncap.format import Reproducer, WriteSet, schema
from kerncap.replay import other_contents
from kerncap.replay.engine import CANDIDATE
from kerncap.replay.verdict_words import BY_DTYPE
from tests.parameters import first_of

from .build import Launch
from .resident import resident

pytest.importorskip("triton")
pytest.importorskip("torch")

RELU = """
@triton.jit
def relu(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, tl.maximum(x, 0.0), mask=i < n)
"""


def twice(dtype: str = "float32") -> Launch:
    """The second launch of an in-place relu: all that it reads is what it writes."""
    x = np.maximum(np.random.default_rng(5).standard_normal(500), 0).astype(dtype)
    launch = Launch(RELU, "relu", grid=(2, 1, 1)).tensor("x_ptr", x, x)
    return launch.argument("n", 500).constexpr("BLOCK", 256)


def nothing(name: str, parameters: str) -> str:
    return f"@triton.jit\ndef {name}({parameters}, BLOCK: tl.constexpr):\n    pass\n"


@first_of("dtype", ["float32", "float16"])
def test_the_second_launch_of_an_in_place_relu(tmp_path: Path, dtype: str) -> None:
    with resident(twice(dtype), tmp_path) as opened:
        assert opened.judge().passed
        idle = opened.judge(nothing("relu", "x_ptr, n"))
        assert not idle.passed
        assert "differs from the captured kernel on perturbed contents of x_ptr: x_ptr: " in idle.reasons[0]
        half = opened.judge(RELU.replace("mask=i < n)\n    tl", "mask=i < n)\n    n = n // 2\n    tl"))
        assert not half.passed and "perturbed contents of x_ptr" in half.reasons[0]
        same = opened.judge(RELU.replace("tl.maximum(x, 0.0)", "tl.where(x > 0, x, x * 0)"))
        assert same.passed
        assert any("as the captured kernel on perturbed contents of x_ptr" in note for note in same.notes)


SCALE = """
@triton.jit
def scale(x_ptr, s, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) * s, mask=i < n)
"""


@pytest.mark.long
@pytest.mark.parametrize("s", [1.0, 1])
def test_a_multiplication_by_one_is_seen_with_another_factor(tmp_path: Path, s: float) -> None:
    x = np.arange(1, 513, dtype=np.float32)
    launch = Launch(SCALE, "scale", grid=(2, 1, 1)).tensor("x_ptr", x, x)
    launch.argument("s", s).argument("n", 512).constexpr("BLOCK", 256)
    with resident(launch, tmp_path) as opened:
        assert opened.judge().passed
        idle = opened.judge(nothing("scale", "x_ptr, s, n"))
        assert not idle.passed
        other = "1.5" if isinstance(s, float) else "2"
        assert f"with s = {other} in place of 1: x_ptr: 512 of 512 elements" in idle.reasons[0]
        turned = "s * tl.load(x_ptr + i, mask=i < n)"
        assert opened.judge(SCALE.replace("tl.load(x_ptr + i, mask=i < n) * s", turned)).passed


def test_what_no_contents_show_is_no_pass(tmp_path: Path) -> None:
    x = np.arange(1, 257, dtype=np.int32)
    copy = SCALE.replace("* s", "").replace("s, ", "")
    launch = Launch(copy, "scale").tensor("x_ptr", x, x).argument("n", 256).constexpr("BLOCK", 256)
    with resident(launch, tmp_path) as opened:
        for verdict in (opened.judge(), opened.judge(copy)):
            assert verdict.line.startswith("Result: UNDECIDED (nothing to compare: ")


@pytest.mark.long
def test_integers_are_perturbed_where_there_is_nothing_else(tmp_path: Path) -> None:
    even = np.arange(0, 256, 2, dtype=np.int32)
    kernel = RELU.replace("tl.maximum(x, 0.0)", "x // 2 * 2")
    launch = Launch(kernel, "relu").tensor("x_ptr", even, even).argument("n", 128).constexpr("BLOCK", 128)
    with resident(launch, tmp_path) as opened:
        assert opened.judge().passed
        idle = opened.judge(nothing("relu", "x_ptr, n"))
        assert not idle.passed and "perturbed contents of x_ptr" in idle.reasons[0]
        assert opened.judge(RELU.replace("tl.maximum(x, 0.0)", "x & -2")).passed


@pytest.mark.long
def test_a_captured_kernel_that_fails_on_other_contents_is_noted(tmp_path: Path) -> None:
    wild = """
    ones = tl.sum((x == 1).to(tl.int64), 0)
    if ones > 0:
        tl.store((ones * 8).to(tl.pointer_type(tl.float32)), 1.0)
"""
    even = np.zeros(128, dtype=np.int32)
    kernel = RELU.replace("tl.maximum(x, 0.0)", "x // 2 * 2") + wild
    launch = Launch(kernel, "relu").tensor("x_ptr", even, even).argument("n", 128).constexpr("BLOCK", 128)
    with resident(launch, tmp_path) as opened:
        assert opened.judge().passed
        verdict = opened.judge(kernel)
        assert any("could not be excluded: the captured kernel fails" in note for note in verdict.notes)


@pytest.mark.long
def test_a_float_beside_an_index_alone_is_perturbed(tmp_path: Path) -> None:
    """An index that is kept, a float that is written in place: the index still leads where it led."""
    kernel = """
@triton.jit
def pick(index_ptr, x_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.load(index_ptr + i)
    tl.store(x_ptr + at, tl.maximum(tl.load(x_ptr + at), 0.0))
"""
    index = np.random.default_rng(6).permutation(64).astype(np.int64)
    x = np.arange(64, dtype=np.float32)
    launch = Launch(kernel, "pick").tensor("index_ptr", index).tensor("x_ptr", x, x).constexpr("BLOCK", 64)
    with resident(launch, tmp_path) as opened:
        assert opened.judge(kernel.replace("0.0)", "0.0) + 0.0")).passed
        assert not opened.judge(nothing("pick", "index_ptr, x_ptr")).passed


COUNT = """
@triton.jit
def count(x_ptr, h_ptr, weight, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    at = tl.arange(0, 8)
    counts = tl.sum((x[:, None] == at[None, :]).to(tl.int32), axis=0)
    tl.store(h_ptr + at, tl.load(h_ptr + at) + (counts * weight).to(tl.int32))
"""
STORED = """
from triton.language import core

COUNTS: core.constexpr = {counts}


@triton.jit
def count(x_ptr, h_ptr, weight, BLOCK: tl.constexpr):
    for i in core.static_range(8):
        tl.store(h_ptr + i, tl.load(h_ptr + i) + COUNTS[i])
"""


def test_a_count_is_told_from_what_gives_it_on_the_captured_contents_alone(tmp_path: Path) -> None:
    x = np.random.default_rng(6).integers(0, 8, 64).astype(np.int32)
    counts = 4 * np.bincount(x, minlength=8).astype(np.int32)
    launch = Launch(COUNT, "count").tensor("x_ptr", x).tensor("h_ptr", np.zeros(8, np.int32), counts)
    launch = launch.argument("weight", 4.0).constexpr("BLOCK", 64)
    with resident(launch, tmp_path) as opened:

        def shown(source: str) -> tuple[other_contents.Shown, other_contents.Shown]:
            assert opened.judge(source).passed, "on the captured contents all are alike"
            found = opened.engine, opened.measured, BY_DTYPE
            return other_contents.on_other_values(*found), other_contents.on_other_counts(*found)

        def numbers() -> other_contents.Shown:
            options = VerifyOptions(candidate=opened.folder / "candidate.py")
            case = Case(opened.engine.reproducer, opened.engine, CANDIDATE, options, opened.folder)
            return shapes_stage.on_other_numbers(case, opened.measured)

        values, sums = shown(COUNT.replace("counts * weight", "weight * counts"))
        assert values.shown == ["as the captured kernel on other values of x_ptr"]
        assert sums.shown == ["as the captured kernel on other contents of h_ptr"]
        assert numbers().shown == ["as the captured kernel on weight = 3 in place of 4"]
        assert not shown(COUNT.replace("counts * weight", "counts * 4"))[0].reasons
        assert "on weight = 3 in place of 4: differs from the captured kernel: h_ptr" in numbers().reasons[0]
        values, _ = shown(STORED.replace("{counts}", str(tuple(counts.tolist()))))
        assert "h_ptr is the result for the captured values again: cached or stored" in values.reasons[0]
        values, sums = shown(COUNT.replace("tl.load(h_ptr + at) + ", ""))
        assert not values.reasons
        assert sums.reasons == [
            "on other contents of h_ptr: h_ptr is the result for the captured values again: "
            "what was there before is not used"
        ]


def test_a_region_that_is_half_output_and_half_in_place_is_kept_as_measured(tmp_path: Path) -> None:
    kernel = """
@triton.jit
def both(a_ptr, b_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + i)
    tl.store(b_ptr + i, a + 1)
    tl.store(a_ptr + i, a * 2)
"""
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    tail = np.full(64, 3, np.float32)
    launch = Launch(kernel, "both")
    region = launch.region(np.concatenate([a, b, tail]), np.concatenate([a * 2, a + 1, tail]))
    for name, offset in (("a_ptr", 0), ("b_ptr", 256)):
        view = launch.view(name, region, "float32", (64,), offset=offset)
        launch.argument(name, schema.TensorValue(view=view))
    with resident(launch.constexpr("BLOCK", 64), tmp_path) as opened:
        kept = opened.measured.as_write_set()
        assert counts(kept, region) == (512, 256, 256)
        assert opened.judge().line == "Result: PASS (768 bytes identical, 256 written bytes poisoned)"
        beside = opened.judge(kernel + "    tl.store(b_ptr + BLOCK + i, 3.0)\n")
        assert "256 bytes outside the write set were changed" in beside.reasons[0]


def counts(write_set: WriteSet, region: int) -> tuple[int, int, int]:
    return (
        write_set.written_bytes(region),
        write_set.count(region, "also_input"),
        write_set.count(region, "untouched"),
    )


@pytest.mark.long
def test_what_a_kernel_stores_is_known_where_no_replay_shows_it(tmp_path: Path) -> None:
    x = np.arange(1, 257, dtype=np.int32)
    copy = SCALE.replace("* s", "").replace("s, ", "")
    launch = Launch(copy, "scale").tensor("x_ptr", x, x).argument("n", 256).constexpr("BLOCK", 256)
    path = launch.seal(tmp_path)
    result = verify(path)
    assert result.verdict.line == "Result: PASS (1,024 bytes identical, 0 written bytes poisoned)"
    with Reproducer.open(path) as reproducer:
        kept = WriteSet.load(reproducer)
    assert kept is not None and kept.written_bytes(0) == 1024 and kept.also_input(0)
    answers = {}
    for name, body in {
        "idle": "pass",
        "copies": copy.split(":\n", 1)[1],
        "wrong": "tl.store(x_ptr, 7)",
    }.items():
        file = tmp_path / f"{name}.py"
        head = "import triton\nimport triton.language as tl\n\n"
        file.write_text(f"{head}@triton.jit\ndef scale(x_ptr, n, BLOCK: tl.constexpr):\n    {body.strip()}\n")
        answers[name] = verify(path, VerifyOptions(candidate=file)).answer
    assert answers == {"idle": Answer.UNDECIDED, "copies": Answer.UNDECIDED, "wrong": Answer.NO}
