"""What works on this machine, what does not, and the next step for each.

What could crash, hang or load a driver is asked in a process of its own: `probes`.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import kerncap
from kerncap import child, env, log
from kerncap.api.doctor import probes as doctor_probes
from kerncap.api.doctor.doctor_result import Report
from kerncap.api.doctor.install_commands import Machine
from kerncap.api.doctor.packages import describe_triton, package_checks
from kerncap.api.doctor.vendors import (
    AMD,
    EMULATOR_VARIABLE,
    NVIDIA,
    library_check,
    shim_check,
    torch_sees_a_gpu,
)
from kerncap.errors import BackendUnavailable
from kerncap.report.documents.doctor import Check, SelfTest, Way

__all__ = ["Check", "Report", "SelfTest", "Way", "describe_triton", "doctor"]

SMALL_FREE_BYTES = 1 << 30
# Each way's key is what the self-test calls it.
ON_CPU, TRITON_NVIDIA, CUDA, TRITON_AMD, HIP = "triton-cpu", "triton-cuda", "cuda", "triton-hip", "hip"


def doctor(
    python: str | None = None, output: Path = Path("kerncap-out"), *, self_test: bool = False
) -> Report:
    """Probe this machine and the Python that runs the targets.

    ``python`` is an interpreter (default: the one that runs kerncap), ``output`` the folder that
    reproducers would go to; it is not created. ``self_test`` captures and replays a small launch by each
    way that works. Nothing raises: what fails is a check.
    """
    interpreter = python or sys.executable
    machine = Machine.here()
    emulator = os.environ.get(EMULATOR_VARIABLE)
    packages = doctor_probes.packages(interpreter)
    found = {NVIDIA.name: doctor_probes.driver(), AMD.name: doctor_probes.rocr(emulator)}
    of_python = package_checks(interpreter, packages, machine)
    hook = _hook()
    libcuda = target_libcuda = library_check(NVIDIA, found[NVIDIA.name], machine)
    if python not in (None, sys.executable) and "error" not in packages:
        answer, has_pip = doctor_probes.driver(interpreter), bool(packages.get("pip", True))
        target_libcuda = library_check(NVIDIA, answer, machine, python=interpreter, has_pip=has_pip)
    rocr = library_check(AMD, found[AMD.name], machine, emulator)
    shims = shim_check(NVIDIA, libcuda), shim_check(AMD, rocr, emulator)
    triton = [hook, *(of_python[name] for name in ("python", "torch", "triton"))]
    amd = "an emulated AMD GPU" if emulator else AMD.gpu
    # On an emulated GPU, for which there is no torch, tensors are over memory of HIP's.
    sees_amd = [] if emulator else [torch_sees_a_gpu(AMD, packages)]
    ways = {
        ON_CPU: _way("Triton on the CPU (TRITON_INTERPRET=1)", [*triton, of_python["interpreter"]]),
        TRITON_NVIDIA: _way(
            f"Triton on {NVIDIA.gpu}", [*triton, target_libcuda, torch_sees_a_gpu(NVIDIA, packages)]
        ),
        CUDA: _way(f"CUDA kernels on {NVIDIA.gpu}", [shims[0], libcuda]),
        TRITON_AMD: _way(f"Triton on {amd}", [*triton, rocr, *sees_amd]),
        HIP: _way(f"HIP kernels on {amd}", [shims[1], rocr]),
    }
    own = f"{kerncap.__version__}, Python {platform.python_version()}"
    checks = (
        Check(name="kerncap", status="ok", detail=own),
        of_python["python"], hook, of_python["torch"], of_python["triton"], of_python["interpreter"],
        libcuda, shims[0], rocr, shims[1], _hip_python(interpreter, machine, rocr), _sanitizer(),
        _tools(interpreter, machine),
        of_python["sitecustomize"], _memfd(), _writable("output folder", output),
        _writable("/dev/shm", Path("/dev/shm")),
    )  # fmt: skip
    report = Report(kerncap=kerncap.__version__, python=interpreter, ways=tuple(ways.values()), checks=checks)
    return dataclasses.replace(
        report,
        facts=_facts(interpreter, packages, found, machine),
        self_test=_self_test(interpreter, emulator, ways) if self_test else (),
    )


def _facts(
    interpreter: str, packages: dict[str, Any], found: dict[str, Any], machine: Machine
) -> dict[str, Any]:
    from kerncap.api.doctor.bug_report_facts import facts

    return facts(interpreter, packages, found, machine)


def _self_test(interpreter: str, emulator: str | None, ways: dict[str, Way]) -> tuple[SelfTest, ...]:
    from kerncap.api.doctor.self_test import self_test

    return tuple(self_test(key, way, interpreter, emulator) for key, way in ways.items())


def _way(name: str, needs: list[Check]) -> Way:
    for need in needs:
        if need.status == "missing":
            return Way(name=name, works=False, reason=f"{need.name}: {need.detail}", next_step=need.next_step)
    return Way(name=name, works=True)


def _hook() -> Check:
    try:
        return Check(name="hook", status="ok", detail=str(env.triton_hook_folder()))
    except BackendUnavailable as error:
        return Check(name="hook", status="missing", detail=error.reason, next_step="reinstall kerncap")


def _sanitizer() -> Check:
    """Works everywhere; z3 answers what its own tiers leave open."""
    if importlib.util.find_spec("z3") is None:
        return Check(
            name="sanitizer",
            status="note",
            detail="z3 is not installed: questions that need it stay unproven",
            next_step="pip install 'kerncap[sanitizer]'",
        )
    try:
        found = importlib.metadata.version("z3-solver")
    except importlib.metadata.PackageNotFoundError:
        found = "of an unknown version"
    return Check(name="sanitizer", status="ok", detail=f"z3 {found}")


def _tools(interpreter: str, machine: Machine) -> Check:
    """Compilers and disassemblers: for candidates in CUDA or HIP, for `diff`; a capture needs none."""
    from kerncap.replay.candidates.tools import Tool, available

    name = "compilers"
    found = {key: tool for key, tool in available(interpreter).items() if isinstance(tool, Tool)}
    others = [
        tool
        for tool in ("nvdisasm", "cuobjdump", "llvm-objdump", "ncu", "compute-sanitizer")
        if child.find(tool)
    ]
    hiprtc = found.pop("hiprtc", None)  # a check of its own
    told = [f"{key} {tool.version}".strip() for key, tool in found.items()] + others
    if hiprtc is None and not set(found) & {"nvcc", "nvrtc", "hipcc"}:
        step = machine.pip(interpreter, True, "nvidia-cuda-nvrtc")
        shown = f"; {', '.join(told)}" if told else ""
        return Check(
            name=name, status="note",
            detail=f"none of nvcc, NVRTC, hipcc: no edits of CUDA or HIP sources{shown}",
            next_step=f"{step} (CUDA), or ROCm's hipcc (HIP)",
        )  # fmt: skip
    return Check(name=name, status="ok", detail=", ".join(told))


def _hip_python(interpreter: str, machine: Machine, rocr: Check) -> Check:
    """hip-python: the compiler of HIPRTC's programs if there is no hipcc, and the self-test's."""
    from kerncap.replay.candidates.tools import Tool, hip_requirement, hiprtc

    found = hiprtc(interpreter)
    if isinstance(found, Tool):
        return Check(name="hip-python", status="ok", detail=f"{found.version}, in {found.path}")
    return Check(
        name="hip-python",
        status="note",
        detail="not installed: edits of HIPRTC programs need hipcc, and HIP has no self-test",
        next_step=machine.pip(sys.executable, True, hip_requirement()) if rocr.status == "ok" else None,
    )


def _memfd() -> Check:
    try:
        os.close(os.memfd_create("kerncap-doctor"))
    except (AttributeError, OSError) as error:
        return Check(
            name="memfd",
            status="note",
            detail=f"not available ({error}): --on-fault and --when go through the output folder",
        )
    return Check(name="memfd", status="ok", detail="for --on-fault and --when")


def _writable(name: str, folder: Path) -> Check:
    """Whether ``folder``, or the nearest parent that exists, takes a file, and the room there."""
    place = folder
    try:
        place = _nearest(folder)
        with tempfile.TemporaryFile(dir=place):
            pass
        free = shutil.disk_usage(place).free
    except OSError as error:
        return Check(
            name=name,
            status="note",
            detail=f"{place}: not writable: {error.strerror}",
            next_step="give captures another folder: kerncap capture -o DIR" if name != "/dev/shm" else None,
        )
    detail = f"{place}: {log.size(free)} free"
    if free < SMALL_FREE_BYTES:
        return Check(name=name, status="note", detail=f"{detail}: large captures will not fit")
    return Check(name=name, status="ok", detail=detail)


def _nearest(folder: Path) -> Path:
    """``folder``, or its nearest parent that exists. OSError for what can't be there: a name too long."""
    place = folder.absolute()  # of a working directory that may be gone
    while True:
        try:
            place.stat()
        except (FileNotFoundError, NotADirectoryError):
            place = place.parent
        else:
            return place
