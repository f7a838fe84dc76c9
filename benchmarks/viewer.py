"""How long `kerncap view`'s page takes from an opened archive of 1 GiB to its first picture, in Chromium.

And the longest pause of the page meanwhile, which is what a person would feel as freezing.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from _harness import ROOT, Row, arguments, finish

ROUNDS = 3
LIMIT_S, PAUSE_S = 2.0, 0.2
# Started before the archive is given; ends when a canvas of Values has more than one colour.
PICTURE = """() => { window.measured = new Promise(done => {
    let started = 0, last = 0, pause = 0;
    document.addEventListener("change", () => { started = last = performance.now(); }, {capture: true});
    const look = () => {
        const now = performance.now();
        if (started) { pause = Math.max(pause, now - last); last = now; }
        for (const canvas of document.querySelectorAll(".picture > canvas")) {
            if (!canvas.width || !canvas.height) continue;
            const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            if (new Set(new Uint32Array(data.buffer)).size > 1) return done([now - started, pause]);
        }
        requestAnimationFrame(look);
    };
    look();
    setTimeout(() => done([Infinity, Infinity]), 60000);
}); }"""


def main() -> int:
    options = arguments(__doc__).parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("viewer: needs chromium, skipped")
        return 0
    from playwright.sync_api import sync_playwright

    sys.path.insert(0, str(ROOT))
    from kerncap.api.view import PAGE
    from tests.viewer.conftest import write_huge

    if not PAGE.exists():
        print("viewer: needs its page (make viewer), skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        archive = write_huge(Path(folder))
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=sandbox)
        taken = [measured(browser, PAGE.as_uri(), archive) for _ in range(ROUNDS)]
        browser.close()
    picture, pause = (statistics.median(each) for each in zip(*taken, strict=True))
    return finish(
        "viewer",
        [
            Row("first picture of 1 GiB", picture, "s", f"{LIMIT_S:g} s", picture / LIMIT_S, most=1),
            Row("longest pause meanwhile", pause, "s", f"{PAUSE_S:g} s", pause / PAUSE_S, most=1),
        ],
        options.json,
    )


def measured(browser: Any, url: str, archive: Path) -> tuple[float, float]:
    """Seconds until the first picture, and of the longest pause."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(url)
    page.evaluate(PICTURE)
    page.set_input_files("input[type=file]:not([webkitdirectory])", str(archive))
    page.wait_for_function("() => document.querySelector('.status').textContent === ''")
    page.get_by_role("tab", name="Values", exact=True).click()
    picture, pause = page.evaluate("window.measured")
    context.close()
    return picture / 1e3, pause / 1e3


if __name__ == "__main__":
    sys.exit(main())
