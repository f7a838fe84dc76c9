"""What of a vendor's GPUs works here: torch's view, the library below it, the shim. One shape for all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import kerncap
from kerncap import env
from kerncap.api.doctor import probes as doctor_probes
from kerncap.api.doctor.install_commands import Machine, group_of
from kerncap.replay.worker.cuda_bindings import REQUIREMENT
from kerncap.report.documents.doctor import Check

EMULATOR_VARIABLE = "KERNCAP_AMD_EMULATOR"  # as in kerncap.replay, which imports more than a doctor may
KFD = "/dev/kfd"
_NO_SHIM = "install the manylinux wheel, or in a checkout: make shims"


@dataclass(frozen=True)
class Vendor:
    """``build``: torch's name for its builds for it; ``pci``: the vendor's id on the bus."""

    name: str
    language: str
    gpu: str
    pci: str
    build: str
    build_name: str
    library: str
    shim: str
    visible: str  # variables that hide GPUs
    uncalled: str  # the next step if the library does not call the shim
    shows: str  # the program that shows them
    steps: Callable[[Machine], dict[str, str]]  # by the stage at which the probe failed


def _nvidia_steps(machine: Machine) -> dict[str, str]:
    if not machine.has("0x10de"):
        load = "no NVIDIA GPU on this machine's bus; on a machine with one: install NVIDIA's driver"
    elif machine.container:
        load = (
            f"start the {machine.container} container with its GPUs (NVIDIA's container toolkit): --gpus all"
        )
    else:
        load = machine.install("nvidia driver", "install NVIDIA's driver")
    return {"load": load, "init": "check that nvidia-smi works as this user"}


def _amd_steps(machine: Machine) -> dict[str, str]:
    rocr = machine.install("rocr", "install ROCm's runtime (libhsa-runtime64.so.1)")
    groups = ",".join(dict.fromkeys(filter(None, (group_of(KFD), "render", "video"))))
    none = "no AMD GPU on this machine's bus; `make amd-gpu` in a checkout builds an emulated one"
    device = "check that the amdgpu driver is loaded: sudo modprobe amdgpu"
    if machine.container:
        device = f"start the {machine.container} container with --device {KFD} --device /dev/dri"
    return {
        "load": rocr if machine.has("0x1002") else none,
        "device": device if machine.has("0x1002") else none,
        "permission": f"sudo usermod -aG {groups} $USER, and log in again",
    }


NVIDIA = Vendor(
    name="nvidia", language="CUDA", gpu="an NVIDIA GPU", pci="0x10de", build="cuda", build_name="CUDA",
    library="libcuda", shim="CUDA shim", visible="CUDA_VISIBLE_DEVICES", shows="nvidia-smi",
    uncalled="check what else LD_PRELOAD and CUDA_INJECTION64_PATH name here",
    steps=_nvidia_steps,
)  # fmt: skip
AMD = Vendor(
    name="amd", language="HIP", gpu="an AMD GPU", pci="0x1002", build="hip", build_name="ROCm",
    library="ROCr", shim="HIP shim", visible="HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES", shows="rocminfo",
    uncalled="HSA_TOOLS_REPORT_LOAD_FAILURE=1 makes ROCr print the reason",
    steps=_amd_steps,
)  # fmt: skip


def torch_sees_a_gpu(vendor: Vendor, packages: Mapping[str, Any]) -> Check:
    """Whether the target's torch is a build for this vendor that finds a GPU."""
    part = packages.get("torch", {"error": packages.get("error", "not probed")})
    name = f"torch's {vendor.gpu.partition(' ')[2]}"
    if part.get("error") is not None:
        return Check(name=name, status="missing", detail=part["error"])
    if not part[vendor.build]:
        others = [other.build_name for other in (NVIDIA, AMD) if part[other.build]]
        return Check(
            name=name,
            status="missing",
            detail=f"torch {part['version']} is a {others[0] if others else 'CPU'} build",
            next_step=f"install a {vendor.build_name} build of torch into the target's environment",
        )
    if not part["devices"]:
        return Check(
            name=name,
            status="missing",
            detail="torch.cuda.is_available() is False",
            next_step=f"check {vendor.visible}, and that the driver is new enough for this build",
        )
    return Check(name=name, status="ok", detail=f"{len(part['devices'])} visible")


def library_check(
    vendor: Vendor, found: Mapping[str, Any], machine: Machine, emulator: str | None = None,
    python: str = sys.executable, has_pip: bool = True,
) -> Check:  # fmt: skip
    """The library that this vendor's launches go through, and its GPUs, as ``python`` sees them."""
    where = f" ({EMULATOR_VARIABLE}={emulator})" if emulator else ""
    if "error" in found:
        steps = {**vendor.steps(machine), "bindings": machine.pip(python, has_pip, REQUIREMENT)}
        step = steps.get(found.get("stage", ""), f"see that {vendor.shows} works as this user")
        return Check(name=vendor.library, status="missing", detail=found["error"] + where, next_step=step)
    devices = found["devices"]
    if not devices:
        return Check(
            name=vendor.library,
            status="missing",
            detail=f"{found['version']}, no GPU{where}",
            next_step=f"check {vendor.visible}",
        )
    names = ", ".join(sorted(set(devices)))
    return Check(
        name=vendor.library, status="ok", detail=f"{found['version']}, {len(devices)} x {names}{where}"
    )


def shim_check(vendor: Vendor, library: Check, emulator: str | None = None) -> Check:
    """The shim: whether it is there, loads, and by which of its ways it is called in a process."""
    kind: Literal["cuda", "hip"] = "cuda" if vendor is NVIDIA else "hip"
    path = env.cuda_shim() if kind == "cuda" else env.hip_shim()
    if path is None:
        return Check(
            name=vendor.shim, status="missing", detail="not in this installation", next_step=_NO_SHIM
        )
    answer = doctor_probes.loads(kind, path)
    if "error" in answer:
        return Check(
            name=vendor.shim, status="missing", detail=f"{path}: {answer['error']}", next_step=_NO_SHIM
        )
    here = f"{kerncap.__version__}, {path}"
    if library.status == "missing":
        return Check(
            name=vendor.shim, status="ok", detail=f"{here}, loads; no {vendor.library} to try it with"
        )
    entries = doctor_probes.entries(kind, path, emulator)
    live = [entry for entry, error in entries.items() if error is None]
    if not live:
        return Check(
            name=vendor.shim,
            status="missing",
            detail=f"{path}: {vendor.library} did not call it: {next(iter(entries.values()))}",
            next_step=vendor.uncalled,
        )
    registered = any("rocprofiler-register" in entry for entry in live)
    why = "; ROCr skips HSA_TOOLS_LIB, because another tool is registered" if registered else ""
    return Check(name=vendor.shim, status="ok", detail=f"{here}, by {' and '.join(live)}{why}")
