"""A disk that fills, or a limit on file sizes, under each command: one line, status 2, nothing left."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests/golden/v1.4"
BEFORE = "what was here before"
COMMANDS = {
    "pack": "pack repro -o OUT/new.zip",
    "unpack": "unpack repro.zip -o OUT",
    "report": "report repro -o OUT/there.html",
    "export": "export repro --as pytest -o OUT/project",
    "script": "export repro --as script -o OUT/script.py",
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from kerncap.api import pack

    folder = tmp_path_factory.mktemp("source")
    shutil.copytree(GOLDEN, folder / "repro")
    pack(folder / "repro", folder / "repro.zip")
    return folder


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A place for a file system, with what was there before."""
    place = tmp_path / "disk"
    place.mkdir()
    yield place
    subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)


def fill(place: Path, kib: int) -> None:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("mounting a file system is not permitted here")
    (place / "there.html").write_text(BEFORE)


def run(
    source: Path, command: str, out: Path, temporary: Path, file_size: int | None = None
) -> subprocess.CompletedProcess[str]:
    def limited() -> None:
        assert file_size is not None
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "XDG_CONFIG_HOME": str(source / "config")}
    return subprocess.run(
        [sys.executable, "-m", "kerncap", *command.replace("OUT", str(out)).split()], cwd=source, text=True,
        env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
        preexec_fn=None if file_size is None else limited,
    )  # fmt: skip


def held(done: subprocess.CompletedProcess[str], out: Path, whole: bool) -> None:
    """It is there whole, or it was refused in one line and all is as it was."""
    left = sorted(path.name for path in out.iterdir())
    assert "Traceback" not in done.stderr
    assert not [name for name in left if "kerncap-" in name or ".tmp-" in name]
    if done.returncode == 0:
        return
    assert not whole
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith("kerncap: "), done.stderr
    assert left == ["there.html"]
    assert (out / "there.html").read_text() == BEFORE


def cases(sizes: range, short: set[str]) -> list[object]:
    """Each command with each size; ``short`` are the commands of which the least one is always run."""
    return [
        pytest.param(name, size, marks=() if name in short and size == sizes[0] else (pytest.mark.long,))
        for name in COMMANDS
        for size in sizes
    ]


@pytest.mark.parametrize(("name", "kib"), cases(range(8, 65, 8), {"unpack", "export"}))
def test_a_full_output_folder(source: Path, disk: Path, tmp_path: Path, name: str, kib: int) -> None:
    fill(disk, kib)
    held(run(source, COMMANDS[name], disk, tmp_path), disk, whole=False)


@pytest.mark.long
@pytest.mark.parametrize("kib", range(4, 33, 4))
@pytest.mark.parametrize("name", ["report", "pack"])
def test_a_full_temporary_folder(source: Path, disk: Path, tmp_path: Path, name: str, kib: int) -> None:
    fill(disk, kib)
    out = tmp_path / "out"
    out.mkdir()
    (out / "there.html").write_text(BEFORE)
    held(run(source, COMMANDS[name], out, disk), out, whole=False)
    assert [path.name for path in disk.iterdir()] == ["there.html"]


@pytest.mark.parametrize(("name", "limit"), cases(range(512, 4097, 512), {"pack", "report"}))
def test_a_limit_on_the_size_of_files(source: Path, tmp_path: Path, name: str, limit: int) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "there.html").write_text(BEFORE)
    held(run(source, COMMANDS[name], out, tmp_path, limit), out, whole=False)
