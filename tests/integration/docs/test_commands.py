"""Every command of the documentation and of the README is run, page by page, and prints what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine
from tests.integration.docs.pages import commands, given, unmarked
from tests.integration.docs.running import ROOT, run_page

PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
QUICK = "docs/tutorial.md"  # in `make test`; the others are variations
NAMES = [str(page.relative_to(ROOT)) for page in PAGES if commands(page.read_text())]


@pytest.fixture(scope="session")
def captured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reproducers of samples by name, each captured once for all pages that begin with it."""
    return _Captured(tmp_path_factory)


class _Captured(dict[str, Path]):
    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._kerncap = CommandLine(folders.mktemp("given"))

    def __missing__(self, name: str) -> Path:
        program = ROOT / "samples" / name / "run.py"
        [path] = self._kerncap.capture("-o", name, target=program)
        return self.setdefault(name, path)


@pytest.mark.parametrize(
    "name", [name if name == QUICK else pytest.param(name, marks=pytest.mark.long) for name in NAMES]
)
def test_commands(name: str, tmp_path: Path, captured: dict[str, Path]) -> None:
    page = tmp_path / "page"
    page.mkdir()
    run_page(ROOT / name, page, captured, tmp_path.parent / "config")


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "README.md"], ids=lambda p: p.name)
def test_each_block_is_run_or_says_why_not(page: Path) -> None:
    text = page.read_text()
    assert not [f"line {block.line}" for block in unmarked(text)]
    for name in given(text):
        assert (ROOT / "samples" / name / "run.py").is_file()


def test_the_tutorial_is_among_them() -> None:
    assert QUICK in NAMES and "README.md" in NAMES
