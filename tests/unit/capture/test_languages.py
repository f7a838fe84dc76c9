"""The registry of languages: which one answers, and which other packages bring."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerncap.capture import languages
from kerncap.capture.languages import FoundSource, Language, SourceRequest
from kerncap.format.kernel_names import KernelName

GOLDEN = Path(__file__).parents[2] / "golden" / "v1.5"
MINE = """
import os, pathlib
from kerncap.capture.languages import FoundFile, FoundSource, Language
from kerncap.format.kernel_names import KernelName

pathlib.Path(os.environ["IMPORTED"]).touch()

class Mine(Language):
    def parse_name(self, mangled, demangled):
        return KernelName("plain", ("deep",)) if mangled.startswith("mine_") else None

    def parameters(self, mangled, demangled, declared=()):
        return [("x", "float*")] if mangled.startswith("mine_") else None

    def find(self, request):
        if request.mangled == "mine_bad":
            raise AttributeError("no such thing")
        if not request.mangled.startswith("mine_"):
            return None
        return FoundSource(entry="plain", file="a.mine", files=(FoundFile("a.mine", "/a.mine", b"x"),))

    def is_known(self, request, image):
        return True if request.mangled.startswith("mine_") else None

class NoLanguage:
    pass
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package with a language, one that can't be imported, and one that is no `Language`."""
    folder = tmp_path / "packages"
    facts = folder / "mine-1.0.dist-info"
    facts.mkdir(parents=True)
    (folder / "kc_mine.py").write_text(MINE)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[kerncap.languages]\nmine = kc_mine:Mine\ngone = kc_gone:Gone\nother = kc_mine:NoLanguage\n"
    )
    monkeypatch.setenv("IMPORTED", str(tmp_path / "imported"))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(languages, "_installed", {})
    yield folder
    sys.modules.pop("kc_mine", None)


def test_an_installed_language_is_asked_before_the_built_in_ones(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    languages.load_installed()
    said = capsys.readouterr().err.splitlines()
    assert [re.match(r"kerncap: language (\w+)", line)[1] for line in said] == ["gone", "other"]  # type: ignore[index]
    assert languages.parse_name("mine_k") == KernelName("plain", ("deep",))
    assert languages.parameters("mine_k", "") == [("x", "float*")]
    assert languages.find(SourceRequest("mine_k")).file == "a.mine"
    assert languages.is_known(SourceRequest("mine_k"))
    assert languages.parse_name("_ZN1n1kEPi", "n::k(int*)") == KernelName("k", ("n",), None, ("int*",))
    assert languages.find(SourceRequest("other")).file is None


def test_one_that_raises_is_named_once_and_not_asked_again(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    languages.load_installed()
    capsys.readouterr()
    for _ in range(2):
        found = languages.find(SourceRequest("mine_bad"))
        assert found.entry == "mine_bad" and found.file is None
    assert capsys.readouterr().err.count("AttributeError: no such thing; it is left out") == 1
    assert not languages.is_known(SourceRequest("mine_k"))


@pytest.mark.parametrize(
    ("words", "imports"), [(["list", "--", "true"], True), (["inspect", str(GOLDEN)], False)]
)
def test_only_who_runs_a_program_imports_installed_languages(
    installed: Path, tmp_path: Path, words: list[str], imports: bool
) -> None:
    start = f"import sys; sys.path.insert(0, {str(installed)!r}); from kerncap.cli import main; "
    command = [sys.executable, "-c", f"{start}sys.exit(main({words!r}))"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
    assert done.returncode == (1 if imports else 0), done.stderr  # `true` launches no kernel
    assert (tmp_path / "imported").exists() == imports


class Half(Language):
    def find(self, request: SourceRequest) -> FoundSource | None:
        return FoundSource(entry="half", missing="the compiler kept nothing", notes=("by half",))


def test_ptx_stands_in_for_a_source_that_a_language_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(languages, "_installed", {"half": Half()})
    ptx = ".version 8.0\n.target sm_90\n.visible .entry half()\n{\n ret;\n}\n"
    found = languages.find(SourceRequest("half", ptx=ptx))
    assert (found.language, found.file, found.missing) == ("ptx", "kernel.ptx", "the compiler kept nothing")
    assert found.notes == ("by half", "only the kernel's PTX can be edited")
