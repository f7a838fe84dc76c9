"""`kerncap doctor`: probes that misbehave, and what a report makes of their answers."""

from __future__ import annotations

import importlib.machinery
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from kerncap import env
from kerncap.api.doctor import Check, Report, describe_triton
from kerncap.api.doctor import machine as doctor_machine
from kerncap.api.doctor import probes as doctor_probes
from kerncap.api.doctor import vendors as doctor_vendors
from kerncap.api.doctor.doctor_result import SelfTest, Step
from kerncap.api.doctor.machine import Machine
from kerncap.api.doctor.packages import KNOWN_TRITON
from kerncap.api.doctor.vendors import AMD, EMULATOR_VARIABLE, NVIDIA
from kerncap.cli.doctor import command
from kerncap.report.doctor_text import render

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


def report(
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


def cuda_shim() -> Check:
    return doctor_vendors.shim_check(NVIDIA, Check(name="libcuda", status="missing", detail=""))


def check(found: Report, name: str) -> Check:
    return next(check for check in found.checks if check.name == name)


@pytest.fixture(autouse=True)
def _no_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(EMULATOR_VARIABLE, raising=False)


def script(folder: Path, body: str) -> str:
    """An executable that stands in for a Python."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


# --- probes that misbehave -------------------------------------------------------------------------


def test_a_probe_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    # The probe's child holds the write end of a pipe; reading the other end returns when it is gone.
    read_end, write_end = os.pipe()
    program = (
        "import os, subprocess, sys\n"
        f"pipe = os.open('/proc/{os.getpid()}/fd/{write_end}', os.O_WRONLY)\n"
        "subprocess.run([sys.executable, '-c', 'import signal; signal.pause()'], pass_fds=[pipe])\n"
    )
    answer = doctor_probes.probe(sys.executable, program, timeout_s=1.5)
    os.close(write_end)
    assert answer["error"] == "no answer within 2 s"
    with os.fdopen(read_end, "rb") as pipe:
        assert pipe.read() == b""


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


def test_a_probe_that_crashes_says_how() -> None:
    answer = doctor_probes.probe(sys.executable, "import os; os.kill(os.getpid(), 11)", timeout_s=30)
    assert answer == {"error": "the probe ended with status -11", "stage": "probe"}


def test_a_probe_that_talks_is_still_understood() -> None:
    answer = doctor_probes.probe(sys.executable, "print('banner'); print('{\"a\": 1}')", timeout_s=30)
    assert answer == {"a": 1}


@pytest.mark.parametrize("last_line", ["nonsense", "[1]", "3", ""])
def test_an_answer_that_is_no_object_is_an_error(last_line: str) -> None:
    answer = doctor_probes.probe(sys.executable, f"print({last_line!r})", timeout_s=30)
    assert answer["stage"] == "probe"


def test_a_python_that_is_not_there(tmp_path: Path) -> None:
    answer = doctor_probes.packages(str(tmp_path / "nothing"))
    assert "can't be started: No such file or directory" in answer["error"]


def test_a_python_that_fails_quotes_its_last_words(tmp_path: Path) -> None:
    answer = doctor_probes.packages(script(tmp_path, "echo first >&2; echo 'no encodings' >&2; exit 7"))
    assert answer["error"] == "the probe ended with status 7: no encodings"


# --- the packages probe, for real ------------------------------------------------------------------


def test_packages_that_are_broken_are_told_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("print('noise on stdout')\nraise SystemError('undefined symbol: x')\n")
    (tmp_path / "triton.py").write_text("__version__ = '3.8.1'\n")
    (tmp_path / "sitecustomize.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    answer = doctor_probes.packages(sys.executable)
    assert answer["torch"] == {"error": "SystemError: undefined symbol: x"}
    assert answer["triton"] == {"version": "3.8.1"}
    assert "error" in answer["interpreter"]
    assert answer["sitecustomize"] == str(tmp_path / "sitecustomize.py")


# --- what the report makes of it -------------------------------------------------------------------


def test_a_gpu_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = report(monkeypatch, tmp_path, GOOD_PACKAGES, GOOD_DRIVER)
    assert ways(found) == [True, True, True, False, False]
    assert check(found, "torch").detail == "2.11.0, CUDA 13.0, NVIDIA H200 (sm_90)"
    assert check(found, "libcuda").detail == "CUDA 13.0, 1 x NVIDIA H200"


def test_a_machine_without_gpu_runs_the_interpreter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = report(monkeypatch, tmp_path, GOOD_PACKAGES, NO_DRIVER)
    assert ways(found) == [True, False, False, False, False]
    assert found.ways[1].reason == "libcuda: libcuda.so.1: cannot open shared object file"
    assert found.ways[1].next_step is not None and "driver" in found.ways[1].next_step


def test_a_cpu_build_beside_a_gpu_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch = {"version": "2.13.0+cpu", "cuda": None, "hip": None, "devices": []}
    found = report(monkeypatch, tmp_path, {**GOOD_PACKAGES, "torch": torch}, GOOD_DRIVER)
    assert ways(found) == [True, False, True, False, False]
    assert found.ways[1].reason == "torch's NVIDIA GPU: torch 2.13.0+cpu is a CPU build"


def test_a_missing_shim_is_said_with_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env, "cuda_shim", lambda: None)
    found = cuda_shim()
    assert found.status == "missing" and found.next_step is not None and "make shims" in found.next_step


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[[str], Path]:
    """A C file as a shared object."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("no C compiler")

    def build(text: str) -> Path:
        (tmp_path / "shim.c").write_text(text)
        path = tmp_path / "libshim.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-o", path, tmp_path / "shim.c"], check=True)
        return path

    return build


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


GOOD_ROCR = {"version": "ROCr 1.15", "devices": ["gfx942", "gfx942"]}


def test_an_amd_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    both = {"HSA_TOOLS_LIB": None, "LD_PRELOAD": None}
    monkeypatch.setattr(doctor_probes, "entries", lambda shim, path, emulator: both)
    torch = {"version": "2.9", "cuda": None, "hip": "6.4", "devices": [["AMD Instinct MI300X", [9, 4]]]}
    packages = {**GOOD_PACKAGES, "torch": torch}
    found = report(monkeypatch, tmp_path, packages, NO_DRIVER, GOOD_ROCR, Path("/hip.so"), True)
    assert ways(found) == [True, False, False, True, True]
    assert check(found, "torch").detail == "2.9, ROCm 6.4, AMD Instinct MI300X"
    assert check(found, "ROCr").detail == "ROCr 1.15, 2 x gfx942"
    assert check(found, "HIP shim").detail.endswith("/hip.so, by HSA_TOOLS_LIB and LD_PRELOAD")


def test_the_entry_beside_another_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found_ways = {"HSA_TOOLS_LIB": "it was not called", "LD_PRELOAD and rocprofiler-register": None}
    monkeypatch.setattr(doctor_probes, "entries", lambda shim, path, emulator: found_ways)
    found = report(monkeypatch, tmp_path, GOOD_PACKAGES, NO_DRIVER, GOOD_ROCR, Path("/hip.so"), True)
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
    found = report(monkeypatch, tmp_path, GOOD_PACKAGES, NO_DRIVER, rocr, Path("/hip.so"))
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
    found = report(monkeypatch, tmp_path, GOOD_PACKAGES, NO_DRIVER, rocr(str(folder)))
    assert check(found, "ROCr").detail == f"ROCr 1.15, 1 x gfx90a (KERNCAP_AMD_EMULATOR={folder})"
    assert found.ways[-1].name == "HIP kernels on an emulated AMD GPU"


def test_a_hip_shim_that_rocr_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refused = {"HSA_TOOLS_LIB": "it was not called", "LD_PRELOAD": "it was not called"}
    monkeypatch.setattr(doctor_probes, "entries", lambda shim, path, emulator: refused)
    found = report(monkeypatch, tmp_path, GOOD_PACKAGES, NO_DRIVER, GOOD_ROCR, Path("/hip.so"), True)
    assert found.ways[-1].reason == "HIP shim: /hip.so: ROCr did not call it: it was not called"


def test_a_process_of_its_own_asks_for_each_entry(tmp_path: Path) -> None:
    """With no ROCr here, or a tool that is none: why, for both, and nothing is left behind."""
    found = doctor_probes.entries("hip", tmp_path / "none.so")
    assert set(found) == {"HSA_TOOLS_LIB", "LD_PRELOAD"}
    assert all(found.values())


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
    path = env.triton_hook_folder() / "kerncap_triton" / "generations.py"
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
    found = report(monkeypatch, tmp_path, GOOD_PACKAGES, NO_DRIVER)
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
    found = report(monkeypatch, tmp_path, GOOD_PACKAGES, no_bindings)
    [libcuda] = [check for check in found.checks if check.name == "libcuda"]
    assert (libcuda.status, libcuda.detail) == ("missing", "/bin/python has no cuda-bindings")
    assert libcuda.next_step is not None and libcuda.next_step.endswith(
        "-m pip install 'cuda-bindings>=12.8,<14'"
    )
    assert ways(found)[1:3] == [False, False]


# --- the command -----------------------------------------------------------------------------------


def test_json_is_one_document_with_a_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor_probes, "packages", lambda python: GOOD_PACKAGES)
    monkeypatch.setattr(doctor_probes, "driver", lambda python="": NO_DRIVER)
    monkeypatch.setattr(doctor_probes, "rocr", lambda emulator: NO_ROCR)
    run = CliRunner().invoke(command, ["--json", "-o", str(tmp_path)], standalone_mode=False)
    document = json.loads(run.stdout)
    assert run.return_value == 0
    assert document["result"] == "ok"
    assert [way["works"] for way in document["ways"]] == [True, False, False, False, False]
    assert {"name", "status", "detail", "next_step"} == set(document["checks"][0])


def test_exit_status_4_when_nothing_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor_probes, "driver", lambda python="": NO_DRIVER)
    monkeypatch.setattr(doctor_probes, "rocr", lambda emulator: NO_ROCR)
    missing = str(tmp_path / "no-python")
    run = CliRunner().invoke(command, ["--python", missing, "-o", str(tmp_path)], standalone_mode=False)
    assert run.return_value == 4
    assert "kerncap doctor --python PATH" in run.stdout


def test_text_shows_every_next_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = report(monkeypatch, tmp_path, {"error": "no answer within 120 s"}, NO_DRIVER)
    text = render(found)
    steps = [check.next_step for check in found.checks if check.next_step]
    assert steps and all(f"-> {step}" in text for step in steps)
    assert not found.works


def test_kerncap_itself_loads_no_gpu_package(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom kerncap.cli import main\n"
        "main(['doctor', '--json', '--python', sys.argv[1]])\n"
        "print(sorted({'torch', 'triton', 'cuda'} & set(sys.modules)), file=sys.stderr)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "none")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stderr.strip().splitlines()[-1] == "[]"


# --- next steps that can be typed ------------------------------------------------------------------


def test_one_shape_for_both_vendors() -> None:
    """The same answers of the probes give the same kinds of checks; only the words are the vendor's."""
    torch = {"version": "2.9", "cuda": None, "hip": None, "devices": []}
    for vendor in (NVIDIA, AMD):
        seen = doctor_vendors.torch_sees_a_gpu(
            vendor, {"torch": {**torch, vendor.build: "1", "devices": [1]}}
        )
        assert seen.status == "ok"
        other = doctor_vendors.torch_sees_a_gpu(vendor, {"torch": torch})
        assert other.detail.endswith("CPU build") and vendor.build_name in (other.next_step or "")
        good = doctor_vendors.library_check(vendor, {"version": "1", "devices": ["x", "x"]}, MACHINE)
        assert (good.name, good.detail) == (vendor.library, "1, 2 x x")
        elsewhere = Machine("apt-get", None, frozenset(), uv=False)
        none = doctor_vendors.library_check(vendor, {"error": "no", "stage": "load"}, elsewhere)
        assert "on this machine's bus" in (none.next_step or "")


@pytest.mark.parametrize(
    ("machine", "has_pip", "expected"),
    [
        (MACHINE, True, "/v/bin/python -m pip install torch"),
        (Machine(None, None, None, uv=True), False, "uv pip install --python /v/bin/python torch"),
        (Machine(None, None, None, uv=False), False, "/v/bin/python -m pip install torch"),
    ],
)
def test_pip_or_uv(machine: Machine, has_pip: bool, expected: str) -> None:
    assert machine.pip("/v/bin/python", has_pip, "torch") == expected


@pytest.mark.parametrize("manager", [*doctor_machine._INSTALL, None])
def test_a_package_managers_own_words(manager: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_machine.os, "geteuid", lambda: 1000)
    command = Machine(manager, None, None, uv=False).install("compiler", "install a C++ compiler")
    assert command.startswith(f"sudo {manager}") if manager else command == "install a C++ compiler"


def test_a_container_is_started_otherwise() -> None:
    inside = Machine("apt-get", "docker", None, uv=False)
    steps = [vendor.steps(inside)[stage] for vendor, stage in ((NVIDIA, "load"), (AMD, "device"))]
    assert "--gpus all" in steps[0] and "--device /dev/kfd --device /dev/dri" in steps[1]


# --- for bug reports ---------------------------------------------------------------------------------


def test_facts_are_complete_and_nothing_in_them_is_private(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", "/home/alice/cache")
    monkeypatch.setenv("KERNCAP_API_KEY", "topsecret12345")
    monkeypatch.setenv("LD_PRELOAD", "")
    packages = {**GOOD_PACKAGES, "sitecustomize": "/home/alice/lib/sitecustomize.py"}
    found = report(monkeypatch, tmp_path, packages, GOOD_DRIVER).as_dict()
    text = json.dumps(found["facts"])
    assert "alice" not in text and "topsecret" not in text
    facts = found["facts"]
    assert facts["environment"]["TRITON_CACHE_DIR"] == "/home/USER/cache"
    assert facts["vendors"]["nvidia"] == GOOD_DRIVER
    assert facts["shims"]["cuda"] == {"path": "/shim.so", "error": "No such file or directory"}
    assert facts["target"]["triton"] == {"version": "3.6.0"}


def test_a_shim_is_told_by_its_build_id(compiled: Callable[[str], Path]) -> None:
    from kerncap.api.doctor.bug_report_facts import build_id, shim

    path = compiled("int x;")
    told = shim(path)
    assert told is not None and told["bytes"] == path.stat().st_size
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=False).stdout
    stated = re.search(r"Build ID: ([0-9a-f]+)", notes)
    assert told["build_id"] == stated[1] if stated else told["build_id"].startswith("sha256:")
    assert build_id(b"no ELF").startswith("sha256:")


def test_a_self_test_that_fails_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = report(monkeypatch, tmp_path, GOOD_PACKAGES, GOOD_DRIVER)
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
