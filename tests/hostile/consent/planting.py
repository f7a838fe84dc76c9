"""Files that must never run: every module, tool and driver by its name, each leaving a mark where it does.

A module that has left its mark hands over to the real one, so that none keeps the next from being reached:
all of them planted at once show as much as one after another.
"""

from __future__ import annotations

import _imp
import os
import pkgutil
import subprocess
import sys
from collections.abc import Set
from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

# Of kerncap's own: what is searched for by name in some process.
OWN = {"kerncap", "_kerncap_worker", "kerncap_triton", "sitecustomize", "usercustomize", "compile_source"}
TOOLS = (
    "nvcc", "ptxas", "nvdisasm", "cuobjdump", "hipcc", "clang", "gcc", "cc", "g++", "ld", "as", "c++",
    "llvm-objdump", "ncu", "compute-sanitizer", "python", "python3", "uv", "pip", "git", "tmux", "vim", "vi",
    "nano", "sh", "env", "uname", "ldconfig", "lspci", "nvidia-smi", "rocminfo", "apt-get", "dnf", "kerncap",
)  # fmt: skip
MODULE = """\
open({marks!r} + "/" + __name__, "a").close()
import posix, sys
def here(entry, mine=posix.stat(__file__.rpartition("/")[0] or ".")):
    try:
        other = posix.stat(entry or ".")
    except OSError:
        return False
    return (other.st_dev, other.st_ino) == (mine.st_dev, mine.st_ino)
before = sys.path[:]
sys.path[:] = [entry for entry in before if not here(entry)]
try:
    spec = next(filter(None, (finder.find_spec(__name__, None) for finder in sys.meta_path)), None)
finally:
    sys.path[:] = before
if spec is None:
    raise ModuleNotFoundError("No module named " + repr(__name__), name=__name__)
real = sys.modules["_frozen_importlib"].module_from_spec(spec)
sys.modules[__name__] = real
spec.loader.exec_module(real)
"""
LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1", "libhsa-runtime64.so.1", "libnvrtc.so", "libamdhip64.so")


@cache
def modules() -> frozenset[str]:
    """Every module that this Python could import by its name, and with that all that kerncap imports."""
    found = {module.name for module in pkgutil.iter_modules()} | sys.stdlib_module_names | OWN
    found |= set(filter(str.isidentifier, packages_distributions()))  # namespace packages too, as cuda is
    return frozenset(found - set(sys.builtin_module_names))


@cache
def early() -> frozenset[str]:
    """What Python has imported before kerncap has its first word, and what it has inside of itself."""
    program = "import kerncap.__main__, sys; print(*sys.modules)"
    said = subprocess.check_output([sys.executable, "-c", program], text=True)
    frozen = {name for name in modules() if _imp.is_frozen(name)}
    return frozenset(name.partition(".")[0] for name in said.split()) | OWN | frozen


@dataclass(frozen=True)
class Marks:
    """The folder where whatever has run has left its name; ``library`` is one that does so when loaded."""

    folder: Path
    library: Path | None

    def left(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def plant(
        self, folder: Path, leave_out: frozenset[str] = frozenset(), only: str | None = None,
        more: Set[str] = frozenset(),
    ) -> None:  # fmt: skip
        """Fill ``folder`` with all of them and modules of ``more`` names, or with the module ``only``."""
        folder.mkdir(parents=True, exist_ok=True)
        shadow = self.folder.with_name("shadow.py")
        shadow.write_text(MODULE.format(marks=str(self.folder)))
        for name in {only} if only is not None else (modules() | more) - leave_out:
            os.link(shadow, folder / f"{name}.py")
        if only is not None:
            return
        tool = self.folder.with_name("tool")
        tool.write_text(f'#!/bin/sh\n: > {self.folder}/"tool ${{0##*/}}"\nexit 99\n')
        tool.chmod(0o755)
        for name in TOOLS:
            os.link(tool, folder / name)
        for name in LIBRARIES if self.library is not None else ():
            os.link(self.library, folder / name)


def library(folder: Path, marks: Path, compiler: str) -> Path:
    """A shared object that leaves a mark when it is loaded."""
    source = folder / "library.c"
    source.write_text(
        "#include <fcntl.h>\n__attribute__((constructor)) static void loaded(void)\n"
        f'{{ open("{marks}/a library", O_CREAT | O_WRONLY, 0600); }}\n'
    )
    made = folder / "library.so"
    subprocess.check_call([compiler, "-shared", "-fPIC", "-o", str(made), str(source)])
    return made
