"""docs/configuration.md names every variable that the sources read, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
# Where a variable is read or set: quoted in code, by a shell, by the build.
_FOUND = {
    ".py": r"[\"'](KERNCAP_[A-Z_]+)[\"']",
    ".cpp": r"(?:getenv|is_set)\(\"(KERNCAP_[A-Z_]+)\"",
    ".h": r"(?:getenv|is_set)\(\"(KERNCAP_[A-Z_]+)\"",
    ".sh": r"\$\{?(KERNCAP_[A-Z_]+)|\b(KERNCAP_[A-Z_]+)=",
    ".toml": r"env\.(KERNCAP_[A-Z_]+)|define\.(KERNCAP_[A-Z_]+)",
    ".txt": r"(?:set|option)\((KERNCAP_(?:SANITIZE|REQUIRE_\w+)) ",
}
# A test's own, between it and the program that it starts.
_OF_TESTS = r"KERNCAP_(?:RIG|TEST|OLD)\b|KERNCAP_(?:RIG|TEST|OLD|API)_"


def read_by_the_sources() -> set[str]:
    found: set[str] = set()
    files = [ROOT / "pyproject.toml", ROOT / "shims" / "CMakeLists.txt"]
    for top in ("kerncap", "replay", "sanitizer", "shims", "tools"):
        files += [file for file in (ROOT / top).rglob("*") if file.suffix in (".py", ".cpp", ".h", ".sh")]
    for file in files:
        for groups in re.findall(_FOUND[file.suffix], file.read_text(encoding="utf-8")):
            found |= {groups} if isinstance(groups, str) else set(groups) - {""}
    for file in (ROOT / "tests").rglob("*.py"):
        found |= set(
            re.findall(r"environ(?:\.get\(|\[)[\"'](KERNCAP_[A-Z_]+)[\"']", file.read_text(encoding="utf-8"))
        )
    return {name for name in found if not re.match(_OF_TESTS, name)}


def test_every_variable_has_its_row() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(KERNCAP_[A-Z_]+)`", row.split("|")[1])]
    assert sorted(named) == sorted(read_by_the_sources())
