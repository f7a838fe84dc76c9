"""What the Python of the target brings: torch, Triton, its interpreter, its own sitecustomize."""

from __future__ import annotations

from typing import Any

from kerncap.api.doctor.install_commands import Machine
from kerncap.report.documents.doctor import Check

KNOWN_TRITON = ((3, 4), (3, 9))  # generations that the hook's adapters were written for
_ANOTHER = "or ask about another Python: kerncap doctor --python PATH"


def package_checks(interpreter: str, packages: dict[str, Any], machine: Machine) -> dict[str, Check]:
    """By name: ``python``, ``torch``, ``triton``, ``interpreter``, ``sitecustomize``."""

    def install(*names: str) -> str:
        return f"{machine.pip(interpreter, bool(packages.get('pip', True)), *names)}, {_ANOTHER}"

    return {
        "python": _python(packages),
        "torch": _torch(packages, install("torch")),
        "triton": _triton(packages, install("triton")),
        "interpreter": _interpreter(packages),
        "sitecustomize": _sitecustomize(packages),
    }


def part_of(packages: dict[str, Any], name: str) -> tuple[dict[str, Any], str | None]:
    """What the probe said about ``name``, and its error."""
    part = packages.get(name, {"error": packages.get("error", "not probed")})
    return part, part.get("error")


def _python(packages: dict[str, Any]) -> Check:
    name = "target's Python"
    if "error" in packages:
        return Check(
            name=name, status="missing", detail=packages["error"],
            next_step="name the Python that runs your program: kerncap doctor --python PATH",
        )  # fmt: skip
    return Check(name=name, status="ok", detail=f"{packages['python']}, {packages['executable']}")


def _torch(packages: dict[str, Any], install: str) -> Check:
    part, error = part_of(packages, "torch")
    if error is not None:
        return Check(name="torch", status="missing", detail=error, next_step=install)
    if part["hip"]:
        build = f"ROCm {part['hip']}"
    else:
        build = f"CUDA {part['cuda']}" if part["cuda"] else "CPU build"
    known = [n if part["hip"] else f"{n} (sm_{a}{b})" for n, (a, b) in part["devices"]]
    devices = ", ".join(known) or "no GPU visible"
    return Check(name="torch", status="ok", detail=f"{part['version']}, {build}, {devices}")


def _triton(packages: dict[str, Any], install: str) -> Check:
    part, error = part_of(packages, "triton")
    if error is not None:
        return Check(name="triton", status="missing", detail=error, next_step=install)
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
    _, error = part_of(packages, "interpreter")
    if error is not None:
        return Check(
            name="Triton's interpreter",
            status="missing",
            detail=f"a kernel on CPU tensors did not run: {error}",
            next_step="check that torch, triton and numpy fit each other in the target's environment",
        )
    return Check(name="Triton's interpreter", status="ok", detail="a kernel on CPU tensors ran")


def _sitecustomize(packages: dict[str, Any]) -> Check:
    origin = packages.get("sitecustomize")
    if origin is None:
        return Check(name="sitecustomize", status="ok", detail="the target's Python has none")
    return Check(name="sitecustomize", status="note", detail=f"{origin} exists and will be chained")
