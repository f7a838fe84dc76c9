"""The compilers of this machine. Found by looking, never by loading."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kerncap import child
from kerncap.replay.candidates import python_process
from kerncap.search_path import kept

PREFIXES = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")
ROCM_PREFIXES = ("ROCM_PATH", "HIP_PATH")
# Releases of hip-python that are made for one release of ROCm; those from 10 on find any.
_HIP_PYTHON_SERIES = ((6, 2), (6, 3), (6, 4), (7, 0), (7, 1), (7, 2))
_NO_HIPCC = "there is no hipcc: install ROCm's, or name it in HIPCC"
_VERSION_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Tool:
    """A compiler and its version; ``include`` has the CUDA headers that belong to it."""

    name: str
    path: Path
    version: str
    include: Path | None = None


@dataclass(frozen=True)
class PythonCompilerName:
    """A compiler of Python kernels: its own name, and the package to install for it."""

    name: str
    package: str


PYTHON_COMPILERS = {
    "numba": PythonCompilerName("Numba", "numba-cuda"),
    "numba-cuda-mlir": PythonCompilerName("numba-cuda-mlir", "numba-cuda-mlir"),
    "cutile": PythonCompilerName("cuTile", "cuda-tile[tileiras]"),
    "cute-dsl": PythonCompilerName("CuTe DSL", "nvidia-cutlass-dsl"),
}


def available(python: str | None = None) -> dict[str, Tool | str]:
    """Each compiler, or the reason why there is none. ``python``: whose site-packages are searched too."""
    return {name: find(python) for name, find in _FINDERS.items()}


def nvcc(python: str | None = None) -> Tool | str:
    """nvcc of CUDA_HOME, PATH, the usual folder, or NVIDIA's wheel."""
    return _program("nvcc", python, "install the CUDA toolkit, or set CUDA_HOME")


def ptxas(python: str | None = None) -> Tool | str:
    """ptxas, where nvcc would be, or Triton's."""
    return _program("ptxas", python, "install the CUDA toolkit; the driver assembles PTX too")


def every_ptxas(python: str | None = None) -> list[Tool]:
    """Each version of ptxas that is here, in the order of `ptxas`."""
    found: dict[str, Tool] = {}
    for path in _program_paths("ptxas", python):
        version = _version(str(path), path.stat().st_mtime_ns)
        if version is not None:
            found.setdefault(version, Tool("ptxas", path, version))
    return list(found.values())


def nvdisasm(python: str | None = None) -> Tool | str:
    """nvdisasm, where nvcc would be, or Triton's."""
    return _program("nvdisasm", python, "install the CUDA toolkit")


def cuobjdump(python: str | None = None) -> Tool | str:
    """cuobjdump, where nvcc would be, or Triton's."""
    return _program("cuobjdump", python, "install the CUDA toolkit")


def nvrtc(python: str | None = None) -> Tool | str:
    """libnvrtc.so of CUDA_HOME, NVIDIA's wheels or the usual folders; the newest in the first of them."""
    for folder in _library_folders(python):
        found = [
            (tuple(map(int, match[1].split("."))), path)
            for path in _listed(folder)
            if (match := re.fullmatch(r"libnvrtc\.so\.(\d+(?:\.\d+)*)", path.name)) is not None
        ]
        if found:
            number, path = max(found)
            return Tool(
                "nvrtc", path, ".".join(map(str, number)), _include_near(folder) or _any_include(python)
            )
    return "there is no libnvrtc.so: install the CUDA toolkit or `pip install nvidia-cuda-nvrtc`"


def hipcc(python: str | None = None) -> Tool | str:
    """hipcc of HIPCC (which may name a clang), ROCM_PATH, HIP_PATH, PATH or the usual folder."""
    named = os.environ.get("HIPCC")
    folders = [Path(prefix) / "bin" for prefix in _named_folders(ROCM_PREFIXES)]
    on_path = child.find("hipcc")
    folders += [Path(on_path).parent] if on_path else []
    found = [folder / "hipcc" for folder in (*folders, Path("/opt/rocm/bin"))]
    if named:
        found = [Path(where)] if (where := _absolute(named)) else []
    last = f"HIPCC names {named}, which is not there" if named else _NO_HIPCC
    for path in dict.fromkeys(found):
        if path.is_file() and os.access(path, os.X_OK):
            version = _hip_version(str(path), path.stat().st_mtime_ns)
            if version is not None:
                return Tool("clang" if path.name.startswith("clang") else "hipcc", path, version)
            last = f"{path} does not run"
    return last


def hiprtc(python: str | None = None) -> Tool | str:
    """HIPRTC, by hip-python; ``path`` is the Python that has it."""
    advice = f"`pip install {shlex.quote(hip_requirement())}`, next to ROCm"
    return _of_python("hiprtc", python) or f"no Python here has hip-python: {advice}"


def hip_requirement() -> str:
    """The hip-python that fits the ROCm of this machine; the newest one if none of its releases is for it."""
    found = rocm_version()
    if found is None or found not in _HIP_PYTHON_SERIES:
        return "hip-python"
    return f"hip-python~={found[0]}.{found[1]}.0"


def rocm_version() -> tuple[int, int] | None:
    """Of the HIP runtime in ROCM_PATH, HIP_PATH, /opt/rocm or a usual folder, by its file's name."""
    prefixes = [Path(each) / "lib" for each in (*_named_folders(ROCM_PREFIXES), "/opt/rocm")]
    for folder in (*prefixes, Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib64")):
        for path in sorted(folder.glob("libamdhip64.so*"), reverse=True):
            number = re.search(r"\.so\.(\d+)\.(\d+)", os.path.realpath(path))
            if number is not None:
                return int(number[1]), int(number[2])
    return None


def python_compiler(language: str, python: str | None = None) -> Tool | str:
    """The first of ``python`` and kerncap's own that has the language's compiler; ``path`` is that Python."""
    known = PYTHON_COMPILERS[language]
    missing = (
        f"no Python here has {known.name}: `pip install {known.package}` into the one that --python names"
    )
    return _of_python(language, python) or missing


def _of_python(package: str, python: str | None) -> Tool | None:
    for each in dict.fromkeys((python, sys.executable)):
        if each and (path := _absolute(each)) and os.path.isfile(path):
            version = _python_versions(path, os.stat(path).st_mtime_ns).get(package)
            if version:
                return Tool(package, Path(path), version)
    return None


def _program(name: str, python: str | None, advice: str) -> Tool | str:
    last = f"there is no {name}: {advice}"
    for path in _program_paths(name, python):
        version = _version(str(path), path.stat().st_mtime_ns)
        if version is not None:
            return Tool(name, path, version, _include_near(path.resolve().parent))
        last = f"{path} does not run"
    return last


def _program_paths(name: str, python: str | None) -> Iterator[Path]:
    folders = [Path(prefix) / "bin" for prefix in _prefixes()]
    on_path = child.find(name)
    folders += [Path(on_path).parent] if on_path else []
    folders.append(Path("/usr/local/cuda/bin"))
    for packages in _site_packages(python):
        folders += sorted(packages.glob("nvidia/*/bin"), reverse=True)
        folders.append(packages / "triton" / "backends" / "nvidia" / "bin")
    for folder in dict.fromkeys(folders):
        path = folder / name
        if path.is_file() and os.access(path, os.X_OK):
            yield path


def _library_folders(python: str | None) -> Iterator[Path]:
    for prefix in _prefixes():
        yield from (Path(prefix) / "lib64", Path(prefix) / "lib")
    for packages in _site_packages(python):
        yield from sorted(packages.glob("nvidia/*/lib"), reverse=True)
    yield Path("/usr/local/cuda/lib64")
    for folder in kept(os.environ.get("LD_LIBRARY_PATH", "")).split(os.pathsep):
        if folder:
            yield Path(folder)
    for machine in ("x86_64-linux-gnu", "aarch64-linux-gnu"):
        yield Path("/usr/lib") / machine
    yield Path("/usr/lib64")


def _prefixes() -> list[str]:
    return _named_folders(PREFIXES)


def _absolute(named: str) -> str | None:
    """Where a program is that the user names; None if it is nowhere."""
    try:
        return child.program(named)
    except FileNotFoundError:
        return None


def _named_folders(variables: Sequence[str]) -> list[str]:
    """Of variables that name a folder each; a relative one would be looked for in the current folder."""
    values = [os.environ.get(name, "") for name in variables]
    return [value for value in values if kept(value)]


def _site_packages(python: str | None) -> list[Path]:
    """Of kerncap's own Python and of ``python``; a virtual environment's link is not followed."""
    found = [Path(entry) for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
    for each in dict.fromkeys((python, sys.executable)):
        if each and (path := _absolute(each)):
            prefix = Path(path).parent.parent
            found += sorted(prefix.glob("lib/python3*/site-packages"), reverse=True)
            found += sorted(prefix.glob("lib/python3*/dist-packages"), reverse=True)
    return list(dict.fromkeys(found))


def _include_near(folder: Path) -> Path | None:
    for above in list(folder.parents)[:3]:
        for include in (above / "include", *sorted(above.glob("targets/*/include"))):
            if (include / "cuda_fp16.h").is_file():
                return include
    return None


def _any_include(python: str | None) -> Path | None:
    folders = [Path(prefix) / "include" for prefix in (*_prefixes(), "/usr/local/cuda")]
    for packages in _site_packages(python):
        folders += sorted(packages.glob("nvidia/*/include"), reverse=True)
    return next((folder for folder in folders if (folder / "cuda_fp16.h").is_file()), None)


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


@functools.lru_cache(maxsize=32)
def _version(path: str, _changed: int) -> str | None:
    try:
        done = child.run_text([path, "--version"], timeout=_VERSION_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"V(\d+(?:\.\d+)+)", done.stdout) or re.search(r"release (\d+\.\d+)", done.stdout)
    return found[1] if found else ""


@functools.lru_cache(maxsize=8)
def _hip_version(path: str, _changed: int) -> str | None:
    """ "6.4.43484 (clang 19.0.0)", or for a clang its version alone."""
    try:
        environment = {**os.environ, "HIP_PLATFORM": "amd"}
        done = child.run_text([path, "--version"], timeout=_VERSION_TIMEOUT_S, check=True, env=environment)
    except (OSError, subprocess.SubprocessError):
        return None
    hip = re.search(r"HIP version: (\d+(?:\.\d+)+)", done.stdout)
    clang = re.search(r"clang version (\d+(?:\.\d+)+)", done.stdout)
    if clang is None:
        return None  # hipcc over NVIDIA's compiler
    return f"{hip[1]} (clang {clang[1]})" if hip is not None else clang[1]


@functools.lru_cache(maxsize=8)
def _python_versions(python: str, _changed: int) -> dict[str, str]:
    """Of each compiler in `PYTHON_COMPILERS`; empty for one that is not there."""
    script = Path(os.path.abspath(python_process.__file__))
    command = child.python(python, script, "versions")
    try:
        done = child.run_text(command, timeout=_VERSION_TIMEOUT_S, check=True)
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return {str(name): str(version) for name, version in found.items()} if isinstance(found, dict) else {}


_FINDERS: dict[str, Callable[[str | None], Tool | str]] = {
    "nvcc": nvcc,
    "nvrtc": nvrtc,
    "ptxas": ptxas,
    "hipcc": hipcc,
    "hiprtc": hiprtc,
    **{language: functools.partial(python_compiler, language) for language in PYTHON_COMPILERS},
}
