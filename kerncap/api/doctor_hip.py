"""What of HIP works on this machine: ROCr, its agents, the shim."""

from __future__ import annotations

from typing import Any

import kerncap
from kerncap import env
from kerncap.api import doctor_probes
from kerncap.api.doctor_report import Check

EMULATOR_VARIABLE = "KERNCAP_AMD_EMULATOR"  # as in kerncap.replay, which imports more than a doctor may


def torch_sees_a_gpu(packages: dict[str, Any]) -> Check:
    """Whether the target's torch is a ROCm build that finds a GPU."""
    part = packages.get("torch", {"error": packages.get("error", "not probed")})
    error = part.get("error")
    name = "torch's AMD GPU"
    if error is not None:
        return Check(name=name, status="missing", detail=error)
    if not part["hip"]:
        return Check(
            name=name,
            status="missing",
            detail=f"torch {part['version']} is no ROCm build",
            next_step="install a ROCm build of torch into the target's environment",
        )
    if not part["devices"]:
        return Check(
            name=name,
            status="missing",
            detail="torch.cuda.is_available() is False",
            next_step="check HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES",
        )
    return Check(name=name, status="ok", detail=f"{len(part['devices'])} visible")


def rocr_check(found: dict[str, Any], emulator: str | None) -> Check:
    """The library that every HIP program launches through, the device file, the agents."""
    where = f" ({EMULATOR_VARIABLE}={emulator})" if emulator else ""
    name = "ROCr"
    if "error" in found:
        step = {
            "load": "on a machine with an AMD GPU: install ROCm's runtime (libhsa-runtime64.so.1)",
            "device": "see that the amdgpu driver is loaded; in a container: give it /dev/kfd and /dev/dri",
            "permission": "add this user to the groups render and video",
        }
        return Check(
            name=name,
            status="missing",
            detail=found["error"] + where,
            next_step=step.get(found.get("stage", ""), "see that rocminfo works as this user"),
        )
    agents = found["agents"]
    if not agents:
        return Check(
            name=name,
            status="missing",
            detail=f"ROCr {found['version']}, no GPU agent",
            next_step="check ROCR_VISIBLE_DEVICES",
        )
    names = ", ".join(sorted(set(agents)))
    return Check(name=name, status="ok", detail=f"ROCr {found['version']}, {len(agents)} x {names}{where}")


def shim_check(rocr: Check, emulator: str | None) -> Check:
    """The HIP shim, and by which of its ways in ROCr takes it."""
    name = "HIP shim"
    path = env.hip_shim()
    if path is None:
        return Check(
            name=name,
            status="missing",
            detail="not in this installation",
            next_step="install the manylinux wheel, or in a checkout: make shims",
        )
    if rocr.status == "missing":
        return Check(name=name, status="ok", detail=f"{kerncap.__version__}, {path}; no ROCr to try it with")
    entries = doctor_probes.hip_entries(path, emulator)
    live = [entry for entry, error in entries.items() if error is None]
    if not live:
        return Check(
            name=name,
            status="missing",
            detail=f"{path}: ROCr did not take it: {next(iter(entries.values()))}",
            next_step="HSA_TOOLS_REPORT_LOAD_FAILURE=1 makes ROCr say why",
        )
    return Check(name=name, status="ok", detail=f"{kerncap.__version__}, {path}, by {' and '.join(live)}")
