"""`pytest --kerncap DIR`: reproducers as tests, in a pytest of their own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine, Finished
from tests.parameters import first_of

from .conftest import ROOT, Capture

NOTHING = """
import triton


@triton.jit
def nothing():
    pass


nothing[(2,)]()
"""


@pytest.fixture(scope="module")
def corpus(kerncap_of_module: CommandLine, softmax: Path) -> Path:
    """A reproducer with a candidate beside it, a packed one below, and one that is damaged."""
    folder = kerncap_of_module.folder / "corpus"
    shutil.copytree(softmax, folder / softmax.name)
    shutil.copy(ROOT / "samples" / "softmax" / "wrong.py", folder / f"{softmax.name}.candidate-wrong.py")
    (folder / "sub").mkdir()
    done = kerncap_of_module("pack", softmax, "-o", folder / "sub" / "packed-1234.zip")
    assert done.status == 0, done.stderr
    (folder / "damaged").mkdir()
    for name in ("manifest.json", "manifest.sha256"):
        (folder / "damaged" / name).write_text("{")
    (folder / "test_beside.py").write_text("def test_beside(): pass\n")
    return folder


def run(kerncap: CommandLine, *arguments: str | Path, trusted: bool = True) -> Finished:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *map(str, arguments)]
    environment = kerncap.environment({"PYTHONPATH": str(ROOT)})
    if not trusted:
        environment["XDG_CONFIG_HOME"] = str(kerncap.folder / "nothing-is-trusted")
    done = subprocess.run(
        command, cwd=kerncap.folder, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def test_each_reproducer_is_a_test(kerncap_of_module: CommandLine, corpus: Path) -> None:
    done = run(kerncap_of_module, "--kerncap", "corpus", "-v", "-n", "1")
    text = done.stdout
    name = next(path.name for path in corpus.iterdir() if (path / "memory").is_dir())
    for line in (
        f"PASSED corpus/{name}/manifest.json::verify",
        f"FAILED corpus/{name}/manifest.json::candidate[{name}.candidate-wrong.py]",
        "PASSED corpus/sub/packed-1234.zip::verify",
        "FAILED corpus/damaged/manifest.json::verify",
        "PASSED corpus/test_beside.py::test_beside",
    ):
        assert line in text, text + done.stderr
    assert "out_ptr: 115 of 400 elements differ" in text and "again: kerncap verify" in text
    assert "damaged/manifest.json: byte" in text
    assert done.status == 1


def test_what_was_not_captured_here_is_not_run(kerncap_of_module: CommandLine, corpus: Path) -> None:
    done = run(kerncap_of_module, "--kerncap", "corpus/sub", "-q", trusted=False)
    assert done.status == 1 and "repeat with --kerncap-trust" in done.stdout, done.stdout


def test_a_missing_engine_skips_by_name(kerncap_of_module: CommandLine) -> None:
    shutil.copytree(ROOT / "tests" / "golden" / "v1.1", kerncap_of_module.folder / "gpu" / "scale-1")
    done = run(kerncap_of_module, "--kerncap", "gpu", "--kerncap-trust", "-q")
    if "1 skipped" not in done.stdout:  # where there is a GPU its image, which is no real one, is refused
        assert done.status == 1, done.stdout
        return
    assert "the binary engine is not available" in done.stdout, done.stdout


@first_of(
    ("options", "reason"),
    [
        # A name that no file can have is no mistake of the plugin's.
        (("--kerncap", "nowhere" * 50), "nowhere: no such file or folder"),
        (("--kerncap", ".", "--kerncap-stages", "taste"), "taste is not a stage"),
        (("--kerncap", ".", "--kerncap-candidate", "k"), "--kerncap-candidate k: expected KERNEL=FILE"),
    ],
)
def test_wrong_options(kerncap: CommandLine, options: tuple[str, ...], reason: str) -> None:
    done = run(kerncap, *options)
    assert done.status == 4 and reason in done.stderr, done.stdout + done.stderr


def test_collecting_executes_nothing(kerncap_of_module: CommandLine, corpus: Path) -> None:
    """And takes a candidate by the kernel's name."""
    candidate = corpus.parent / "mine.py"
    candidate.write_text("")
    name = next(path.name for path in corpus.iterdir() if (path / "memory").is_dir())
    selected = f"corpus/{name}/manifest.json::candidate[mine.py]"
    options = ("--kerncap", "corpus", "--kerncap-candidate", f"softmax_kernel={candidate}", "--collect-only")
    done = run(kerncap_of_module, *options, "-q")
    assert done.status == 0 and selected in done.stdout.splitlines(), done.stdout
    again = run(kerncap_of_module, *options, "-q", selected)
    assert "1 test collected" in again.stdout.replace("/6 tests", " test"), again.stdout


@pytest.mark.long
def test_an_undecided_one_skips_with_its_reason_unless_strict(
    kerncap_of_module: CommandLine, captured: Capture
) -> None:
    program = kerncap_of_module.target(NOTHING, name="nothing.py")
    reproducer = captured(program)
    shutil.copytree(reproducer, kerncap_of_module.folder / "open" / reproducer.name)
    done = run(kerncap_of_module, "--kerncap", "open", "-q")
    assert done.status == 0 and "undecided: nothing to compare: the launch writes nothing" in done.stdout
    done = run(kerncap_of_module, "--kerncap", "open", "--kerncap-strict", "-q")
    assert done.status == 1 and "Result: UNDECIDED (nothing to compare: " in done.stdout, done.stdout
