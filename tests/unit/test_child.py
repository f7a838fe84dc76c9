"""How children are started, and what their environment and PATH are rid of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kerncap import child


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a tool in it and in folders below; one of them is a reproducer."""
    for folder in ("", "bin", "repro/bin"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "nvcc").write_text("#!/bin/sh\n")
        (tmp_path / folder / "nvcc").chmod(0o755)
    (tmp_path / "repro" / "manifest.json").write_text('{"format": "kerncap-reproducer"}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "path", ["", ":", ".", "./", "bin", "../", "{}/repro/bin", "{}/repro", "{}/link/bin"]
)
def test_no_tool_is_taken_from_here(path: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "link").symlink_to("repro")
    entries = path.format(here)
    assert child.find("nvcc", entries) is None
    monkeypatch.setenv("PATH", entries)
    assert child.find("nvcc") is None
    with pytest.raises(FileNotFoundError):
        child.program("nvcc")


def test_a_tool_of_the_users_own_is_found(here: Path) -> None:
    assert child.find("nvcc", f":.:{here}/repro/bin:{here}/bin") == str(here / "bin" / "nvcc")
    assert child.find("./nvcc", str(here)) is None, "a path is no name"


def test_what_the_user_names_by_a_path_is_that(here: Path) -> None:
    assert child.program("./bin/nvcc") == str(here / "bin" / "nvcc")


@pytest.mark.parametrize("name", ["PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD"])
@pytest.mark.parametrize("entry", [".", "./lib", "lib/x.so", "..", "{}/repro/bin"])
def test_the_environment_does_not_lead_here(name: str, entry: str, here: Path) -> None:
    entry = entry.format(here)
    if name == "LD_PRELOAD" and os.sep not in entry:
        pytest.skip("a bare name is one for the loader's own folders")
    found = child.environment({name: f"{entry}:{here}/bin:", "OTHER": "."})
    assert found == {name: f"{here}/bin", "OTHER": "."}
    assert child.environment({name: entry}) == {}, "an empty path may mean the current folder"


def test_a_preloaded_library_by_name_stays() -> None:
    given = {"LD_PRELOAD": "libjemalloc.so.2 ./evil.so /opt/lib/own.so"}
    assert child.environment(given) == {"LD_PRELOAD": "libjemalloc.so.2:/opt/lib/own.so"}


def test_an_environment_with_nothing_of_it_stays_as_it_is(here: Path) -> None:
    given = {"PATH": f"/usr/bin:{here}/bin", "PYTHONPATH": str(here), "LD_LIBRARY_PATH": "/opt/lib"}
    assert child.environment(given) == given
    assert child.for_kerncap(given) == given


def test_a_kerncap_of_ours_has_the_users_environment_for_a_target(tmp_path: Path) -> None:
    given = {**os.environ, "PYTHONPATH": "src:", "LD_LIBRARY_PATH": ":/opt/lib"}
    program = (
        "import os, sys; from kerncap import child; child.restore();"
        "print([os.environ.get(n) for n in ('PYTHONPATH', 'LD_LIBRARY_PATH', child._GIVEN)])"
    )
    passed = child.for_kerncap(given)
    done = subprocess.run([sys.executable, "-c", program], env=passed, capture_output=True, text=True)
    assert done.stdout.strip() == "['src:', ':/opt/lib', None]", done.stderr


def test_a_child_is_in_an_empty_folder_of_its_own() -> None:
    words = [sys.executable, "-c", "import os; print(os.listdir(), oct(os.stat('.').st_mode & 0o777))"]
    done = child.run_text(words, timeout=60)
    assert done.stdout.strip() == "[] 0o700"


def test_a_child_that_takes_too_long_ends_with_what_it_started(tmp_path: Path) -> None:
    read_fd, write_fd = os.pipe()  # open as long as one of them lives
    words = ["/bin/sh", "-c", "sleep 1000 & sleep 1000"]
    started = child.Child(words, pass_fds=(write_fd,))
    os.close(write_fd)
    with pytest.raises(subprocess.TimeoutExpired):
        started.wait(0.05)
    assert started.end() == -9
    assert os.read(read_fd, 1) == b""
    os.close(read_fd)


def test_what_a_child_leaves_behind_ends_with_the_tie() -> None:
    """Even where it holds nothing but what it has inherited."""
    read_fd, write_fd = os.pipe()
    started = child.Child(["/bin/sh", "-c", "sleep 1000 &"], pass_fds=(write_fd,))
    os.close(write_fd)
    assert started.wait(60) == 0
    assert os.read(read_fd, 1) == b""
    os.close(read_fd)


def test_kerncap_runs_itself_by_path(tmp_path: Path) -> None:
    for name in ("kerncap.py", "json.py", "click.py"):
        (tmp_path / name).write_text("raise SystemExit('this must not run')")
    done = child.run_text(child.kerncap("kerncap.cli", "--version"), timeout=60, cwd=tmp_path)
    assert done.returncode == 0 and "kerncap, version" in done.stdout, done.stderr
