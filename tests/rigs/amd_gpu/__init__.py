"""The emulated AMD GPU for tests: where it is, how a program runs on it, how one is compiled for it.

`make amd-gpu` makes it, and `find` says what is missing where it was not made. See README.md.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache as remembered
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "build" / "amd-gpu"

# What clang-15 has in place of these chips: gfx940 is the first gfx942, whose code gfx950 runs if it has no
# xf32. Source: LLVM's AMDGPUUsage, "gfx9-4-generic".
_OLDER_NAMES = {"gfx942": "gfx940", "gfx950": "gfx940"}
# EF_AMDGPU_MACH of them. Source: LLVM's AMDGPUUsage, "AMDGPU ELF header e_flags".
_MACHINES = {"gfx940": 0x40, "gfx942": 0x4C, "gfx950": 0x4F}


class CompileError(Exception):
    """hipcc or the linker refused; the text is what it said."""


@dataclass(frozen=True)
class Rig:
    """What `make amd-gpu` made, in ``folder``, and the system's hipcc."""

    folder: Path
    hipcc: str

    @property
    def run_prefix(self) -> tuple[str, ...]:
        """What goes before a program and its arguments."""
        return (str(self.folder / "run"),)

    @property
    def library_dir(self) -> Path:
        """libamdhip64.so.6, libhsa-runtime64.so.1 and the rest of the ROCm that runs there."""
        return self.folder / "rocm" / "usr" / "lib" / "x86_64-linux-gnu"

    @property
    def include_dir(self) -> Path:
        """``hip/`` and ``hsa/`` of that ROCm."""
        return self.folder / "include"

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """This process's environment with none of the rig's variables but ``extra``'s."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AMD_GPU_")}
        return {**kept, **(extra or {})}

    def compile_command(self, source: Path, arch: str = "gfx90a", flags: Sequence[str] = ()) -> list[str]:
        """hipcc, up to where ``-c SOURCE -o OBJECT`` follows. The caller sets HIP_PLATFORM=amd."""
        older = Path(__file__).with_name("rocm") / "older_clang.h"
        older_names = self._older_names()
        targets = [f"--offload-arch={older_names.get(name, name)}" for name in arch.split(",")]
        includes = ["-isystem", str(self.include_dir), "-include", str(older)]
        return [self.hipcc, *targets, "-g", "-O2", *includes, *flags]

    def build(
        self, sources: Path | Iterable[Path], out: Path, arch: str = "gfx90a", flags: Sequence[str] = ()
    ) -> Path:
        """The .hip ``sources`` compiled and linked to ``out``; kept under build/ for the next run.

        ``arch`` may name several, with commas, for one program that runs on each; one of gfx942 and gfx950 if
        hipcc knows neither. ``flags`` go to the
        compiler. Raises `CompileError`.
        """
        listed = [sources] if isinstance(sources, Path) else list(sources)
        name = "\0".join([*map(str, listed), arch, *flags])
        cache = self.folder / "programs" / hashlib.sha256(name.encode()).hexdigest()[:16]
        cache.mkdir(parents=True, exist_ok=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("w") as lock:
            # Tests of several processes want the same program: the first one makes it.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_fresh(cache):
                (cache / "used.json").unlink(missing_ok=True)
                self._compile_and_link(listed, cache, arch, flags)
            shutil.copy2(cache / "program", out)
        return out

    def knows(self, arch: str) -> bool:
        """Whether hipcc itself compiles for ``arch``, as it must for a candidate."""
        return arch not in self._older_names()

    def _older_names(self) -> Mapping[str, str]:
        return _OLDER_NAMES if _clang_version(self.hipcc) < 17 else {}

    def _compile_and_link(self, sources: list[Path], folder: Path, arch: str, flags: Sequence[str]) -> None:
        objects, used = [], []
        for number, source in enumerate(sources):
            made, rules = folder / f"{number}.o", folder / f"{number}.d"
            command = self.compile_command(source, arch, flags)
            _run([*command, "-MMD", "-MF", str(rules), "-c", str(source), "-o", str(made)])
            for name, older_name in self._older_names().items():
                if name in arch.split(","):
                    made.write_bytes(_renamed(made.read_bytes(), older_name, name))
            objects.append(str(made))
            used += [source, *_dependencies(rules)]
        libraries = [f"-L{self.library_dir}", "-l:libamdhip64.so.6", "-l:libhiprtc.so.6"]
        # What the libraries themselves need is in the prefix, and of a newer libc than the linker knows.
        unresolved = ["-Wl,--allow-shlib-undefined", "-Wl,--as-needed"]
        _run(["g++", *objects, "-o", str(folder / "program"), *unresolved, *libraries])
        digests = {str(path): _digest(path) for path in used}
        (folder / "used.json").write_text(json.dumps(digests))


def find(rocm: int = 6) -> Rig | str:
    """The rig with ``rocm`` 6 or 7, or the one thing that is missing and what to do."""
    if platform.machine() != "x86_64":
        return f"the emulated AMD GPU needs x86_64, this is {platform.machine()}"
    folder = FOLDER if rocm == 6 else FOLDER.with_name(f"{FOLDER.name}-{rocm}")
    how = "make amd-gpu" + (f" ROCM={rocm}" if rocm != 6 else "")
    for name in ("run", "libkerncap_amd_gpu.so", "rocm/.complete", "include/hip/hip_runtime.h"):
        if not (folder / name).exists():
            return f"no emulated AMD GPU: {folder.relative_to(ROOT) / name} is missing ({how})"
    hipcc = shutil.which("hipcc")
    if hipcc is None:
        return "no hipcc (apt-get install hipcc rocm-device-libs)"
    if shutil.which("g++") is None:
        return "no g++ to link HIP programs with"
    return Rig(folder, hipcc)


def _run(command: list[str]) -> str:
    # Where an NVIDIA compiler is installed too, hipcc would take that one.
    environment = {**os.environ, "HIP_PLATFORM": "amd"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


@remembered
def _clang_version(hipcc: str) -> int:
    found = re.search(r"clang version (\d+)", _run([hipcc, "--version"]))
    if found is None:
        raise CompileError(f"{hipcc} --version names no clang")
    return int(found[1])


def _dependencies(rules: Path) -> list[Path]:
    """The files of a make rule that clang wrote, which has one escaped line end after each."""
    _, _, listed = rules.read_text().replace("\\\n", " ").partition(": ")
    return [Path(name) for name in listed.split()]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _is_fresh(cache: Path) -> bool:
    """Whether every file that went into the program still is what it was."""
    try:
        used = json.loads((cache / "used.json").read_text())
        return (cache / "program").exists() and all(
            _digest(Path(path)) == digest for path, digest in used.items()
        )
    except (OSError, ValueError):
        return False


def _renamed(image: bytes, old: str, new: str) -> bytes:
    """An object file whose device code is for ``old`` as one for ``new``.

    Changed are the names of bundles and metadata, and the machine in the flags of each code object
    inside (an ELF file whose machine is EM_AMDGPU, 224).
    """
    changed = bytearray(image.replace(old.encode(), new.encode()))
    start = changed.find(b"\x7fELF", 1)
    while start >= 0:
        is_device_code = int.from_bytes(changed[start + 18 : start + 20], "little") == 224
        if is_device_code and changed[start + 48] == _MACHINES[old]:
            changed[start + 48] = _MACHINES[new]
        start = changed.find(b"\x7fELF", start + 1)
    return bytes(changed)
