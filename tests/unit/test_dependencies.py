"""docs/dependencies.md against pyproject.toml and the code: packages, readers of bytes, ctypes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from kerncap.replay.worker import cuda_bindings

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/dependencies.md").read_text()
FOLDERS = ("kerncap", "replay", "sanitizer", "shims/triton")
# Names of import that are not the package's own.
_PACKAGE_OF = {
    "anyio": "mcp", "constraint": "python-constraint2", "cuda": "cuda-bindings", "dask": "distributed",
    "detect_secrets": "detect-secrets", "elftools": "pyelftools", "hip": "hip-python", "markupsafe": "jinja2",
    "mcp_types": "mcp", "z3": "z3-solver",
}  # fmt: skip
# Of the program's Python, imported only where it has them; pytest is what the plugin is loaded by.
_FOUND_THERE = {"torch", "triton", "numba", "pytest"}


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def files_listed(title: str) -> list[str]:
    rows = re.findall(r"^\| (`[^|]+`) \|", section(title), re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


@cache
def texts() -> dict[str, str]:
    """The modules by path; kerncap/replay, kerncap/sanitizer and two files are links to others of these."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return {str(p.relative_to(ROOT)): p.read_text() for p in paths if p.resolve() == p.absolute()}


def imports(text: str) -> set[str]:
    """Names of top-level packages, those of scripts in strings as well."""
    found = re.findall(
        r"^\s*from ([\w.]+) import |^\s*import ([\w., ]+?)(?: as \w+)?\s*(?:#.*)?$", text, re.MULTILINE
    )
    return {name.strip().split(".")[0] for pair in found for name in "".join(pair).split(",")}


def uses_ctypes(text: str) -> bool:
    return "ctypes" in imports(text)


def takes_numbers(text: str) -> bool:
    """Whether it takes numbers out of bytes: by struct, or by `int.from_bytes`."""
    if re.search(r"\.(?:from_bytes|unpack_from|iter_unpack)\(|\(int\.from_bytes", text):
        return True
    return ".unpack(" in text and "struct" in imports(text)


@pytest.mark.parametrize(
    ("title", "does"),
    [("Files that use ctypes", uses_ctypes), ("Binary formats that are read by hand", takes_numbers)],
)
def test_each_file_has_its_line_and_each_line_its_file(title: str, does: Callable[[str], bool]) -> None:
    listed = files_listed(title)
    assert len(set(listed)) == len(listed)
    assert sorted(listed) == sorted(name for name, text in texts().items() if does(text))


def test_each_package_has_its_line_and_each_line_its_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def names(requirements: list[str]) -> set[str]:
        found = (re.match(r"[\w.-]+", each) for each in requirements)
        return {each[0] for each in found if each is not None} - {"kerncap"}

    extras = project["optional-dependencies"]
    used = names(project["dependencies"]).union(
        *(names(extras[extra]) for extra in extras if extra not in ("dev", "docs", "all"))
    )
    rows = re.findall(r"^\| ([\w, -]+?)(?: \(`\w+`\))? \|", section("Packages"), re.MULTILINE)
    listed = {name for row in rows for name in row.split(", ")} - {"package", "---"}
    assert listed == used
    working = re.search(r"^For work on kerncap: (.*)\.$", PAGE, re.MULTILINE)
    assert working is not None
    assert set(working[1].split(", ")) == names(extras["dev"] + extras["docs"]) - used


def test_what_a_worker_asks_for_is_what_the_extra_brings() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["cuda"] == [cuda_bindings.REQUIREMENT]


def test_each_import_is_of_a_listed_package() -> None:
    imported = set[str]().union(*(imports(text) for text in texts().values()))
    own = {"", "kerncap", "kerncap_triton", "_kerncap_worker", "sitecustomize"}
    foreign = imported - set(sys.stdlib_module_names) - own - _FOUND_THERE
    for name in sorted(foreign):
        assert re.search(
            rf"^\| .*\b{re.escape(_PACKAGE_OF.get(name, name))}\b", section("Packages"), re.MULTILINE
        ), name
