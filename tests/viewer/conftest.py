"""The viewer's page in a real browser: one that writes to its console, or asks for anything, fails."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncap.api.view import PAGE
from kerncap.format import LaunchRange, Reproducer
from kerncap.format.archive import write_archive
from kerncap.format.folder import is_range
from kerncap.format.reader import OpenedFolder
from tests.chromium import chromium
from tests.unit.replay.build import ADD, BASE, Launch

GOLDEN = Path(__file__).parents[1] / "golden"
PACKAGES = Path(__file__).parents[2] / "build/viewer/node_modules"
WAIT_MS = 60_000  # a browser on a busy machine takes its time
ZIP_INPUT = "input[type=file]:not([webkitdirectory])"


def opened(folder: Path) -> OpenedFolder:
    return (LaunchRange if is_range(folder) else Reproducer).open(folder)


@pytest.fixture(scope="session")
def node() -> str:
    found = shutil.which("node")
    if found is None or not PACKAGES.is_dir():
        pytest.skip("no node, or no packages of the viewer: make viewer")
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if not PAGE.exists():
        pytest.skip("the page was not built: make viewer")
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The archive of a golden reproducer."""
    folder = tmp_path_factory.mktemp("packed")

    def packed(name: str) -> Path:
        target = folder / f"{name}.zip"
        if not target.exists():
            with opened(GOLDEN / name) as one:
                write_archive(one, target)
        return target

    return packed


@pytest.fixture(scope="session")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    archive = write_huge(tmp_path_factory.mktemp("huge"))
    yield archive
    archive.unlink()


def write_huge(folder: Path) -> Path:
    """An archive of 1 GiB of noise; `out_ptr` is garbage before the launch, 1 to 4096 after it."""
    noise = np.random.default_rng(1).standard_normal(1 << 28, dtype=np.float32)
    after = np.arange(1, 4097, dtype=np.float32)
    launch = Launch(ADD, "add").tensor(
        "out_ptr", noise[:4096] * np.float32(1e30), after, base=BASE + (2 << 30)
    )
    sealed = launch.tensor("x_ptr", noise, base=BASE).seal(folder)
    with opened(sealed) as one:
        write_archive(one, folder / "huge.zip")
    shutil.rmtree(sealed)
    return folder / "huge.zip"


@dataclass
class Viewed:
    """A page, and what it must not do: talk on its console, or ask for anything."""

    page: Any
    wrong: list[str] = field(default_factory=list)

    def give(self, *archives: Path) -> None:
        """Open archives; waits until the last one is shown, or refused."""
        self.page.set_input_files(ZIP_INPUT, [str(path) for path in archives])
        self._settle()

    def give_folder(self, folder: Path) -> None:
        self.page.set_input_files("input[webkitdirectory]", str(folder))
        self._settle()

    def _settle(self) -> None:
        self.page.wait_for_function("() => document.querySelector('.status').textContent === ''")

    def tab(self, name: str) -> Any:
        """Open a tab; its panel, once nothing in it is pending."""
        self.page.get_by_role("tab", name=name, exact=True).click()
        panel = self.page.get_by_role("tabpanel")
        pending = "[...document.querySelectorAll('[role=tabpanel] [role=status]')]"
        self.page.wait_for_function(f"() => !{pending}.some(each => each.textContent === 'Reading…')")
        return panel


@pytest.fixture
def view(browser: Any) -> Iterator[Callable[..., Viewed]]:
    contexts: list[Any] = []
    shown: list[Viewed] = []

    def open_page(url: str = PAGE.as_uri(), width: int = 1280, scheme: str = "light") -> Viewed:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.set_default_timeout(WAIT_MS)
        contexts.append(context)
        page = context.new_page()
        viewed = Viewed(page)
        page.on("console", lambda message: viewed.wrong.append(message.text))
        page.on("pageerror", lambda error: viewed.wrong.append(str(error)))
        page.on("dialog", lambda dialog: viewed.wrong.append(dialog.message))
        own = (url.split("#")[0], "blob:", "data:")
        page.on("request", lambda r: None if r.url.startswith(own) else viewed.wrong.append(r.url))
        page.goto(url)
        shown.append(viewed)
        return viewed

    yield open_page
    for viewed in shown:
        assert viewed.wrong == []
    for context in contexts:
        context.close()


def by_hand(folder: Path, target: Path) -> Path:
    """An archive of a folder as it is; `pack` would refuse to make some."""
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            archive.write(path, f"repro/{path.relative_to(folder)}")
    return target
