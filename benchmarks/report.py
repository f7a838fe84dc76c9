"""How long a report takes to open in Chromium, against the same page with all of its parts built at once.

Two pages: the flash-attention sample's, which has to open in under 2 s, and that of a large reproducer (16
tensors, 20,000 lines of PTX). Opened: loaded, and drawn for the first time.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from _harness import ROOT, Row, arguments, capture, finish

ROUNDS = 5
LIMIT_S = 2.0
DRAWN = """() => new Promise(done =>
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"""
MAPS = "[...document.querySelectorAll('.map button .pictures')]"
BUILT = f"""() => {MAPS}.every(each => each.querySelector('canvas'))
    && document.querySelector('#code .pane') !== null
    && [...document.querySelectorAll('.lines > div')].every(each => each.childElementCount)"""


def main() -> int:
    options = arguments(__doc__).parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("report: needs chromium, skipped")
        return 0
    from playwright.sync_api import sync_playwright

    rows, slowest = [], 0.0
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=sandbox)
        for name, page in pages(Path(folder)).items():
            at_once = page.with_name(f"{name}-at-once.html")
            at_once.write_text(unlazy(page.read_text(encoding="utf-8")), encoding="utf-8")
            opened = statistics.median(seconds(browser, page, False) for _ in range(ROUNDS))
            whole = statistics.median(seconds(browser, at_once, True) for _ in range(ROUNDS))
            slowest = max(slowest, opened)
            note = f"{page.stat().st_size / 1e6:.2f} MB"
            rows.append(
                Row(f"open: {name}", opened, "s", f"built at once ({whole:.3f} s)", opened / whole, note=note)
            )
        browser.close()
    status = finish("report", rows, options.json)
    if not options.json:
        print(f"under {LIMIT_S:g} s: {'yes' if slowest < LIMIT_S else 'no'}")
    return status or int(slowest >= LIMIT_S)


def pages(folder: Path) -> dict[str, Path]:
    """The pages by name."""
    from kerncap.api.report import report

    sample = ROOT / "samples" / "flash_attention" / "run.py"
    os.environ.setdefault("TRITON_INTERPRET", "1")
    flash = capture(folder / "out", [], [sys.executable, str(sample)])[0]
    found = {"flash attention": flash, "large": large(folder)}
    return {
        name: report(path, folder / f"{name}.html", allow=["paths", "secrets"]).path
        for name, path in found.items()
    }


def large(folder: Path) -> Path:
    """A reproducer with much to show."""
    import numpy as np

    sys.path.insert(0, str(ROOT))
    from tests.integration.report.reproducers import Made, Tensor, write

    noise = np.random.default_rng(0)
    tensors = [
        Tensor(f"x{number}", before, before * np.float32(2))
        for number, before in enumerate(noise.standard_normal((16, 512, 512), dtype=np.float32))
    ]
    lines = [f"\tfma.rn.f32 \t%f{n}, %f{n + 1}, %f{n + 2}, %f{n};" for n in range(19_999)]
    ptx = "\n".join(['.file 1 "/app/model.py"', *lines[:9], "\t.loc 1 107 5", *lines[9:]])
    return write(folder, Made(tensors, code={"ptx": ptx.encode()}))


def unlazy(page: str) -> str:
    """The page with every part built when it is loaded."""
    old = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)[0]
    new = old.replace('rootMargin: "600px 0px"', 'rootMargin: "99999999px"')
    # A pane clips what is in it, so its own lines would wait until they are scrolled to.
    new = new.replace("if (start === 0) build();", "if (start >= 0) build();")
    assert new.count("99999999px") == 1 and "start >= 0" in new
    before, after = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (old, new))
    return page.replace(old, new).replace(before, after)


def seconds(browser: Any, page: Path, whole: bool) -> float:
    """From the start of the navigation until it is drawn, or until everything is built."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    tab.goto(page.as_uri())
    if whole:
        tab.wait_for_function(BUILT)
    taken = float(tab.evaluate(DRAWN)) / 1e3
    context.close()
    return taken


if __name__ == "__main__":
    sys.exit(main())
