"""A reproducer holds what its manifest lists: all else is refused by name, in a folder and an archive."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from kerncap.api.inspect import inspect
from kerncap.errors import FormatError
from kerncap.format import Checks, Reproducer
from kerncap.format.archive import unpack, write_archive
from tests.unit.format.damage import GOLDEN, GOLDEN_HIP, GOLDEN_NATIVE

# What Python, pytest, a compiler, a loader or a shell would take from the folder that it stands in.
RUNS = (
    "ctypes.py", "importlib.py", "json.py", "torch.py", "triton.py", "msgspec.py", "kerncap.py", "click.py",
    "sitecustomize.py", "usercustomize.py", "conftest.py", "pytest.ini", "pyproject.toml", "tox.ini",
    "setup.py", "__main__.py", "a.pth", "pyvenv.cfg", "json.cpython-312-x86_64-linux-gnu.so",
    "ctypes.abi3.so", "torch.so", "libcuda.so.1", "libkerncap_cuda.so", "nvcc", "hipcc", "python3",
    "Makefile", "CMakeLists.txt", "kerncap/__init__.py", "torch/__init__.py", "ctypes/_endian.py",
    "encodings/utf_8.py", ".git/config", ".env", "__pycache__/ctypes.cpython-312.pyc",
    "source/__pycache__/scale.cpython-312.pyc", "source/helper.py", "source/conftest.py", "source/ctypes.py",
    "code/kernel.so", "code/ctypes.py", "memory/json.py", "memory/x",
)  # fmt: skip
# What is nearly a name that may be there.
NEARLY = (
    "MANIFEST.JSON", "Manifest.sha256", "readme.md", "README.md.py", "checks.json.py", "checks.py",
    "write_set-0.bin", "write_set-0123456789abcdeF.bin", "write_set-0123456789abcdef.bin.py",
    "xwrite_set-0123456789abcdef.bin", "a/write_set-0123456789abcdef.bin", "source/checks.json",
    "source/manifest.json", ".checks.json.tmp-1-x.py", ".checks.json.tmp-1-0123456g", ".json.tmp-1-01234567",
    ".nfs", ".nfs0001.py", ".nfs00/x", "checks.json\n", "\x1b[2J.py", "ctypes\u202eyp.txt", "a\nb.py",
)  # fmt: skip


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("packed") / "a.zip"
    with Reproducer.open(GOLDEN) as reproducer:
        write_archive(reproducer, target)
    return target


@pytest.mark.parametrize("name", RUNS + NEARLY, ids=ascii)
def test_in_a_folder(tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(GOLDEN, tmp_path / "repro"))
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("raise SystemExit('it ran')\n")
    with pytest.raises(FormatError, match="not a (file|folder) of a reproducer: .*; take it out") as refused:
        inspect(folder)
    first = folder / name.split("/")[0]
    # The folder that holds it, if nothing that is listed lies there, else the file; escaped.
    assert str(refused.value).isprintable()
    named = Path(refused.value.path)
    assert not name.isprintable() or first == named or first in named.parents


@pytest.mark.parametrize("name", (*RUNS, *NEARLY, "memory/index/x.py", "manifest.json/x.py"), ids=ascii)
def test_in_an_archive(tmp_path: Path, packed: Path, name: str) -> None:
    archive = Path(shutil.copy(packed, tmp_path / "a.zip"))
    with zipfile.ZipFile(archive, "a") as changed:
        top = changed.namelist()[0].split("/")[0]
        changed.writestr(f"{top}/{name}", "raise SystemExit('it ran')\n")
    with pytest.raises(FormatError) as refused:
        unpack(archive, tmp_path / "out", 1 << 30)
    assert "not a file of a reproducer" in str(refused.value) or "is listed twice" in str(refused.value)
    assert str(refused.value).isprintable()
    assert not list((tmp_path / "out").glob("*"))


@pytest.mark.parametrize("name", ["ctypes.py", "other/ctypes.py", "__MACOSX/._manifest.json", "../ctypes.py"])
def test_outside_of_the_archives_folder(tmp_path: Path, packed: Path, name: str) -> None:
    archive = Path(shutil.copy(packed, tmp_path / "a.zip"))
    with zipfile.ZipFile(archive, "a") as changed:
        changed.writestr(name, "raise SystemExit('it ran')\n")
    with pytest.raises(FormatError, match="not in the folder of the reproducer|leads out"):
        unpack(archive, tmp_path / "out", 1 << 30)


@pytest.mark.parametrize("name", ["ctypes", "source/torch", "code/a/b", "memory/index2", ".git"])
def test_an_empty_folder_is_a_namespace(tmp_path: Path, packed: Path, name: str) -> None:
    folder = Path(shutil.copytree(GOLDEN, tmp_path / "repro"))
    (folder / name).mkdir(parents=True)
    with pytest.raises(FormatError, match="not a folder of a reproducer"):
        inspect(folder)
    archive = Path(shutil.copy(packed, tmp_path / "a.zip"))
    with zipfile.ZipFile(archive, "a") as changed:
        changed.writestr(f"{changed.namelist()[0].split('/')[0]}/{name}/", "")
    with pytest.raises(FormatError, match="not a folder of a reproducer"):
        unpack(archive, tmp_path / "out", 1 << 30)


@pytest.mark.parametrize("kind", ["link", "link to a folder", "fifo", "socket"])
@pytest.mark.parametrize("name", ["ctypes.py", "checks.json", "source/scale.py", ".nfs0001"])
def test_neither_a_link_nor_a_device(tmp_path: Path, name: str, kind: str) -> None:
    folder = Path(shutil.copytree(GOLDEN, tmp_path / "repro"))
    target = folder / name
    target.unlink(missing_ok=True)
    if kind.startswith("link"):
        target.symlink_to("/usr" if "folder" in kind else "/etc/passwd")
    elif kind == "fifo":
        os.mkfifo(target)
    else:
        os.mknod(target, 0o140600)
    with pytest.raises(FormatError, match="symbolic link|neither a folder nor a regular file"):
        inspect(folder)


def test_what_kerncap_itself_leaves_there_is_no_stranger(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN, tmp_path / "repro"))
    for name in (
        ".checks.json.tmp-4711-0a1b2c3d", ".write_set-0123456789abcdef.bin.tmp-4711-0a1b2c3d",
        "write_set-0123456789abcdef.bin", ".nfs000000000c5a8b3c00000012",
    ):  # fmt: skip
        (folder / name).write_bytes(b"half")
    inspect(folder)


def test_what_a_killed_process_left_goes_with_the_next_write(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN, tmp_path / "repro"))
    gone = subprocess.Popen(["true"])
    gone.wait()
    old, new = f".checks.json.tmp-{gone.pid}-0a1b2c3d", f".checks.json.tmp-{gone.pid}-11111111"
    living, others = f".checks.json.tmp-{os.getpid()}-0a1b2c3d", ".nfs000000000c5a8b3c00000012"
    for name in (old, new, living, others):
        (folder / name).write_bytes(b"half")
        if name != new:
            os.utime(folder / name, (0, 0))
    with Reproducer.open(folder) as reproducer:
        reproducer.write_checks(Checks(manifest_sha256=reproducer.manifest_sha256))
    left = {name for name in os.listdir(folder) if name.startswith(".")}
    assert left == {new, living, others}


@pytest.mark.parametrize("golden", [GOLDEN, GOLDEN_NATIVE, GOLDEN.with_name("v1.2"), GOLDEN_HIP], ids=str)
def test_released_versions_hold_nothing_else(golden: Path) -> None:
    inspect(golden)
