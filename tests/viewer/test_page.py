"""What a person sees of a reproducer in Chromium: each tab, by pointer and by keyboard."""

from __future__ import annotations

import contextlib
import io
import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerncap.api.view import Viewer
from kerncap.cli import main
from tests.fuzz.archives import build
from tests.viewer.conftest import GOLDEN, PACKAGES, Viewed

pytestmark = pytest.mark.long

View = Callable[..., Viewed]
Pack = Callable[[str], Path]
GOLDENS = sorted(path.parent.name for path in GOLDEN.glob("*/manifest.json"))
LAUNCH_TABS = ("Launch", "Code", "Values", "Memory")


def panes(panel: Any) -> list[Any]:
    """The source and a stage. The editors come after the rest of the tab."""
    editors = panel.locator(".cm-editor")
    editors.nth(1).wait_for()
    return list(editors.all())


def test_every_golden_folder_opens_in_every_tab(view: View) -> None:
    viewed = view()
    for name in GOLDENS:
        viewed.give_folder(GOLDEN / name)
        assert viewed.page.get_by_role("alert").count() == 0, name
        assert name in viewed.page.inner_text(".heading")
        for tab in LAUNCH_TABS:
            assert viewed.tab(tab).inner_text().strip(), (name, tab)


def test_launch_says_what_was_captured(view: View, pack: Pack) -> None:
    viewed = view()
    viewed.give(pack("v1.2"))
    text = viewed.tab("Launch").inner_text()
    for expected in (
        "app.kernels.scale",
        "2 × 1 × 1",
        "NVIDIA H200, sm_90",
        "x_ptr",
        "float32[250]",
        "region 0 + 512",
    ):
        assert expected in text


def test_lines_are_linked_by_pointer_and_by_keyboard(view: View, pack: Pack) -> None:
    viewed = view()
    viewed.give(pack("v1.2"))
    panel = viewed.tab("Code")
    source, stage = panes(panel)
    source.locator(".cm-line", has_text="x = tl.load").hover()
    marked = stage.locator(".cm-line.marked")
    marked.first.wait_for()
    by_pointer = marked.all_inner_texts()
    assert any("tt.load" in line for line in by_pointer) and not any(
        "tt.store" in line for line in by_pointer
    )

    source.locator(".cm-content").focus()
    for _ in range(8):
        viewed.page.keyboard.press("ArrowDown")
    stage.locator(".cm-line.marked", has_text="tt.store").wait_for()
    assert "tl.store" in source.locator(".cm-line.marked").inner_text()


def test_values_are_those_of_the_memory(view: View, pack: Pack) -> None:
    viewed = view()
    viewed.give(pack("v1.2"))
    panel = viewed.tab("Values")
    panel.get_by_label("Tensor").select_option(label="out_ptr: float32[250]")
    after = panel.locator(".picture", has_text="0, 498")
    after.wait_for()  # the tensor before it is shown until this one was read
    assert "least, most\n0, 0" in panel.locator(".picture").first.inner_text()
    assert "least, most\n0, 498" in after.inner_text() and "mean\n249" in after.inner_text()
    canvas = after.locator("canvas").first
    _painted(viewed.page, canvas)
    canvas.focus()
    for _ in range(3):
        viewed.page.keyboard.press("ArrowRight")
    assert after.locator(".cell").inner_text() == "element 3: 6"


def _painted(page: Any, canvas: Any) -> None:
    """Wait until a picture has more than 100 colours."""
    pixels = "canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer"
    painted = f"canvas => new Set(new Uint32Array({pixels})).size > 100"
    page.wait_for_function(painted, arg=canvas.element_handle())


def test_a_file_of_1_gib(view: View, huge: Path) -> None:
    viewed = view()
    viewed.give(huge)
    panel = viewed.tab("Values")
    for part in panel.locator(".picture").all():  # the garbage before it does not take all of the scale
        _painted(viewed.page, part.locator("canvas").first)
        assert "each picture has its own scale" in part.inner_text()
    panel.get_by_label("Tensor").select_option(label="x_ptr: float32[268435456]")
    shown = panel.locator(".picture", has_text="of 268,435,456").first
    _painted(viewed.page, shown.locator("canvas").first)
    assert "elements\n268,435,456" in shown.inner_text()


def test_memory_shows_regions_and_the_addresses_that_lead_to_them(view: View) -> None:
    viewed = view()
    viewed.give_folder(GOLDEN / "v1.1")
    panel = viewed.tab("Memory")
    assert panel.locator(".region").count() == 4
    assert "0x7f4000000000" in panel.inner_text()
    assert "1 of 2 chunks changed" in str(panel.locator("canvas").first.get_attribute("aria-label"))


def test_a_range_is_a_list_of_launches(view: View) -> None:
    viewed = view()
    viewed.give_folder(GOLDEN / "v1.10")
    rows = viewed.page.get_by_role("tabpanel").locator("tbody tr")
    rows.nth(1).locator("button").nth(1).wait_for()
    assert rows.nth(1).locator("button").all_inner_texts() == ["1", "0"]  # it may read what launch 0 changed
    assert "app.kernels.gather" in viewed.page.get_by_role("tabpanel").inner_text()
    rows.nth(2).locator("button").first.click()
    assert "number\n" in viewed.tab("Launch").inner_text()
    assert viewed.page.locator(".heading select").input_value() == "2"


def test_two_reproducers_are_compared(view: View, pack: Pack) -> None:
    viewed = view()
    viewed.give(pack("v1.0"), pack("v1.2"))
    text = viewed.tab("Compare").inner_text()
    assert "launch.grid.0" in text and "platform.packages.triton" in text
    viewed.page.locator(".merge .cm-changedLine").first.wait_for()


def test_every_digest_is_checked_on_demand(view: View, pack: Pack) -> None:
    viewed = view()
    viewed.give(pack("v1.0"))
    viewed.page.get_by_role("button", name="Check every digest").click()
    viewed.page.get_by_text("all digests are right").wait_for()


@pytest.fixture
def sanitized(tmp_path: Path) -> Path:
    """What the sanitizer says of v1.2: one finding, in line 9 of the source."""
    target, out = tmp_path / "sanitized.json", io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["sanitize", "--json", str(GOLDEN / "v1.2")]) == 1
    target.write_text(out.getvalue())
    return target


def test_findings_are_next_to_their_lines(view: View, pack: Pack, sanitized: Path) -> None:
    viewed = view()
    viewed.give(pack("v1.2"), sanitized)
    assert "sanitizer: fail memory operations: 1 proved, 1 violated" in viewed.tab("Launch").inner_text()
    panel = viewed.tab("Code")
    panel.locator(".notes .finding button").click()
    source, stage = panes(panel)
    stage.locator(".cm-line.marked", has_text="tt.store").wait_for()
    assert "tl.store" in source.locator(".cm-lintRange-error").inner_text()


def test_a_verdict_is_next_to_the_oracle(view: View, pack: Pack, tmp_path: Path) -> None:
    texts = ("summary", "path", "engine", "device", "triton", "driver", "judged_by")
    stage = {"name": "oracle", "result": "pass", "reasons": [], "shown": ["same bytes"], "not_shown": ["NaN"]}
    verdict = {
        "result": "pass", "kernel": "scale", "reasons": [], "exact": True, "compared_bytes": 4096,
        "poisoned_bytes": 1000, "placement": {"honoured": 1, "relocated": []}, "notes": [], "views": [],
        "runs": 1, "different": None, "timing": None, "stages": [stage],
        **{key: f"its {key}" for key in texts},
    }  # fmt: skip
    result, other = tmp_path / "verdict.json", tmp_path / "other.json"
    result.write_text(json.dumps(verdict))
    other.write_text(json.dumps({**verdict, "kernel": "another"}))
    viewed = view()
    viewed.give(pack("v1.2"), result, other)
    text = viewed.tab("Launch").inner_text()
    assert "verified: pass its summary" in text and "same bytes" in text
    assert text.count("verified") == 1
    other.write_text(json.dumps({"result": "pass"}))
    viewed.give(other)
    assert "not the --json of sanitize" in viewed.page.get_by_role("alert").inner_text()


def test_hostile_files_end_in_one_line_and_the_page_goes_on(view: View, pack: Pack, tmp_path: Path) -> None:
    viewed = view()
    refused = 0
    for seed in range(90):
        archive = tmp_path / f"hostile-{seed}.zip"
        archive.write_bytes(build(random.Random(seed)))
        viewed.give(archive)
        alert = viewed.page.get_by_role("alert")
        if alert.count():
            refused += 1
            assert len(alert.inner_text().splitlines()) == 1
    assert refused >= 60
    viewed.give(pack("v1.2"))
    assert viewed.page.get_by_role("alert").count() == 0
    assert viewed.tab("Launch").is_visible()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_axe_finds_no_violation(view: View, pack: Pack, sanitized: Path, width: int, scheme: str) -> None:
    viewed = view(width=width, scheme=scheme)
    # Not as a script of the page: its policy would refuse that.
    axe = (PACKAGES / "axe-core/axe.min.js").read_text()
    viewed.page.evaluate(axe)
    assert _violations(viewed.page) == []
    viewed.give_folder(GOLDEN / "v1.10")
    assert _violations(viewed.page) == []
    viewed.give(pack("v1.0"), pack("v1.2"), sanitized)
    for tab in (*LAUNCH_TABS, "Compare"):
        viewed.tab(tab)
        assert _violations(viewed.page) == [], tab
        assert viewed.page.evaluate("document.documentElement.scrollWidth") <= width, tab


def _violations(page: Any) -> list[str]:
    found = page.evaluate("axe.run()")["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


def test_the_page_can_ask_for_nothing(view: View) -> None:
    viewed = view()
    refused = viewed.page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'asked', error => String(error))")
    assert refused.startswith("TypeError")
    assert all("Content Security Policy" in said for said in viewed.wrong) and viewed.wrong
    viewed.wrong.clear()


def test_kerncap_view_gives_the_page_its_files(view: View, pack: Pack) -> None:
    with Viewer([pack("v1.0"), GOLDEN / "v1.10"]) as viewer:
        serving = threading.Thread(target=viewer.serve)
        serving.start()
        try:
            viewed = view(viewer.url)
            viewed.page.get_by_role("tab", name="Compare").wait_for()
            assert "v1.10" in viewed.page.inner_text(".heading")
            viewed.page.get_by_role("button", name="Check every digest").click()
            viewed.page.get_by_text("all digests are right").wait_for()
            assert viewed.tab("Values").locator("canvas").count() > 0
        finally:
            viewer.stop()
            serving.join()
