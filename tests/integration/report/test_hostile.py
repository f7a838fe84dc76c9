"""A reproducer from a stranger: its texts stay texts, its numbers cost nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kerncap.format import schema
from tests.integration.report.conftest import OpenPage
from tests.integration.report.reproducers import SOURCE, Made, Tensor, ramp, write

PageOf = Callable[..., Path]

SCRIPT = "</script></style></template><script>window.pwned=1</script>"
EVIL = SCRIPT + "<img src=x onerror='window.pwned=2'>{{7*7}}{% raw %}\u202e\x00\x1b]0;x\x07"
TIMES = {"runs": 1, "median_ms": float("nan"), "low_ms": float("inf"), "high_ms": -1, "clock": EVIL}


def test_texts_stay_texts(tmp_path: Path, page_of: PageOf, show: OpenPage) -> None:
    made = Made(
        [Tensor(EVIL, ramp(4, 4), ramp(4, 4) * 2, dtype=SCRIPT)],
        source=SOURCE + b"# \xff\xfe\xed\xa0\x80 \xe2\x80\xae\n" + EVIL.encode() + b"\n",
        code={"ttir": b'#loc = loc("' + SCRIPT.encode() + b'":1:1)\n\xff\xff</script>\n', "ptx": b"\x00"},
        kernel=EVIL, reason=EVIL,
        manifest={
            "oracle": schema.Oracle(kind="suspect", error=EVIL, condition=SCRIPT),
            "command": (EVIL,), "environment": {EVIL: "<b>"}, "notes": (EVIL,),
            "launch": schema.Launch(grid=(1, 1, 1), ordinal=0, mode="jit", python_stack=((EVIL, 1, EVIL),)),
        },
    )  # fmt: skip
    folder = write(tmp_path, made)
    documents = [
        {"result": SCRIPT, "kernel": EVIL, "judged_by": EVIL, "summary": EVIL, "reasons": [EVIL],
         "timing": TIMES,
         "stages": [{"name": EVIL, "result": EVIL, "shown": [EVIL]}]},
        {"result": "fail", "launches": [{"kernel": EVIL, "findings": [
            {"check": EVIL, "message": EVIL, "file": "/app/model.py", "line": 106, "suggestion": SCRIPT},
            {"check": "oob", "message": EVIL, "file": EVIL, "line": 10**9}]}]},
        {"kernel": EVIL, "result": "pass", "space": {}, "shapes": [{"digest": "", "captured_ms": 1e-300}],
         "trials": [{"point": {EVIL: EVIL}, "state": "timed", "ms": 1e300},
                    {"point": {EVIL: 1}, "state": "wrong", "reason": EVIL}], "autotune": EVIL},
        {"kernel": EVIL, "times_ms": {"warm": 1e308}, "bounds": [{"name": EVIL, "cold_floor_ms": 1e-308}]},
    ]  # fmt: skip
    files = [tmp_path / f"{number}.json" for number in range(len(documents))]
    for file, document in zip(files, documents, strict=True):
        file.write_text(json.dumps(document))
    page = page_of(folder, results=files)
    text = page.read_bytes()
    assert SCRIPT.encode() not in text
    assert text.count(b"<script") == text.count(b"</script>")
    opened = show(page)
    opened.settle()
    for key in ("v", "Escape", "n", "]", "?", "Escape"):
        opened.page.keyboard.press(key)
    assert opened.page.evaluate("window.pwned") is None
    assert opened.page.query_selector("img") is None
    assert opened.text("h1").startswith("</script></style></template><script>window.pwned=1")
    assert "{{7*7}}" in opened.text("h1") and "\u202e" not in opened.text("main")
    assert "window.pwned" in opened.text("#code")


def test_no_policy_hole(tmp_path: Path, page_of: PageOf, show: OpenPage) -> None:
    """Even a script that got into the page would not run, and nothing could be sent."""
    page = page_of(write(tmp_path, Made([Tensor("x", ramp(4, 4))])))
    text = page.read_text()
    assert "unsafe" not in text.partition("</head>")[0].partition("<style>")[0]
    hole = tmp_path / "hole.html"
    hole.write_text(text.replace("<main ", "<script>window.pwned=1</script><img src='x.png'><main ", 1))
    opened = show(hole)
    assert opened.page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in line for line in opened.said)
    assert opened.refused == opened.asked != []
    opened.said.clear()
    opened.asked.clear()


@pytest.mark.long
def test_huge_counts_cost_nothing(tmp_path: Path, page_of: PageOf, show: OpenPage) -> None:
    one = np.ones(16, np.float32)
    tensors = [
        Tensor("repeated", one, shape=(2**40,), strides=(0,)),
        Tensor("wide", one, shape=(2**35,), region_bytes=1 << 37),
        Tensor("square", one, shape=(2**20, 2**20), strides=(0, 1), region_bytes=1 << 22),
        Tensor("apart", one, shape=(256, 2**14), strides=(1, 2**20 + 1), region_bytes=1 << 37),
    ]
    page = page_of(write(tmp_path, Made(tensors, code={"ttir": b"x" * 300_000})))
    assert page.stat().st_size < 2_000_000
    opened = show(page)
    opened.settle()
    cards = opened.page.eval_on_selector_all(
        ".map .stats:first-of-type", "all => all.map(one => one.textContent)"
    )
    assert cards[0].startswith("1 … 1")
    opened.page.keyboard.press("v")
    assert "1,099,511,627,776 elements" in opened.text("#view-type")
    assert "of them looked at" in opened.text("#view-type")
