"""Variants held against each other, on the interpreter and on the stand-in driver."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kerncap.answer import Answer
from kerncap.api.compare import CompareResult, Variant, bisect_status, compare
from kerncap.api.replay import ReplayOptions
from kerncap.errors import BackendUnavailable, FormatError, ReplayError, UsageError
from kerncap.exit_status import Bisect
from kerncap.replay.paired_times import Ratio
from kerncap.replay.verdict_words import Verdict, undecided
from kerncap.report.compare_text import render

from . import native, rig
from .build import ADD, add
from .resident import candidate


def run(path: Path, which: str, max_ratio: float | None = None, **options: object) -> CompareResult:
    given = ReplayOptions(**{"timed_runs": 2, "timeout_s": 20.0, **options})  # type: ignore[arg-type]
    return compare(path, which.split(","), given, max_ratio)


def test_a_candidate_beside_the_rebuilt_source(tmp_path: Path) -> None:
    path = add(n=64, block=64).seal(tmp_path)
    result = run(path, "rebuilt,candidate", candidate=candidate(tmp_path, ADD))
    assert result.passed and bisect_status(result) == Bisect.GOOD
    second = result.variants[1]
    assert second.ratio is not None and second.ratio.low <= second.ratio.median <= second.ratio.high
    text = render(result)
    assert text.splitlines()[-1] == (
        "Result: PASS (rebuilt and candidate agree with the application's result)"
    )
    document = json.loads(json.dumps(result.as_dict()))
    assert [v["result"] for v in document["variants"]] == ["pass", "pass"]
    assert document["bisect_status"] == 0


@pytest.mark.long
def test_a_wrong_one_is_bad_and_one_that_is_missing_is_untestable(tmp_path: Path) -> None:
    path = add(n=64, block=64).seal(tmp_path)
    wrong = candidate(tmp_path, ADD.replace("mask=mask) + tl", "mask=mask) - tl"))
    result = run(path, "captured,rebuilt,candidate", candidate=wrong)
    captured, rebuilt, third = result.variants
    assert "the reproducer holds none" in captured.problem and rebuilt.passed and not third.passed
    assert bisect_status(result) == Bisect.UNTESTABLE and not result.passed
    text = render(result)
    assert "untested" in text and "candidate:\n- " in text
    assert text.splitlines()[-1].startswith("Result: FAIL (candidate: "), "a no is one, whatever is missing"
    result.variants = [captured, rebuilt]
    assert bisect_status(result) == Bisect.UNTESTABLE and result.answer is Answer.UNDECIDED
    captured.verdict = undecided("the kernel did not end within 1 s")
    assert (bisect_status(result), bisect_status(result, strict=True)) == (Bisect.UNTESTABLE, Bisect.BAD)
    captured.verdict = None
    assert render(result).splitlines()[-1].startswith("Result: UNDECIDED (captured can't be tested: ")
    result.variants = [rebuilt, third]
    assert bisect_status(result) == Bisect.BAD
    assert render(result).splitlines()[-1].startswith("Result: FAIL (candidate: ")


@pytest.mark.long
def test_what_does_not_build_is_untestable(tmp_path: Path) -> None:
    path = add(n=64, block=64).seal(tmp_path)
    result = run(path, "rebuilt,candidate", candidate=candidate(tmp_path, ADD.replace("mask =", "mask = (")))
    assert bisect_status(result) == Bisect.UNTESTABLE
    assert "candidate.py can't be imported: SyntaxError" in result.variants[1].problem


def test_slower_than_allowed_is_bad() -> None:
    passed = Verdict(Answer.YES, "identical")
    variants = [Variant("rebuilt", passed), Variant("candidate", passed, ratio=Ratio(1.6, 1.4, 1.8))]
    result = CompareResult(Path("k"), "k", "jit", "a GPU", "3.6.0", "python", variants, max_ratio=1.5)
    assert result.passed  # the interval does not leave the limit behind
    variants[1].ratio = Ratio(1.7, 1.6, 1.8)
    assert result.slower == ["candidate"] and bisect_status(result) == Bisect.BAD
    assert render(result).splitlines()[-1] == (
        "Result: FAIL (candidate: more than 1.5 times as long as rebuilt)"
    )


def test_captured_image_and_candidate_of_a_native_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.use(monkeypatch, rig.kernels(tmp_path))
    launch = native.add()
    path = launch.seal(tmp_path)
    image = tmp_path / "candidate.ptx"
    image.write_bytes(launch.image().replace(b"  ret;", b"  mov.u32 %r1, 0;\n  ret;"))
    result = run(path, "captured,candidate", candidate=image, timed_runs=3)
    assert result.passed and all(len(variant.times_ms) == 3 for variant in result.variants)
    (difference,) = result.differences
    (stage,) = difference.stages
    assert stage.stage == "ptx" and stage.changed == {"mov.u32": (0, 1)}
    text = render(result)
    assert "PTX   1 -> 2 instructions: mov.u32 0 -> 1" in text
    assert "+mov.u32 %r, 0;" in text
    rebuilt = run(path, "captured,rebuilt")
    assert "source was not found" in rebuilt.variants[1].problem
    assert bisect_status(rebuilt) == Bisect.UNTESTABLE


@pytest.mark.parametrize(
    ("which", "options", "message"),
    [
        ("captured,other", {}, "other is not a variant; choose from captured, rebuilt, candidate"),
        ("captured", {}, "two or three different ones of captured, rebuilt, candidate"),
        ("captured,captured", {}, "two or three different"),
        ("captured,candidate", {}, "name its file with --candidate"),
        ("captured,rebuilt", {"candidate": Path("x.py")}, "does not name candidate"),
    ],
)
def test_what_is_asked_wrongly(which: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(Path("nowhere"), which, **options)
    with pytest.raises(UsageError, match="positive"):
        run(Path("nowhere"), "captured,rebuilt", -1.0)


def test_the_status_of_an_error_ends_a_bisection_or_skips_a_revision() -> None:
    assert bisect_status(BackendUnavailable("CUDA", "no driver")) == Bisect.UNTESTABLE
    assert bisect_status(ReplayError("the worker died")) == Bisect.UNTESTABLE
    for error in (UsageError("what"), FormatError("manifest.json", 0, "no")):
        assert bisect_status(error) == Bisect.STOP
