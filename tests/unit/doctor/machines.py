"""Answers of probes on machines of several kinds, and what `doctor` reports from them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kerncap import env
from kerncap.api.doctor import Check, Report
from kerncap.api.doctor import probes as doctor_probes
from kerncap.api.doctor.install_commands import Machine
from kerncap.api.doctor.vendors import AMD, NVIDIA

api = sys.modules["kerncap.api.doctor"]  # the module: kerncap.api.doctor is the function
MACHINE = Machine("apt-get", None, frozenset({NVIDIA.pci, AMD.pci}), uv=False)

GOOD_PACKAGES = {
    "python": "3.12.3",
    "executable": "/usr/bin/python3",
    "sitecustomize": None,
    "torch": {"version": "2.11.0", "cuda": "13.0", "hip": None, "devices": [["NVIDIA H200", [9, 0]]]},
    "triton": {"version": "3.6.0"},
    "interpreter": {"runs": True},
}
NO_DRIVER = {"error": "libcuda.so.1: cannot open shared object file", "stage": "load"}
GOOD_DRIVER = {"version": "CUDA 13.0", "devices": ["NVIDIA H200"]}
NO_ROCR = {"error": "libhsa-runtime64.so.1: cannot open shared object file", "stage": "load"}
GOOD_ROCR = {"version": "ROCr 1.15", "devices": ["gfx942", "gfx942"]}


def report_of(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    packages: dict,
    driver: dict,
    rocr: dict = NO_ROCR,
    hip_shim: Path | None = None,
    entries_are_asked: bool = False,
) -> Report:
    monkeypatch.setattr(Machine, "here", classmethod(lambda cls: MACHINE))
    monkeypatch.setattr(doctor_probes, "packages", lambda python: packages)
    monkeypatch.setattr(doctor_probes, "driver", lambda python="": driver)
    monkeypatch.setattr(env, "cuda_shim", lambda: Path("/shim.so"))
    monkeypatch.setattr(doctor_probes, "loads", lambda shim, path: {"loads": True})
    if not entries_are_asked:
        both = {"A": None, "B": None}
        monkeypatch.setattr(doctor_probes, "entries", lambda shim, path, emulator: both)
    monkeypatch.setattr(env, "hip_shim", lambda: hip_shim)
    monkeypatch.setattr(doctor_probes, "rocr", lambda emulator: rocr)
    return api.doctor(output=tmp_path / "out")


def ways(found: Report) -> list[bool]:
    return [way.works for way in found.ways]


def check(found: Report, name: str) -> Check:
    return next(check for check in found.checks if check.name == name)
