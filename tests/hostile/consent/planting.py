"""Files that must never run: every module, tool and driver by its name, each leaving a mark where it does."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Of kerncap's own: what is searched for by name in some process.
OWN = {"kerncap", "_kerncap_worker", "kerncap_triton", "sitecustomize", "usercustomize", "compile_source"}
TOOLS = (
    "nvcc", "ptxas", "nvdisasm", "cuobjdump", "hipcc", "clang", "gcc", "cc", "g++", "ld", "as", "c++",
    "llvm-objdump", "ncu", "compute-sanitizer", "python", "python3", "uv", "pip", "git", "tmux", "vim", "vi",
    "nano", "sh", "env", "uname", "ldconfig", "lspci", "nvidia-smi", "rocminfo", "apt-get", "dnf", "kerncap",
)  # fmt: skip
LIBRARIES = ("libcuda.so.1", "libhsa-runtime64.so.1", "libnvrtc.so", "libamdhip64.so")


@cache
def modules() -> frozenset[str]:
    """Every module that this Python could import by its name, and with that all that kerncap imports."""
    found = {module.name for module in pkgutil.iter_modules()} | sys.stdlib_module_names | OWN
    return frozenset(found - set(sys.builtin_module_names))


@cache
def early() -> frozenset[str]:
    """What Python has imported before kerncap has its first word: of that, nobody could keep it."""
    program = "import kerncap.__main__, sys; print(*sys.modules)"
    said = subprocess.check_output([sys.executable, "-c", program], text=True)
    return frozenset(name.partition(".")[0] for name in said.split()) | OWN


@dataclass(frozen=True)
class Marks:
    """The folder where whatever has run has left its name; ``library`` is one that does so when loaded."""

    folder: Path
    library: Path | None

    def left(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def plant(self, folder: Path, leave_out: frozenset[str] = frozenset(), only: str | None = None) -> None:
        """Fill ``folder`` with all of them, or with the module ``only``."""
        folder.mkdir(parents=True, exist_ok=True)
        shadow = self.folder.with_name("shadow.py")
        shadow.write_text(f"open({str(self.folder)!r} + '/' + __name__, 'a').close()\nraise SystemExit(99)\n")
        for name in {only} if only is not None else modules() - leave_out:
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
