"""The environment: what a target is started with, what a manifest may keep of it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

import kerncap
from kerncap.errors import BackendUnavailable

# By exact name, and only what decides how a kernel is compiled or which device it runs on: a reproducer is
# attached to bug reports, environments hold secrets, and no prefix makes a name safe.
_REPLAY_VARIABLES = """
    CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HSA_XNACK HSA_OVERRIDE_GFX_VERSION
    TRITON_INTERPRET TRITON_DEBUG TRITON_DEFAULT_FP_FUSION TRITON_FORCE_DISABLE_FP_FUSION TRITON_F32_DEFAULT
    TRITON_DISABLE_LINE_INFO TRITON_ENABLE_ASAN TRITON_ALLOW_NON_CONSTEXPR_GLOBALS TRITON_OVERRIDE_ARCH
    TRITON_MOCK_PTX_VERSION TRITON_FRONT_END_DEBUGGING TRITON_INSTRUMENTATION_MODE TRITON_HIP_USE_ASYNC_COPY
    TRITON_HIP_USE_BLOCK_PINGPONG TRITON_HIP_USE_COEXEC_SCHEDULER TRITON_HIP_USE_EXPERT_SCHEDULING
    TRITON_HIP_USE_IN_THREAD_TRANSPOSE AMDGCN_USE_BUFFER_OPS AMDGCN_USE_BUFFER_ATOMICS DISABLE_PTXAS_OPT
    PTXAS_OPTIONS TORCHINDUCTOR_COMPILE_THREADS TORCHDYNAMO_DISABLE TORCH_COMPILE_DISABLE
"""
REPLAY_VARIABLES = frozenset(_REPLAY_VARIABLES.split())
_RANKS = ("RANK", "LOCAL_RANK")  # which process of a distributed run it was
# Switches, numbers, names of devices and of options. A run of twenty letters and digits is not among these.
_PLAIN_VALUE = re.compile(r"(?!.*(?:://|[A-Za-z0-9]{20}))[\w.,:;=+/ -]{0,256}")
CUDA_SHIM = "libkerncap_cuda.so"
HIP_SHIM = "libkerncap_hip.so"


def triton_hook_folder() -> Path:
    """The folder that goes to the front of the target's PYTHONPATH.

    Raises BackendUnavailable if the hook was not installed with the package.
    """
    package = Path(kerncap.__file__).resolve().parent
    for folder in (package / "shims" / "triton", package.parent / "shims" / "triton"):
        if (folder / "sitecustomize.py").is_file():
            return folder
    raise BackendUnavailable("the Triton hook", f"no shims/triton next to {package}; reinstall kerncap")


def cuda_shim() -> Path | None:
    """The CUDA shim of this installation, or where a checkout's build leaves it; None if it was not built."""
    return _shim("cuda", CUDA_SHIM)


def hip_shim() -> Path | None:
    """The HIP shim, likewise."""
    return _shim("hip", HIP_SHIM)


def _shim(folder: str, name: str) -> Path | None:
    package = Path(kerncap.__file__).resolve().parent
    places = [package / "shims" / folder]
    if (package.parent / "shims" / "CMakeLists.txt").is_file():
        places.insert(0, package.parent / "build" / "shims" / folder)
    return next((place / name for place in places if (place / name).is_file()), None)


def compose_target_environment(
    current: Mapping[str, str], session: Path, backends: Collection[str] = ("cuda", "hip", "triton")
) -> dict[str, str]:
    """``current`` with the hook in front of PYTHONPATH, the shims preloaded, and the session's path.

    Nothing else changes, and doing it twice is doing it once. ``backends`` leaves one of them out.
    """
    composed = dict(current)
    if "triton" in backends:
        hook = str(triton_hook_folder())
        composed["PYTHONPATH"] = _in_front(hook, current.get("PYTHONPATH", ""), os.pathsep)
    shim = cuda_shim() if "cuda" in backends else None
    if shim is not None:
        # Who is preloaded first is asked first; the others are found by RTLD_NEXT.
        if _fits_preload(shim):
            composed["LD_PRELOAD"] = _in_front(str(shim), current.get("LD_PRELOAD", ""), ":")
        # libcuda itself loads this one: the way in if a preload is dropped or bypassed.
        composed["CUDA_INJECTION64_PATH"] = current.get("CUDA_INJECTION64_PATH") or str(shim)
        # And NVTX this one, in any process that opens a range: ranges of C and C++ code, too.
        composed["NVTX_INJECTION64_PATH"] = current.get("NVTX_INJECTION64_PATH") or str(shim)
    shim = hip_shim() if "hip" in backends else None
    if shim is not None and _fits_preload(shim):
        composed["HSA_TOOLS_LIB"] = _in_front(str(shim), current.get("HSA_TOOLS_LIB", ""), " ")
        # A ROCr that skips HSA_TOOLS_LIB looks for tools among the libraries that are loaded already.
        # In front: both wrap dlsym, and the CUDA shim calls the driver through the one behind it.
        composed["LD_PRELOAD"] = _in_front(str(shim), composed.get("LD_PRELOAD", ""), ":")
    composed["KERNCAP_SESSION"] = str(session)
    return composed


def shim_notes(current: Mapping[str, str], backends: Collection[str] = ("cuda", "hip")) -> list[str]:
    """What of the user's own settings narrows the shims' ways in, for people."""
    notes = []
    shim = hip_shim() if "hip" in backends else None
    if shim is not None and not _fits_preload(shim):
        notes.append(
            f"{shim}: can't be put into HSA_TOOLS_LIB and LD_PRELOAD (it has a space, ':' or '$'), "
            "so that HIP is not captured; install kerncap elsewhere"
        )
    shim = cuda_shim() if "cuda" in backends else None
    if shim is None:
        return notes
    other = current.get("CUDA_INJECTION64_PATH")
    if other and other != str(shim):
        notes.append(f"CUDA_INJECTION64_PATH stays {other}; the CUDA shim is loaded only by LD_PRELOAD")
    other = current.get("NVTX_INJECTION64_PATH")
    if other and other != str(shim):
        notes.append(f"NVTX_INJECTION64_PATH stays {other}; ranges are seen where Python functions open them")
    if not _fits_preload(shim):
        notes.append(
            f"{shim}: can't be put into LD_PRELOAD (it has a space, ':' or '$'); install kerncap elsewhere"
        )
    return notes


def _in_front(first: str, existing: str, separator: str) -> str:
    """``existing`` with ``first`` in front, once; an empty entry of somebody else's keeps its meaning."""
    if not existing:
        return first
    rest = [part for part in existing.split(separator) if part != first]
    return separator.join([first, *rest])


def _fits_preload(path: Path) -> bool:
    """Spaces and colons separate entries of LD_PRELOAD, and ``$`` begins one of the loader's variables."""
    return not re.search(r"[\s:$]", str(path))


def stored_environment(current: Mapping[str, str]) -> dict[str, str]:
    """The few variables that a manifest keeps, by exact name and by value; the home directory as ``~``."""
    return {
        name: hide_home(value)
        for name, value in sorted(current.items())
        if name in REPLAY_VARIABLES and is_for_replay(name, value)
    }


def is_for_replay(name: str, value: str) -> bool:
    """Whether a replay may need this variable, and its value is of the kind that such a variable has."""
    return (name in REPLAY_VARIABLES or name in _RANKS) and _PLAIN_VALUE.fullmatch(value) is not None


def hide_home(text: str) -> str:
    """``text`` with the home directory replaced by ``~``."""
    home = os.path.expanduser("~").rstrip("/")
    if not home.startswith("/") or len(home) < 2:
        return text
    return re.sub(re.escape(home) + r"(?=/|$|[:;,'\"\s])", "~", text)
