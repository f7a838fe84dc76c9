"""What a manifest may list: README.md at the top, and files below code/, source/ and memory/ by role."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from kerncap.errors import FormatError
from kerncap.format import Reproducer
from tests.unit.format.damage import GOLDEN, GOLDEN_NATIVE, edit_manifest

CODE = b"raise SystemExit('it ran')\n"
TOP = (
    "ctypes.py", "importlib.py", "json.py", "torch.py", "conftest.py", "pytest.ini", "libcuda.so.1",
    "kernel.ttir", "README.py", "readme.md", "torch/__init__.py", "json/decoder.py", "lib/a.so",
    ".git/config", "extra/notes.txt", "checks.json", "manifest.json", "manifest.sha256",
    "write_set-0123456789abcdef.bin", "memory/ctypes.py", "memory/source/a.py", "sourcex/a.py", "source",
    "code", "Source/a.py", "source\n/a.py", "code/../ctypes.py", "source/../../a.py", "./ctypes.py",
    "source//a.py", "/ctypes.py", "source\\a.py",
)  # fmt: skip
AS_CODE = (
    "code/ctypes.py", "code/kernel", "code/kernel.", "code/a/kernel.ttir", "code/kernel.ttir/x",
    "code/Kernel.ttir", "code/kernel.tt ir", "code/kernel.\u0430", "source/kernel.ttir", "README.md",
    "code/kernel.ttir\n",
)  # fmt: skip
AS_SOURCE = ("code/kernel.py", "README.md", "sources/a.py", "source", "memory/index/a.py")


def listed(folder: Path, place: tuple[str | int, ...], name: str) -> None:
    """List the file in the manifest, and put it there if the name lets that happen inside."""
    stored = {"path": name, "size": len(CODE), "sha256": hashlib.sha256(CODE).hexdigest()}

    def edit(manifest: Any) -> None:
        node = manifest
        for step in place[:-1]:
            node = node[step]
        if place[-1] == "+":
            node.append(stored)
        else:
            node[place[-1]] = stored

    edit_manifest(folder, edit)
    target = folder / name
    if ".." not in name and not name.startswith("/"):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(CODE)
        except (OSError, ValueError):
            pass


@pytest.mark.parametrize("name", TOP, ids=ascii)
@pytest.mark.parametrize("place", [("files", "+"), ("source", "file"), ("source", "originals", "+")], ids=str)
def test_code_is_never_at_the_top(tmp_path: Path, place: tuple[str | int, ...], name: str) -> None:
    folder = Path(shutil.copytree(GOLDEN_NATIVE, tmp_path / "repro"))
    listed(folder, place, name)
    with pytest.raises(FormatError) as refused:
        Reproducer.open(folder)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("name", AS_CODE, ids=ascii)
def test_code_is_a_stage(tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(GOLDEN, tmp_path / "repro"))
    listed(folder, ("code", 0, "file"), name)
    with pytest.raises(FormatError, match="may list as code; expected code/kernel.STAGE"):
        Reproducer.open(folder)


@pytest.mark.parametrize("name", AS_SOURCE, ids=ascii)
def test_source_lies_below_source(tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(GOLDEN, tmp_path / "repro"))
    listed(folder, ("source", "file"), name)
    with pytest.raises(FormatError, match="may list as source; expected source/"):
        Reproducer.open(folder)


@pytest.mark.parametrize("name", ["source/scale.py/ctypes.py", "source/scale.py/a/b.py"])
def test_no_file_is_another_ones_folder(tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(GOLDEN, tmp_path / "repro"))
    listed(folder, ("files", "+"), name)
    with pytest.raises(FormatError, match="is below another file"):
        Reproducer.open(folder)
