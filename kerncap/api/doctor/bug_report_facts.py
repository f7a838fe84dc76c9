"""What a bug report should say of the machine: versions, drivers, GPUs, shims, variables that matter.

Nothing private: home folders are shortened, and what looks like a secret is filled up, as for sharing.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kerncap
from kerncap import env
from kerncap.api.doctor.install_commands import Machine
from kerncap.errors import BackendUnavailable

_VARIABLES = re.compile(
    r"^(KERNCAP_\w+|TRITON_\w+|TORCH\w*|PYTORCH_\w+|(CUDA|HIP|ROCR|NVIDIA|GPU)_VISIBLE_DEVICES|LD_PRELOAD|"
    r"LD_LIBRARY_PATH|PYTHONPATH|PYTHONHOME|VIRTUAL_ENV|CONDA_PREFIX|CUDA_(HOME|PATH|INJECTION64_PATH|MODULE_LOADING|"
    r"LAUNCH_BLOCKING)|NVTX_INJECTION64_PATH|HSA_\w+|ROCM_PATH|HIP_PATH|AMD_\w+|RANK|LOCAL_RANK|WORLD_SIZE)$"
)
_NAMED_SECRET = re.compile(r"TOKEN|SECRET|PASS(WORD|WD)|CREDENTIAL|(^|_)(API_?)?KEY($|_)|AUTH", re.IGNORECASE)
_MOST_VALUE = 1000
_NOTE = 4  # a section's header: a note


def facts(
    interpreter: str, packages: Mapping[str, Any], found: Mapping[str, Any], machine: Machine
) -> dict[str, Any]:
    """Plain data for JSON; ``found`` is what the probes of the vendors said, by vendor."""
    libc = " ".join(platform.libc_ver()).strip()
    found = tidy({
        "kerncap": kerncap.__version__,
        "kerncap_python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "distribution": _distribution(),
        "libc": libc or None,
        "container": machine.container,
        "package_manager": machine.manager,
        "cores": os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "gpus_on_the_bus": None if machine.gpus is None else sorted(machine.gpus),
        "nvidia_kernel_module": _first_line("/proc/driver/nvidia/version"),
        "amdgpu_kernel_module": _first_line("/sys/module/amdgpu/version"),
        "vendors": {name: dict(answer) for name, answer in found.items()},
        "target": {"python": interpreter, **{k: v for k, v in packages.items() if k != "executable"}},
        "shims": {name: shim(path) for name, path in (("cuda", env.cuda_shim()), ("hip", env.hip_shim()))},
        "hook": _hook(),
        "environment": {
            name: value[:_MOST_VALUE]
            for name, value in sorted(os.environ.items())
            if _VARIABLES.match(name) and not _NAMED_SECRET.search(name)
        },
    })  # fmt: skip
    return dict(found)


def tidy(value: Any) -> Any:
    """``value`` with nothing private in any of its texts: what `private.Scanner` finds is filled up."""
    from kerncap.format.private import Names, Scrubber  # with it comes numpy, which a doctor can do without

    scrubber = Scrubber(Names())

    def clean(one: Any) -> Any:
        if isinstance(one, str):
            # The end of a text ends a path too.
            return scrubber.string("", env.hide_home(one) + "\n").removesuffix("\n")
        if isinstance(one, Mapping):
            return {clean(str(key)): clean(each) for key, each in one.items()}
        return [clean(each) for each in one] if isinstance(one, list | tuple) else one

    return clean(value)


def shim(path: Path | None) -> dict[str, Any] | None:
    """Where a shim is, how large, and which build it is: by its build id, else by a digest."""
    if path is None:
        return None
    try:
        data = path.read_bytes()
    except OSError as error:
        return {"path": str(path), "error": error.strerror}
    return {"path": str(path), "bytes": len(data), "build_id": build_id(data)}


def build_id(data: bytes) -> str:
    """The GNU build id of an ELF file, or ``sha256:`` and the start of its digest if it has none."""
    from kerncap.format.elf import Elf, ElfProblem

    try:
        for note in Elf(data).notes():
            if note.owner == "GNU" and note.type == 3:  # NT_GNU_BUILD_ID
                return bytes(note.content).hex()
    except ElfProblem:
        pass
    return f"sha256:{hashlib.sha256(data).hexdigest()[:16]}"


def _hook() -> str | None:
    try:
        return str(env.triton_hook_folder())
    except BackendUnavailable:
        return None


def _distribution() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None


def _first_line(path: str) -> str | None:
    try:
        return Path(path).read_text(errors="replace").splitlines()[0].strip()
    except (OSError, IndexError):
        return None
