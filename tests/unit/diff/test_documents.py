"""`kerncap diff` of two results: by what they mean, with ratios of times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kerncap.api.diff import diff_results
from kerncap.errors import FormatError, UsageError
from kerncap.report.diff_documents_text import render_documents


def verified(**more: Any) -> dict[str, Any]:
    return {
        "result": "pass", "reasons": [], "summary": "100 bytes identical", "exact": True, "path": "out/k-1",
        "kernel": "k", "engine": "jit", "device": "H200", "judged_by": "the application's result",
        "poisoned_bytes": 100, "runs": 1,
        "timing": {"median_ms": 2.0, "low_ms": 1.9, "high_ms": 2.1, "runs": 30},
        "stages": [{"name": "smoke", "result": "pass"}, {"name": "oracle", "result": "pass"}], **more,
    }  # fmt: skip


def listed(*kernels: tuple[str, int, int]) -> dict[str, Any]:
    rows = [{"name": n, "qualified_name": n, "launches": c, "time_ns": t} for n, c, t in kernels]
    return {"kernels": rows, "target_status": 0, "launches": sum(c for _, c, _ in kernels), "reason": None}


@pytest.fixture
def compare(tmp_path: Path) -> Any:
    def run(a: object, b: object, **options: Any) -> Any:
        paths = [tmp_path / "a.json", tmp_path / "b.json"]
        for path, document in zip(paths, (a, b), strict=True):
            path.write_text(json.dumps(document))
        return diff_results(*paths, **options)

    return run


def test_another_run_of_the_same_is_equal(compare: Any) -> None:
    slower = {"median_ms": 3.0, "low_ms": 2.9, "high_ms": 3.1, "runs": 30}
    found = compare(verified(), verified(path="out/k-2", timing=slower))
    assert found.equal and found.command == "verify"
    ratios = {one.where: one.ratio for one in found.changes if one.kind == "time"}
    assert ratios["timing.median_ms"] == 1.5
    assert "1.500" in render_documents(found)


def test_a_limit_makes_times_a_difference(compare: Any) -> None:
    slower = verified(timing={"median_ms": 2.2, "low_ms": 1.9, "high_ms": 2.1, "runs": 30})
    assert compare(verified(), slower, max_ratio=1.2).equal
    found = compare(verified(), slower, max_ratio=1.05)
    assert not found.equal and found.as_dict()["slower"] == ["timing.median_ms"]
    assert compare(slower, verified(), max_ratio=1.05).equal  # faster is no difference


def test_a_verdict_that_changed(compare: Any) -> None:
    stages = [{"name": "oracle", "result": "fail"}, {"name": "smoke", "result": "pass"}]
    found = compare(verified(), verified(result="fail", reasons=["x differs"], stages=stages))
    values = {one.where: (one.a, one.b) for one in found.changes if one.kind == "value"}
    assert values == {
        "result": ("pass", "fail"), "reasons[]": (None, "x differs"),
        "stages[oracle].result": ("pass", "fail"),
    }  # fmt: skip


def test_kernels_are_recognised_by_name(compare: Any) -> None:
    found = compare(listed(("a", 3, 100), ("b", 1, 50)), listed(("b", 1, 75), ("c", 2, 10), ("a", 4, 100)))
    values = {one.where: (one.a, one.b) for one in found.changes if one.kind == "value"}
    assert values["kernels[a].launches"] == (3, 4)
    assert values["kernels[c]"] == (None, "there")
    assert {one.where: one.ratio for one in found.changes if one.kind == "time"} == {
        "kernels[b].time_ns": 1.5
    }


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (verified(), listed(), "of kerncap verify, .* of kerncap list"),
        ({"x": 1}, {"x": 1}, "not a document that a kerncap command prints"),
    ],
)
def test_documents_of_two_commands(compare: Any, a: dict, b: dict, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        compare(a, b)


def test_what_is_no_document(compare: Any) -> None:
    with pytest.raises(FormatError):
        compare([1, 2], verified())


def test_nesting_has_an_end(compare: Any) -> None:
    deep: dict[str, Any] = {}
    other: dict[str, Any] = {"x": 1}
    for _ in range(200):
        deep, other = {"y": deep}, {"y": other}
    assert not compare(verified(extra=deep), verified(extra=other)).equal


def test_nan_is_no_difference_to_nan(compare: Any) -> None:
    assert compare(verified(worst=float("nan")), verified(worst=float("nan"))).equal
    assert not compare(verified(worst=float("nan")), verified(worst=1.0)).equal


def test_rows_of_a_listing_are_recognised_by_what_was_launched(compare: Any) -> None:
    def program(*rows: dict[str, Any]) -> dict[str, Any]:
        document = listed(("k", 3, 100))
        document["kernels"][0]["rows"] = list(rows)
        return document

    small = {"grid": [1, 1, 1], "config": "BLOCK=64", "launches": 1, "time_ns": 10, "stream": "0x1"}
    large = {"grid": [9, 1, 1], "config": "BLOCK=64", "launches": 2, "time_ns": 90, "stream": "0x1"}
    found = compare(program(small, large), program({**large, "time_ns": 45}, small))
    assert found.equal
    [change] = found.changes
    assert (change.where, change.ratio) == ("kernels[k].rows[9x1x1 BLOCK=64].time_ns", 0.5)
