"""What works on this machine, what does not, and the next step for each.

What could crash, hang or load a driver is asked in a process of its own: `doctor_probes`.
"""

from __future__ import annotations

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
from kerncap import env, log
from kerncap.api import doctor_hip, doctor_probes
from kerncap.api.doctor_report import Check, Report, Way
from kerncap.errors import BackendUnavailable

__all__ = ["Check", "Report", "Way", "describe_triton", "doctor"]

KNOWN_TRITON = ((3, 4), (3, 9))  # generations that the hook's adapters were written for
SMALL_FREE_BYTES = 1 << 30


def doctor(python: str | None = None, output: Path = Path("kerncap-out")) -> Report:
    """Probe this machine and the Python that runs the targets.

    ``python`` is an interpreter (default: the one that runs kerncap), ``output`` the folder that
    reproducers would go to; it is not created. Nothing raises: what fails is a check.
    """
    interpreter = python or sys.executable
    packages = doctor_probes.packages(interpreter)
    driver = doctor_probes.driver()

    hook = _hook()
    target = _target_python(interpreter, packages)
    torch = _torch(packages)
    triton = _triton(packages)
    interpreted = _interpreter(packages)
    libcuda = _libcuda(driver)
    shim = _shim()
    emulator = os.environ.get(doctor_hip.EMULATOR_VARIABLE)
    rocr = doctor_hip.rocr_check(doctor_probes.rocr(emulator), emulator)
    hip_shim = doctor_hip.shim_check(rocr, emulator)
    amd = "an emulated AMD GPU" if emulator else "an AMD GPU"
    # On an emulated GPU, for which there is no torch, tensors are over memory of HIP's.
    sees = [] if emulator else [doctor_hip.torch_sees_a_gpu(packages)]
    own_python = platform.python_version()
    checks = [
        Check(name="kerncap", status="ok", detail=f"{kerncap.__version__}, Python {own_python}"),
        target,
        hook,
        torch,
        triton,
        interpreted,
        libcuda,
        shim,
        rocr,
        hip_shim,
        _sanitizer(),
        _sitecustomize(packages),
        _memfd(),
        _writable("output folder", output),
        _writable("/dev/shm", Path("/dev/shm")),
    ]
    ways = (
        _way("Triton on the CPU (TRITON_INTERPRET=1)", [hook, target, torch, triton, interpreted]),
        _way("Triton on an NVIDIA GPU", [hook, target, torch, triton, libcuda, _torch_sees_a_gpu(packages)]),
        _way("CUDA kernels on an NVIDIA GPU", [shim, libcuda]),
        _way(f"Triton on {amd}", [hook, target, torch, triton, rocr, *sees]),
        _way(f"HIP kernels on {amd}", [hip_shim, rocr]),
    )
    return Report(
        kerncap=kerncap.__version__,
        python=interpreter,
        ways=ways,
        checks=tuple(checks),
    )


def _way(name: str, needs: list[Check]) -> Way:
    for need in needs:
        if need.status == "missing":
            return Way(name=name, works=False, reason=f"{need.name}: {need.detail}", next_step=need.next_step)
    return Way(name=name, works=True)


def _part(packages: dict[str, Any], name: str) -> tuple[dict[str, Any], str | None]:
    """What the probe said about ``name``, and its error."""
    part = packages.get(name, {"error": packages.get("error", "not probed")})
    return part, part.get("error")


def _hook() -> Check:
    try:
        return Check(name="hook", status="ok", detail=str(env.triton_hook_folder()))
    except BackendUnavailable as error:
        return Check(name="hook", status="missing", detail=error.reason, next_step="reinstall kerncap")


def _target_python(interpreter: str, packages: dict[str, Any]) -> Check:
    if "error" in packages:
        return Check(
            name="target's Python",
            status="missing",
            detail=packages["error"],
            next_step="name the Python that runs your program: kerncap doctor --python PATH",
        )
    return Check(
        name="target's Python", status="ok", detail=f"{packages['python']}, {packages['executable']}"
    )


def _torch(packages: dict[str, Any]) -> Check:
    part, error = _part(packages, "torch")
    if error is not None:
        return Check(
            name="torch",
            status="missing",
            detail=error,
            next_step="install torch into the target's environment, or ask about another one with --python",
        )
    if part["hip"]:
        build = f"ROCm {part['hip']}"
    else:
        build = f"CUDA {part['cuda']}" if part["cuda"] else "CPU build"
    known = [n if part["hip"] else f"{n} (sm_{a}{b})" for n, (a, b) in part["devices"]]
    devices = ", ".join(known) or "no GPU visible"
    return Check(name="torch", status="ok", detail=f"{part['version']}, {build}, {devices}")


def _torch_sees_a_gpu(packages: dict[str, Any]) -> Check:
    part, error = _part(packages, "torch")
    name = "torch's GPU"
    if error is not None:
        return Check(name=name, status="missing", detail=error)
    if part["hip"]:
        return Check(
            name=name,
            status="missing",
            detail="a ROCm build of torch",
            next_step="install a CUDA build of torch into the target's environment",
        )
    if not part["cuda"]:
        return Check(
            name=name,
            status="missing",
            detail=f"torch {part['version']} is a CPU build",
            next_step="install a CUDA build of torch into the target's environment",
        )
    if not part["devices"]:
        return Check(
            name=name,
            status="missing",
            detail="torch.cuda.is_available() is False",
            next_step="check CUDA_VISIBLE_DEVICES, and that the driver is new enough for this build",
        )
    return Check(name=name, status="ok", detail=f"{len(part['devices'])} visible")


def _triton(packages: dict[str, Any]) -> Check:
    part, error = _part(packages, "triton")
    if error is not None:
        return Check(
            name="triton",
            status="missing",
            detail=error,
            next_step="install triton into the target's environment, or ask about another one with --python",
        )
    return describe_triton(part["version"])


def describe_triton(version: str) -> Check:
    """Whether a Triton of this version is one that the hook knows."""
    try:
        major, minor = (int(digits) for digits in version.split(".")[:2])
    except ValueError:
        return Check(name="triton", status="note", detail=f"{version}: unknown, will be tried")
    oldest, newest = KNOWN_TRITON
    known = f"{oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}"
    if (major, minor) < oldest:
        return Check(
            name="triton",
            status="missing",
            detail=f"{version} is older than what kerncap knows ({known})",
            next_step=f"upgrade triton to {oldest[0]}.{oldest[1]} or newer",
        )
    if (major, minor) > newest:
        return Check(
            name="triton",
            status="note",
            detail=f"{version} is newer than what kerncap knows ({known}): unknown, will be tried",
        )
    return Check(name="triton", status="ok", detail=f"{version} (known: {known})")


def _interpreter(packages: dict[str, Any]) -> Check:
    _, error = _part(packages, "interpreter")
    if error is not None:
        return Check(
            name="Triton's interpreter",
            status="missing",
            detail=f"a kernel on CPU tensors did not run: {error}",
            next_step="see that torch, triton and numpy fit each other in the target's environment",
        )
    return Check(name="Triton's interpreter", status="ok", detail="a kernel on CPU tensors ran")


def _libcuda(driver: dict[str, Any]) -> Check:
    if "error" in driver:
        step = {
            "load": "on a GPU machine: install NVIDIA's driver; in a container: start it with GPU access",
            "init": "see that nvidia-smi works as this user",
        }
        return Check(
            name="libcuda",
            status="missing",
            detail=driver["error"],
            next_step=step.get(driver.get("stage", ""), "see that nvidia-smi answers"),
        )
    devices = driver["devices"]
    if not devices:
        return Check(
            name="libcuda",
            status="missing",
            detail=f"CUDA {driver['cuda']}, no device",
            next_step="check CUDA_VISIBLE_DEVICES",
        )
    names = ", ".join(sorted(set(devices)))
    return Check(name="libcuda", status="ok", detail=f"CUDA {driver['cuda']}, {len(devices)} x {names}")


def _shim() -> Check:
    name = "CUDA shim"
    path = env.cuda_shim()
    if path is None:
        return Check(
            name=name,
            status="missing",
            detail="not in this installation",
            next_step="install the manylinux wheel, or in a checkout: make shims",
        )
    answer = doctor_probes.shim(path)
    if "error" in answer:
        return Check(name=name, status="missing", detail=f"{path}: {answer['error']}", next_step="make shims")
    return Check(name=name, status="ok", detail=f"{kerncap.__version__}, {path}, preloads")


def _sanitizer() -> Check:
    """Works everywhere; z3 answers what its own tiers leave open."""
    if importlib.util.find_spec("z3") is None:
        return Check(
            name="sanitizer",
            status="note",
            detail="z3 is not installed: what needs it stays unproven",
            next_step="pip install 'kerncap[sanitizer]'",
        )
    try:
        found = importlib.metadata.version("z3-solver")
    except importlib.metadata.PackageNotFoundError:
        found = "of an unknown version"
    return Check(name="sanitizer", status="ok", detail=f"z3 {found}")


def _sitecustomize(packages: dict[str, Any]) -> Check:
    origin = packages.get("sitecustomize")
    if origin is None:
        return Check(name="sitecustomize", status="ok", detail="the target's Python has none of its own")
    return Check(name="sitecustomize", status="note", detail=f"{origin} exists and will be chained")


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
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    try:
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
