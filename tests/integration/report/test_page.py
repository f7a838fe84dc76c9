"""What a page does under a user's hands, and what it looks like for each kind of kernel."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kerncap.format import schema
from tests.integration.report.conftest import OpenPage
from tests.integration.report.reproducers import Made, Tensor, ramp, write
from tests.parameters import first_of

GOLDEN = Path(__file__).parents[2] / "golden"
PageOf = Callable[..., Path]

TTIR = b"""\
#loc = loc("/app/model.py":106:1)
module {
  tt.func public @scale(%x_ptr: !tt.ptr<f32> loc("x_ptr"(#loc))) {
    %at = tt.get_program_id x : i32 loc(#loc2)
    %x = tt.load %at : !tt.ptr<f32> loc(#loc3)
    tt.store %at, %x : !tt.ptr<f32> loc(#loc4)
    tt.return loc(#loc)
  }
}
#loc2 = loc("/app/model.py":107:5)
#loc3 = loc("x"(#loc5))
#loc4 = loc("/app/model.py":109:5)
#loc5 = loc("/app/model.py":108:9)
"""
PTX = b"""\
.file 1 "/app" "model.py"
.loc 1 107 5
mov.u32 %r1, %ctaid.x;
.loc 1 109 5
st.global.b32 [%rd1], %r2;
"""
FINDING = {
    "result": "fail",
    "launches": [
        {"kernel": "scale", "violated": 1, "findings": [
            {"check": "oob", "message": "store past the end of <x_ptr>", "file": "/app/model.py", "line": 109,
             "column": 5, "access": "store", "argument": "x_ptr", "program_id": [3, 0, 0], "lane": [7],
             "offset_bytes": 4000, "element": 1000, "suggestion": "mask=at < n"}]}
    ],
}  # fmt: skip


@pytest.fixture
def linked(tmp_path: Path, page_of: PageOf) -> Path:
    """A page with two stages whose lines are linked, and a finding."""
    tensor = Tensor("x_ptr", ramp(10, 40), np.where(ramp(10, 40) > 5000, 0, ramp(10, 40)).astype(np.float32))
    folder = write(tmp_path, Made([tensor], code={"ttir": TTIR, "ptx": PTX}))
    result = tmp_path / "sanitize.json"
    result.write_text(json.dumps(FINDING))
    return page_of(folder, results=[result])


def test_a_finding_stands_at_its_line(linked: Path, show: OpenPage) -> None:
    opened = show(linked)
    assert "1 finding" in opened.text(".badges")
    opened.page.keyboard.press("n")
    opened.page.wait_for_selector(".note.finding")
    before = opened.page.eval_on_selector(".note.finding", "note => note.previousElementSibling.textContent")
    assert before == "9    tl.store(x_ptr + at, x * FACTOR)"
    note = opened.text(".note.finding")
    assert "store past the end of <x_ptr>" in note
    assert "mask=at < n" in note


def test_lines_of_source_and_stages_mark_each_other(linked: Path, show: OpenPage) -> None:
    opened = show(linked)
    opened.settle()
    opened.page.click(".tabs button:text-is('ttir')")
    opened.page.click(".pane[data-side=source] .ln[data-line='8']")
    marked = opened.page.eval_on_selector_all(
        ".pane[data-side=stage] .ln.on", "all => all.map(one => one.textContent)"
    )
    assert len(marked) == 1
    assert "tt.load" in marked[0] and "loc(" not in marked[0]
    opened.page.keyboard.press("]")  # ptx
    opened.page.click(".pane[data-side=stage] .ln[data-line='5']")
    assert opened.page.get_attribute(".pane[data-side=source] .ln.on", "data-line") == "9"


def test_the_keyboard_reaches_everything(linked: Path, show: OpenPage) -> None:
    opened = show(linked)
    page = opened.page
    page.keyboard.press("6")
    assert page.evaluate("document.activeElement.id") == "verdicts"
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.id") == "source"
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.id") == "verdicts"
    page.keyboard.press("?")
    assert page.is_visible("#help")
    page.keyboard.press("j")  # the page behind a dialog stays
    page.keyboard.press("Escape")
    assert not page.is_visible("#help")
    page.keyboard.press("v")
    page.wait_for_selector("#view-dialog[open] canvas.big")
    page.keyboard.press("Escape")
    assert not page.is_visible("#view-dialog")
    page.keyboard.press("0")
    assert page.evaluate("document.activeElement.id") == "run"
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_light_dark_and_the_switch(linked: Path, show: OpenPage) -> None:
    def background(opened: object) -> str:
        return str(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))  # type: ignore[attr-defined]

    light, dark = show(linked), show(linked, scheme="dark")
    assert background(light) != background(dark)
    light.page.keyboard.press("t")
    assert light.text("#theme") == "Theme: light"
    light.page.keyboard.press("t")
    assert background(light) == background(dark)
    dark.page.emulate_media(media="print")  # ink on paper, whatever the screen has
    assert background(dark) == "rgb(255, 255, 255)"
    assert not dark.page.is_visible(".rail")


@pytest.mark.long
@pytest.mark.parametrize("width", [1280, 600])
def test_nothing_sticks_out(linked: Path, show: OpenPage, width: int) -> None:
    opened = show(linked, width=width)
    opened.settle()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.long
def test_sections_stay_where_they_were_jumped_to(linked: Path, show: OpenPage) -> None:
    opened = show(linked)
    opened.page.keyboard.press("5")
    opened.page.wait_for_selector("#code .pane .ln")
    opened.page.wait_for_timeout(50)
    assert abs(opened.page.evaluate("document.querySelector('#source').getBoundingClientRect().top")) < 60


@first_of(
    ("golden", "words"),
    [
        ("v1.3", ["HIP kernel", "work-items", "global_buffer"]),
        (
            "v1.1",
            [
                "CUDA kernel",
                "256 × 1 × 1",
                "49,152 bytes",
                "cooperative",
                "float const*",
                "managed 1",
                "coef",
            ],
        ),
        ("v1.0", ["Triton kernel"]),
        ("v1.2", ["Triton kernel"]),
    ],
)
def test_golden_reproducers(golden: str, words: list[str], page_of: PageOf, show: OpenPage) -> None:
    opened = show(page_of(GOLDEN / golden, keep_private=["users", "secrets"]))
    opened.settle()
    text = opened.text("main")
    for word in words:
        assert word in text
    assert opened.colours(".region canvas") > 1


def test_the_sanitizer_is_asked_where_nothing_runs(page_of: PageOf, show: OpenPage) -> None:
    opened = show(page_of(GOLDEN / "v1.2", keep_private=["users", "secrets"]))
    assert "memory operations" in opened.text("#verdicts")
    assert "not run" not in opened.text(".badges")


@pytest.mark.long
def test_a_fault(tmp_path: Path, page_of: PageOf, show: OpenPage) -> None:
    oracle = schema.Oracle(kind="fault", error="CUDA error 700: an illegal memory access was encountered")
    folder = write(tmp_path, Made([Tensor("x", ramp(4, 4))], manifest={"oracle": oracle}))
    opened = show(page_of(folder))
    opened.settle()
    badge = opened.page.inner_text(".badge.bad")
    assert "fault" in badge and "✗" in badge
    assert "error 700" in opened.text(".oracle")
    assert "not changed by the launch" in opened.text("#values")


def test_values_of_every_kind(tmp_path: Path, page_of: PageOf, show: OpenPage) -> None:
    special = np.array([np.nan, np.inf, -np.inf, 1.0, -2.0, 0.0], np.float32)
    tensors = [
        Tensor("special", special),
        Tensor("bfloat", np.array([0x3F80, 0xC000, 0x7F80, 0x7FC0], np.uint16), dtype="bfloat16"),
        Tensor("fp8", np.arange(256, dtype=np.uint8), dtype="float8_e4m3fn"),
        Tensor("flags", np.array([True, False, True])),
        Tensor("large", np.array([[2**62, -(2**62)]], np.int64)),
        Tensor("nothing", np.zeros((0, 4), np.float32), region_bytes=8),
        Tensor("strange", np.arange(9, dtype=np.uint8), dtype="int4x2"),
    ]
    opened = show(page_of(write(tmp_path, Made(tensors))))
    opened.settle()
    cards = opened.page.eval_on_selector_all(
        ".map",
        "all => Object.fromEntries(all.map(one => [one.querySelector('h4').textContent, one.innerText]))",
    )
    assert "−2 … 1" in cards["special"] and "1 NaN" in cards["special"] and "2 Inf" in cards["special"]
    assert "−2 … 1" in cards["bfloat"] and "1 NaN · 1 Inf" in cards["bfloat"]
    assert "−448 … 448" in cards["fp8"] and "2 NaN" in cards["fp8"]
    assert "0 … 1" in cards["flags"]
    assert "−4.612e18 … 4.612e18" in cards["large"]
    assert "no elements" in cards["nothing"]
    opened.page.click(".map:nth-child(7) .open")
    assert "unsigned integers" in opened.text("#view-type")
