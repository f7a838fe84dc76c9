"""Pages in a real Chromium. A page that talks on its console, or asks for anything, fails its test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kerncap.api.report import report
from tests.chromium import chromium

OpenPage = Callable[..., "Opened"]


@dataclass
class Opened:
    """A page, and what it must not do: talk on the console, break its policy, ask for a file or a host."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # of those

    def check(self) -> None:
        assert self.said == []
        assert self.asked == []

    def settle(self) -> None:
        """Everything that is built as it comes near is built."""
        self.page.evaluate(
            """async () => {
                for (let y = 0; y < document.body.scrollHeight; y += 400) {
                    scrollTo(0, y);
                    await new Promise(requestAnimationFrame);
                }
                scrollTo(0, 0);
            }"""
        )
        pictures = "[...document.querySelectorAll('.map button .pictures')]"
        self.page.wait_for_function(f"() => {pictures}.every(each => each.querySelector('canvas'))")
        if self.page.query_selector("#code"):
            self.page.wait_for_selector("#code .pane")

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def colours(self, selector: str) -> int:
        """How many different ones a canvas has; one that is not painted yet has a single one, for a while."""
        found = 0
        for _ in range(200):
            found = int(
                self.page.eval_on_selector(
                    selector,
                    """canvas => new Set(new Uint32Array(canvas.getContext("2d").getImageData(
                        0, 0, canvas.width, canvas.height).data.buffer)).size""",
                )
            )
            if found > 1:
                break
            self.page.wait_for_timeout(50)
        return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture
def show(browser: Any) -> Iterator[OpenPage]:
    """Opens a file; everything that a page must not do is checked at the end."""
    pages: list[Opened] = []
    contexts = []

    def open_page(path: Path, width: int = 1280, scheme: str = "light") -> Opened:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.set_default_timeout(300_000)  # milliseconds; a browser on a busy machine takes its time
        contexts.append(context)
        page = context.new_page()
        opened = Opened(page)
        page.on("console", lambda message: opened.said.append(message.text))
        page.on("pageerror", lambda error: opened.said.append(str(error)))
        page.on("dialog", lambda dialog: opened.said.append(f"dialog: {dialog.message}"))
        own = path.resolve().as_uri()
        page.on("request", lambda r: None if r.url.split("#")[0] == own else opened.asked.append(r.url))
        page.on("requestfailed", lambda request: opened.refused.append(request.url))
        page.goto(own)
        pages.append(opened)
        return opened

    yield open_page
    for opened in pages:
        opened.check()
    for context in contexts:
        context.close()


@pytest.fixture
def page_of(tmp_path: Path) -> Callable[..., Path]:
    """The page of a reproducer."""

    def make(reproducer: Path, **options: Any) -> Path:
        return report(reproducer, tmp_path / f"{reproducer.name}.html", **options).path

    return make
