"""What `kerncap doctor` makes of the answers of probes."""

from __future__ import annotations

import importlib.machinery
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kerncap import env
from kerncap.api.doctor import Check, describe_triton
from kerncap.api.doctor import probes as doctor_probes
from kerncap.api.doctor import vendors as doctor_vendors
from kerncap.api.doctor.packages import KNOWN_TRITON
from kerncap.api.doctor.vendors import EMULATOR_VARIABLE, NVIDIA
from kerncap.report.doctor_text import render
from kerncap.report.documents.doctor import SelfTest, Step
from tests.unit.doctor.machines import (
    GOOD_DRIVER,
    GOOD_PACKAGES,
    GOOD_ROCR,
    NO_DRIVER,
    NO_ROCR,
    api,
    check,
    report_of,
    ways,
)


def cuda_shim() -> Check:
    return doctor_vendors.shim_check(NVIDIA, Check(name="libcuda", status="missing", detail=""))


@pytest.mark.parametrize("there", [True, False])
def test_the_sanitizer_has_a_row(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    found = importlib.machinery.ModuleSpec("z3", None) if there else None
    monkeypatch.setattr(api.importlib.util, "find_spec", lambda name: found)
    monkeypatch.setattr(api.importlib.metadata, "version", lambda name: {"z3-solver": "4.15.0"}[name])
    row = api._sanitizer()
    assert (row.name, row.status, row.detail, row.next_step) == (
        ("sanitizer", "ok", "z3 4.15.0", None)
        if there
        else (
            "sanitizer", "note", "z3 is not installed: questions that need it stay unproven",
            "pip install 'kerncap[sanitizer]'",
        )
    )  # fmt: skip


def test_a_gpu_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = report_of(monkeypatch, tmp_path, GOOD_PACKAGES, GOOD_DRIVER)
    assert ways(found) == [True, True, True, False, False]
    assert check(found, "torch").detail == "2.11.0, CUDA 13.0, NVIDIA H200 (sm_90)"
    assert check(found, "libcuda").detail == "CUDA 13.0, 1 x NVIDIA H200"


def test_a_machine_without_gpu_runs_the_interpreter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = report_of(monkeypatch, tmp_path, GOOD_PACKAGES, NO_DRIVER)
    assert ways(found) == [True, False, False, False, False]
    assert found.ways[1].reason == "libcuda: libcuda.so.1: cannot open shared object file"
    assert found.ways[1].next_step is not None and "driver" in found.ways[1].next_step


def test_a_cpu_build_beside_a_gpu_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch = {"version": "2.13.0+cpu", "cuda": None, "hip": None, "devices": []}
    found = report_of(monkeypatch, tmp_path, {**GOOD_PACKAGES, "torch": torch}, GOOD_DRIVER)
    assert ways(found) == [True, False, True, False, False]
    assert found.ways[1].reason == "torch's NVIDIA GPU: torch 2.13.0+cpu is a CPU build"


def test_a_missing_shim_is_said_with_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env, "cuda_shim", lambda: None)
    found = cuda_shim()
    assert found.status == "missing" and found.next_step is not None and "make shims" in found.next_step


def test_a_shim_is_preloaded_as_a_target_would_have_it(
    monkeypatch: pytest.MonkeyPatch, compiled: Callable[[str], Path]
) -> None:
    shim = compiled("int kerncap_cuda_live(void) { return 0; }")
    monkeypatch.setattr(env, "cuda_shim", lambda: shim)
    found = cuda_shim()
    assert (found.status, str(shim) in found.detail) == ("ok", True)


@pytest.mark.parametrize("content", ["int other;", None])
def test_a_shim_that_does_not_load_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiled: Callable[[str], Path], content: str | None
) -> None:
    shim = tmp_path / "libshim.so"
    if content is None:
        shim.write_bytes(b"no ELF file")
    else:
        compiled(content)
    monkeypatch.setattr(env, "cuda_shim", lambda: shim)
    found = cuda_shim()
    assert found.status == "missing" and str(shim) in found.detail


def test_an_amd_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    both = {"HSA_TOOLS_LIB": None, "LD_PRELOAD": None}
    monkeypatch.setattr(doctor_probes, "entries", lambda shim, path, emulator: both)
    torch = {"version": "2.9", "cuda": None, "hip": "6.4", "devices": [["AMD Instinct MI300X", [9, 4]]]}
    packages = {**GOOD_PACKAGES, "torch": torch}
    found = report_of(monkeypatch, tmp_path, packages, NO_DRIVER, GOOD_ROCR, Path("/hip.so"), True)
    assert ways(found) == [True, False, False, True, True]
    assert check(found, "torch").detail == "2.9, ROCm 6.4, AMD Instinct MI300X"
    assert check(found, "ROCr").detail == "ROCr 1.15, 2 x gfx942"
    assert check(found, "HIP shim").detail.endswith("/hip.so, by HSA_TOOLS_LIB and LD_PRELOAD")


def test_the_entry_beside_another_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found_ways = {"HSA_TOOLS_LIB": "it was not called", "LD_PRELOAD and rocprofiler-register": None}
    monkeypatch.setattr(doctor_probes, "entries", lambda shim, path, emulator: found_ways)
    found = report_of(monkeypatch, tmp_path, GOOD_PACKAGES, NO_DRIVER, GOOD_ROCR, Path("/hip.so"), True)
    assert check(found, "HIP shim").detail.endswith(
        "by LD_PRELOAD and rocprofiler-register; ROCr skips HSA_TOOLS_LIB, because another tool is registered"
    )


@pytest.mark.parametrize(
    ("rocr", "detail", "step"),
    [
        (NO_ROCR, "cannot open shared object", "apt-get install libhsa-runtime64-1"),
        ({"error": "there is no /dev/kfd", "stage": "device"}, "no /dev/kfd", "sudo modprobe amdgpu"),
        (
            {"error": "this user may not open /dev/kfd", "stage": "permission"},
            "may not",
            "render,video $USER",
        ),
        ({"error": "hsa_init: OUT_OF_RESOURCES", "stage": "init"}, "OUT_OF_RESOURCES", "rocminfo"),
        ({"version": "ROCr 1.15", "devices": []}, "no GPU", "ROCR_VISIBLE_DEVICES"),
    ],
)
def test_why_no_hip(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rocr: dict, detail: str, step: str
) -> None:
    found = report_of(monkeypatch, tmp_path, GOOD_PACKAGES, NO_DRIVER, rocr, Path("/hip.so"))
    way = found.ways[-1]
    assert not way.works and way.reason is not None and way.next_step is not None
    assert way.reason.startswith("ROCr: ") and detail in way.reason and step in way.next_step


def test_an_emulated_gpu_is_asked_and_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "emulator"
    folder.mkdir()
    monkeypatch.setenv(EMULATOR_VARIABLE, str(folder))
    rocr = doctor_probes.rocr
    assert "run can't be started" in rocr(str(folder))["error"]
    (folder / "run").write_text('#!/bin/sh\necho \'{"version": "ROCr 1.15", "devices": ["gfx90a"]}\'\n')
    (folder / "run").chmod(0o755)
    found = report_of(monkeypatch, tmp_path, GOOD_PACKAGES, NO_DRIVER, rocr(str(folder)))
    assert check(found, "ROCr").detail == f"ROCr 1.15, 1 x gfx90a (KERNCAP_AMD_EMULATOR={folder})"
    assert found.ways[-1].name == "HIP kernels on an emulated AMD GPU"


def test_a_hip_shim_that_rocr_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refused = {"HSA_TOOLS_LIB": "it was not called", "LD_PRELOAD": "it was not called"}
    monkeypatch.setattr(doctor_probes, "entries", lambda shim, path, emulator: refused)
    found = report_of(monkeypatch, tmp_path, GOOD_PACKAGES, NO_DRIVER, GOOD_ROCR, Path("/hip.so"), True)
    assert found.ways[-1].reason == "HIP shim: /hip.so: ROCr did not call it: it was not called"


@pytest.mark.parametrize(
    ("version", "status", "words"),
    [
        ("3.3.1", "missing", "older"),
        ("3.4.0", "ok", "known"),
        ("3.9.0+git1234", "ok", "known"),
        ("3.10.0", "note", "unknown, will be tried"),
        ("4.0.0", "note", "unknown, will be tried"),
        ("nightly", "note", "unknown, will be tried"),
    ],
)
def test_triton_generations(version: str, status: str, words: str) -> None:
    found = describe_triton(version)
    assert (found.status, words in found.detail) == (status, True)


def test_doctor_and_hook_know_the_same_tritons() -> None:
    """The hook can't be imported by kerncap's own process, so both have the numbers."""
    path = env.triton_hook_folder() / "kerncap_triton" / "triton_generations.py"
    known = re.findall(r"^(?:OLDEST|NEWEST) = \((\d+), (\d+)\)", path.read_text(), re.MULTILINE)
    assert tuple((int(major), int(minor)) for major, minor in known) == KNOWN_TRITON


def test_an_environment_of_its_own_is_probed(tmp_path: Path) -> None:
    """The Python of the target is asked, not kerncap's: here one that has nothing."""
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    found = api.doctor(python=str(bare / "bin" / "python"), output=tmp_path)
    assert ways(found)[:2] == [False, False]
    assert check(found, "torch").detail == "ModuleNotFoundError: No module named 'torch'"
    assert found.ways[0].reason is not None and found.ways[0].reason.startswith("torch: ")


def test_the_output_folder_is_not_created(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = report_of(monkeypatch, tmp_path, GOOD_PACKAGES, NO_DRIVER)
    assert check(found, "output folder").detail.startswith(f"{tmp_path}: ")
    assert list(tmp_path.iterdir()) == []


def test_an_output_folder_that_is_a_file_is_said(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    found = api._writable("output folder", blocked / "out")
    assert found.status == "note"
    assert found.next_step == "give captures another folder: kerncap capture -o DIR"


def test_an_output_folder_that_cannot_be_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "File name too long" in api._writable("output folder", tmp_path / ("a" * 300) / "out").detail
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert api._writable("output folder", Path("out")).status == "note"


def test_where_cuda_bindings_are_missing_the_next_step_installs_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    no_bindings = {"error": "/bin/python has no cuda-bindings", "stage": "bindings"}
    found = report_of(monkeypatch, tmp_path, GOOD_PACKAGES, no_bindings)
    [libcuda] = [check for check in found.checks if check.name == "libcuda"]
    assert (libcuda.status, libcuda.detail) == ("missing", "/bin/python has no cuda-bindings")
    assert libcuda.next_step is not None and libcuda.next_step.endswith(
        "-m pip install 'cuda-bindings>=12.8,<14'"
    )
    assert ways(found)[1:3] == [False, False]


def test_a_self_test_that_fails_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = report_of(monkeypatch, tmp_path, GOOD_PACKAGES, GOOD_DRIVER)
    done = (Step(name="run", seconds=1.0),)
    tests = (
        SelfTest(way="a", result="pass", steps=done),
        SelfTest(way="b", result="fail", step="capture", reason="nothing was launched", steps=done),
        SelfTest(way="c", result="skipped"),
    )
    failed = api.dataclasses.replace(found, self_test=tests)
    assert found.works and not failed.works
    text = render(failed)
    assert "   FAIL  b: capture: nothing was launched (before it: run 1.0 s)" in text
    assert text.endswith("Result: FAIL (1 of 2 ways capture and replay)")
