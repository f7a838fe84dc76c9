"""The sample that the others stand for: captured by the command line, opened in Chromium."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncap.api.report import report
from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine
from tests.integration.report.conftest import OpenPage

SAMPLE = Path(__file__).parents[3] / "samples" / "flash_attention" / "run.py"


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("triton")
    kerncap = CommandLine(tmp_path_factory.mktemp("flash"))
    out = kerncap("capture", "--json", "--no-self-check", "-o", "out", "--", sys.executable, SAMPLE)
    document = json.loads(
        out.stdout.strip().splitlines()[-1] if out.stdout.lstrip()[:1] != "{" else out.stdout
    )
    return kerncap.folder / document["captured"][0]


@pytest.fixture(scope="module")
def page(captured: Path) -> Path:
    kerncap = CommandLine(captured.parents[1])
    done = kerncap("report", captured, "-o", "flash.html", "--json")
    assert done.status == 0, done.stderr
    assert done.document["written"] is True
    assert done.document["size_bytes"] < 1_000_000
    return kerncap.folder / "flash.html"


def test_it_opens_silently_and_shows_every_part(page: Path, show: OpenPage) -> None:
    opened = show(page)
    opened.settle()
    assert opened.text("h1") == "attention_kernel"
    sections = opened.page.eval_on_selector_all("main > section", "all => all.map(one => one.id)")
    assert sections == ["summary", "launch", "values", "memory", "source", "verdicts", "timing", "tuning",
                        "environment", "run"]  # fmt: skip
    assert "3 × 2 × 1" in opened.text("#launch")
    assert "BLOCK_M" in opened.text("#values table")
    assert opened.page.eval_on_selector_all(".map h4", "all => all.map(one => one.textContent)") == [
        "q_ptr", "k_ptr", "v_ptr", "out_ptr",
    ]  # fmt: skip
    assert "tl.dot(q, tl.trans(k))" in opened.text("#code")
    for number in (0, 1, 2, 3):  # after the launch: before it, the output is whatever lay there
        assert opened.colours(f".map:nth-child({number + 1}) canvas >> nth=-1") > 20


@pytest.mark.long
def test_the_large_map_tells_the_values(captured: Path, page: Path, show: OpenPage) -> None:
    with Reproducer.open(captured) as reproducer:
        view = reproducer.manifest.views[3]
        raw = reproducer.read("post", view.region, view.offset, 5120 * 2)
        expected = np.frombuffer(raw, np.float16).reshape(160, 32).astype(np.float64)
    opened = show(page)
    opened.page.keyboard.press("v")
    for _ in range(3):
        opened.page.keyboard.press("l")
    opened.page.wait_for_function("() => document.querySelector('#view-title').textContent === 'out_ptr'")
    for key in ["ArrowDown"] * 41 + ["ArrowRight"] * 3:  # the first of them goes to the first cell
        opened.page.keyboard.press(key)
    told = opened.text(".readout")
    index, _, after = told.partition(": ")
    assert index == "[0, 1, 0–1, 3]"  # cell (40, 3) of 80 by 32: two rows of the second head
    mean = expected[80:82, 3].mean()
    shown = float(after.rsplit("≈ ", 1)[1].replace("−", "-").replace(",", ""))
    assert shown == pytest.approx(mean, rel=2e-3, abs=2e-4)
    table = opened.text(".numbers")
    assert f"{expected.max():.5g}" in table


def test_results_of_other_commands_are_shown(captured: Path, show: OpenPage, tmp_path: Path) -> None:
    documents: list[dict[str, Any]] = [
        {"result": "fail", "kernel": "attention_kernel", "judged_by": "the application's result",
         "engine": "interpreter", "device": "cpu", "summary": "out_ptr differs",
         "reasons": ["out_ptr: 3 of 9"],
         "stages": [{"name": "oracle", "result": "fail", "reasons": ["three of nine"]}]},
        {"result": "pass", "kernel": "attention_kernel", "judged_by": "it", "timing":
         {"runs": 20, "median_ms": 4.0, "low_ms": 3.5, "high_ms": 6.0, "clock": "host clock"}},
        {"kernel": "attention_kernel", "times_ms": {"warm": 0.02, "cold": 0.03}, "binding": "DRAM",
         "achieved": 0.5, "headroom": 2.0, "bounds": [
             {"name": "DRAM", "unit": "bytes", "amount": 4e4, "measured_per_s": 4e12, "cold_floor_ms": 0.015},
             {"name": "launch", "unit": "launch", "cold_floor_ms": 0.002}]},
        {"result": "pass", "kernel": "attention_kernel", "space": {}, "shapes": [
            {"digest": "x", "captured_ms": 2.0, "best": {"config": {"BLOCK": 64}, "ms": 1.0}}],
         "trials": [{"point": {"BLOCK": 32}, "digest": "x", "state": "timed", "ms": 1.5},
                    {"point": {"BLOCK": 64}, "digest": "x", "state": "timed", "ms": 1.0},
                    {"point": {"BLOCK": 128}, "digest": "x", "state": "wrong", "reason": "differs"}]},
    ]  # fmt: skip
    files = []
    for number, document in enumerate(documents):
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(json.dumps(document))
    made = report(captured, tmp_path / "with.html", results=files, keep_private=["users", "secrets"])
    assert set(made.results) >= {"verify", "replay", "limits", "tune"}
    opened = show(made.path)
    assert "verified fail" in opened.text(".badges").replace("\n", " ")
    assert "three of nine" in opened.text("#verdicts")
    assert "median 4 ms" in opened.page.text_content("#timing svg >> nth=0")
    bars = opened.page.eval_on_selector_all("#timing .bar", "all => all.map(one => one.width.baseVal.value)")
    assert bars[0] / bars[1] == pytest.approx(0.015 / 0.002, rel=0.02)
    dots = opened.page.eval_on_selector_all("#tuning .dot", "all => all.map(one => one.className.baseVal)")
    assert sorted(dots) == ["dot bad", "dot best", "dot timed"]
