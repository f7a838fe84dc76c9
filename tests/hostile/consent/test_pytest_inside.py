"""`pytest --kerncap DIR` imports and collects nothing that lies inside a reproducer, wherever that lies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.format.damage import GOLDEN_BLOCK

ROOT = Path(__file__).parents[3]


def plant(folder: Path, mark: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(f"open({str(mark)!r}, 'w')\n")


def run(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    return done.stdout + done.stderr


FILES = ("conftest.py", "test_it.py", "__init__.py", "setup.py")
SITUATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "the corpus": ("corpus", ("--kerncap", ".")),
    "from above": (".", ("--kerncap", "corpus")),
    "the reproducer": (".", ("--kerncap", "corpus/test-1a2b3c4d")),
    "its manifest": (".", ("--kerncap", "corpus", "corpus/test-1a2b3c4d/manifest.json")),
    "one test of it": (".", ("--kerncap", "corpus", "corpus/test-1a2b3c4d/manifest.json::verify")),
    "its source": (".", ("--kerncap", "corpus/test-1a2b3c4d/source")),
    "its source as an argument": (".", ("--kerncap", "corpus", "corpus/test-1a2b3c4d/source")),
    "a file as an argument": (".", ("--kerncap", "corpus", "corpus/test-1a2b3c4d/source/test_it.py")),
    "inside": ("corpus/test-1a2b3c4d", ("--kerncap", ".")),
    "inside its source": ("corpus/test-1a2b3c4d/source", ("--kerncap", "../..")),
    "beside tests": (".", ("--kerncap", "corpus", "mine")),
}


def whole(corpus: Path) -> Path:
    return Path(shutil.copytree(GOLDEN_BLOCK, corpus / "test-1a2b3c4d"))


def nested(corpus: Path) -> Path:
    folder = whole(corpus)
    shutil.copytree(GOLDEN_BLOCK, folder / "source" / "test-inner")
    return folder


def damaged(corpus: Path) -> Path:
    folder = corpus / "test-1a2b3c4d"
    (folder / "source").mkdir(parents=True)
    for name in ("manifest.json", "manifest.sha256"):
        (folder / name).write_text("{")
    return folder


def without_a_digest(corpus: Path) -> Path:
    folder = whole(corpus)
    (folder / "manifest.sha256").unlink()
    return folder


@pytest.mark.parametrize(
    ("make", "how"),
    [
        *((whole, how) for how in ("the corpus", "the reproducer", "inside")),
        *(
            pytest.param(make, how, marks=pytest.mark.long)
            for make in (whole, nested, damaged, without_a_digest)
            for how in SITUATIONS
            if make is not whole or how not in ("the corpus", "the reproducer", "inside")
        ),
    ],
)
def test_nothing_inside_is_imported(
    make: Callable[[Path], Path], how: str, tmp_path: Path, mark: Path
) -> None:
    corpus = tmp_path / "corpus"
    folder = make(corpus)
    for each in (folder, *(below for below in folder.rglob("*") if below.is_dir())):
        plant(each, mark, *FILES)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "test_mine.py").write_text("def test_mine(): pass\n")
    where, arguments = SITUATIONS[how]
    said = run(tmp_path / where, *arguments)
    assert not mark.exists(), said
    assert "INTERNALERROR" not in said and "Traceback" not in said, said


def test_what_is_planted_would_run(tmp_path: Path, mark: Path) -> None:
    plant(tmp_path / "corpus" / "test-plain", mark, "conftest.py")
    run(tmp_path, "--kerncap", "corpus")
    assert mark.exists()  # pytest's own rule, for what is no reproducer


def test_without_the_option_a_reproducer_is_left_out(tmp_path: Path) -> None:
    """One captured of a test, as of a failed one, has a file in it with the test's name."""
    mark = tmp_path / "ran"
    folder = tmp_path / "project" / "kerncap-failures" / "test_mine-1a2b3c4d"
    plant(whole(folder) / "source" / "original", mark, "conftest.py", "test_mine.py")
    (tmp_path / "project" / "test_mine.py").write_text("def test_mine(): pass\n")
    said = run(tmp_path / "project")
    assert "1 test collected" in said and not mark.exists(), said
