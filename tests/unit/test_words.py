"""tools/words.py: which text is looked at, and which words are found in it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]

SOURCE = '''
"""A module's docstring: whoever reads it."""

def find(what: str) -> None:
    """A function's docstring is told to nobody."""
    raise ValueError(f"it lies at {what}, where there is none")

@click.command("show")
def show() -> None:
    """Show it anew."""

class Shown(Document):
    """How it stands."""

NAME = "lies"
'''


@pytest.fixture(scope="module")
def words() -> ModuleType:
    spec = importlib.util.spec_from_file_location("words", ROOT / "tools" / "words.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_strings_and_printed_docstrings(words: ModuleType) -> None:
    found = [
        (line, name)
        for at, text in words._strings(SOURCE)
        for _, line, name, _ in words._in("k.py", at, text)
    ]
    assert found == [
        (1, "whoever"), (10, "anew"), (13, "stands"), (6, "lies"), (6, "where (if)"), (6, "is none"),
    ]  # fmt: skip


def test_a_page_without_its_code(words: ModuleType) -> None:
    page = "It is told.\n```\n$ whoever\n```\nRun `anew` alone, or alone.\n"
    found = [
        (line, name) for at, text in words._prose(page) for _, line, name, _ in words._in("a.md", at, text)
    ]
    assert found == [(1, "told"), (5, "alone (only)"), (5, "alone (only)")]


def test_what_is_allowed_is_there(words: ModuleType) -> None:
    for path, phrases in words.ALLOWED.items():
        text = " ".join((ROOT / path).read_text(encoding="utf-8").split())
        assert [each for each in phrases if each not in text] == [], path
