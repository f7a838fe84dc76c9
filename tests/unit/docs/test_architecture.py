"""docs/architecture.md names files that are there, and every folder of the product."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
_PATH = re.compile(r"`((?:kerncap|replay|sanitizer|shims|tests|samples|benchmarks|tools|docs)/[\w./-]*)`")
# Reached through another row: the page says where a change begins, not every folder.
_BELOW = {"kerncap/replay", "kerncap/sanitizer"}


def rows(heading: str) -> list[tuple[str, str]]:
    """The two columns of the tables below a heading."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    found = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [(what.strip(), where.strip()) for what, where in found if what.strip() != "to change"]


def test_every_path_exists() -> None:
    named = _PATH.findall(PAGE)
    assert len(named) > 80
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_map_leads_somewhere() -> None:
    named = rows("To change X, go to Y")
    assert len(named) > 120
    for what, where in named:
        assert _PATH.findall(where), what


def test_each_room_of_the_product_is_on_the_page() -> None:
    tops = [ROOT / top for top in ("kerncap", "sanitizer", "shims")]
    rooms = {
        str(folder.relative_to(ROOT))
        for top in tops
        for folder in top.iterdir()
        if folder.is_dir() and any(file.suffix in (".py", ".cpp", ".h") for file in folder.iterdir())
    }
    named = {"/".join(path.split("/")[:2]) for path in _PATH.findall(PAGE)}
    assert rooms - named - _BELOW == set()
