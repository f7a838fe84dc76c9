"""Nothing captured always has its cause."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kerncap import env
from kerncap.capture.outcome import KernelSummary
from kerncap.capture.payloads import KernelCounts, ProcessRecord, SeenRecord
from kerncap.capture.process_log import ProcessLog
from kerncap.capture.reasons import Started, explain_nothing
from tests.session_options import capture_options


@pytest.fixture(autouse=True)
def _no_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether this checkout has built one must not matter."""
    monkeypatch.setattr(env, "cuda_shim", lambda: None)
    monkeypatch.setattr(env, "hip_shim", lambda: None)


@pytest.fixture
def _hip_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env, "hip_shim", lambda: Path("/hip.so"))


@pytest.fixture
def _shim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env, "cuda_shim", lambda: Path("/shim.so"))


HOOKED = [ProcessLog(Path("1-0"), 1, process=ProcessRecord(pid=1, packages={"triton": "3.5"}))]
IMPORTED = Started(python=1, triton=1)


def kernel(name: str, **counts: Any) -> KernelSummary:
    return KernelSummary(f"app.{name}", KernelCounts(**counts), SeenRecord(name, f"app.{name}"))


def reason(
    kernels: list[KernelSummary],
    processes: list[ProcessLog] = HOOKED,
    failed: list[str] | None = None,
    started: Started = IMPORTED,
    **options: Any,
) -> str:
    asked = capture_options(**{"command": ("python", "app.py"), **options})
    return explain_nothing(asked, processes, kernels, failed or [], started)


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        (("python", "-I", "app.py"), "`-I`"),
        (("/usr/bin/python3.12", "-X", "-E", "a.py"), "`-E`"),
        (("python3", "-sS", "a.py"), "`-sS`"),
    ],
)
def test_an_isolated_python_is_named(command: tuple[str, ...], flag: str) -> None:
    assert flag in reason([], [], started=Started(), command=command)


def test_no_python_no_triton_no_launch() -> None:
    assert "no Python process was hooked" in reason([], [], started=Started(), command=("true",))
    assert "`-I`" not in reason([], [], started=Started(), command=("python", "app.py", "-I"))
    assert "no Triton in the program: 2 Python processes" in reason([], [], started=Started(2, 0))
    assert "no Triton kernel was launched, though one" in reason([], [], started=Started(2, 1))
    assert "no Triton kernel was launched (Triton 3.5" in reason([])


def test_a_failure_is_the_cause_before_any_filter() -> None:
    text = reason([kernel("a", launches=1, matched=1)], failed=["a: too large", "b: too large"])
    assert text == "a: too large (and 1 more)"


def test_the_nearest_names() -> None:
    kernels = [kernel(n, launches=1, filtered={"name": 1}) for n in ("softmax_fwd", "softmax_bwd", "relu")]
    text = reason(kernels, kernel="sofmax_fw")
    assert "matches none of 3 kernels" in text
    assert text.index("softmax_fwd") < text.index("softmax_bwd") and "relu" not in text
    assert "relu, softmax_bwd, softmax_fwd" in reason(kernels, kernel="zzz")


def test_filters_are_named_with_their_counts() -> None:
    assert "--where filtered out all 7 launches" in reason(
        [kernel("a", launches=7, filtered={"where": 4, "where: no name m": 3})], where=["name", "m"]
    )
    assert "no name m" in reason(
        [kernel("a", launches=3, filtered={"where: no name m": 3})], where=["name", "m"]
    )
    text = reason([kernel("a", launches=4, matched=4, filtered={"ordinal": 4})], launch=(9, 10))
    assert "--launch 9" in text and "the most is 4" in text
    assert "autotuner's own" in reason([kernel("a", launches=5, filtered={"autotuner": 5})])
    assert "none of 6 launches showed a non-finite value" in reason(
        [kernel("a", launches=6, matched=6)], when="nonfinite"
    )
    assert "none of 6 launches faulted" in reason([kernel("a", launches=6, matched=6)], on_fault=True)
    assert "no source: 2" in reason([kernel("a", launches=2, filtered={"no source": 2})])


# --- native programs ---------------------------------------------------------------------------------

NATIVE = [ProcessLog(Path("1-0"), 1, process=ProcessRecord(pid=1, shim="cuda"))]


def native(mangled: str, demangled: str, **counts: Any) -> KernelSummary:
    seen = SeenRecord(demangled, demangled, mangled=mangled)
    return KernelSummary(demangled, KernelCounts(**counts), seen)


@pytest.mark.usefixtures("_shim")
def test_a_program_without_the_driver() -> None:
    text = reason([], [], started=Started(), command=("true",))
    assert "no process called the CUDA driver" in text
    assert (
        reason([], [], started=Started(), command=("true",), backend="cuda")
        == "no process called the CUDA driver"
    )
    text = reason([], [], started=Started(python=1), command=("true",))
    assert "none imported it" in text and "no process called the CUDA driver" in text


@pytest.mark.usefixtures("_shim")
def test_a_driver_without_launches() -> None:
    text = reason([], [], started=Started(cuda=2), command=("true",))
    assert text == "no kernel was launched, though 2 processes called the CUDA driver"
    assert reason([], NATIVE) == "no kernel was launched (one process with the CUDA driver)"


@pytest.mark.usefixtures("_hip_shim")
def test_a_rocr_that_calls_no_shim_is_named() -> None:
    text = reason([], [], started=Started(uncalled=2), command=("true",))
    assert text.startswith("2 processes loaded ROCr, which did not call the HIP shim")
    assert "started ROCr" in reason([], [], started=Started(hip=1, uncalled=2), command=("true",))


def test_without_a_shim_it_is_said_where_it_would_help() -> None:
    assert "the CUDA shim is not in this installation" in reason([], [], started=Started(), command=("true",))
    assert "CUDA shim" not in reason([], [], started=Started(), command=("true",), backend="triton")


@pytest.mark.usefixtures("_shim")
def test_a_static_program_is_named(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc")
    (tmp_path / "a.c").write_text("int main(void) { return 0; }")
    for name, options in (("static", ["-static"]), ("dynamic", [])):
        path = tmp_path / name
        subprocess.run([compiler, *options, "-o", path, tmp_path / "a.c"], check=True)
        text = reason([], [], started=Started(), command=(str(path),))
        assert ("linked statically" in text) is (name == "static")


@pytest.mark.usefixtures("_shim")
def test_a_setuid_program_is_named(tmp_path: Path) -> None:
    path = tmp_path / "su"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o4755)
    assert "setuid" in reason([], [], started=Started(), command=(str(path),))


def test_library_kernels_without_source_come_with_a_command() -> None:
    kernels = [
        native("_Z4rareIfEvPT_", "void rare<float>(float*)", launches=1, filtered={"no source": 1}),
        native("_Z4gemmPf", "gemm(float*)", launches=9, filtered={"no source": 9}),
    ]
    text = reason(kernels, NATIVE)
    assert "2 kernels were launched, with no known source" in text
    assert text.endswith("kerncap capture -k '^gemm' -- python app.py")


def test_the_nearest_native_names_are_short() -> None:
    kernels = [
        native(
            "_ZN2at6native4softEv",
            "void at::native::softmax_warp_forward<float, 4>(float*)",
            launches=1,
            filtered={"name": 1},
        ),
        native("_Z4reluv", "relu(float*)", launches=1, filtered={"name": 1}),
    ]
    assert "nearest: softmax_warp_forward" in reason(kernels, NATIVE, kernel="^softmax_warp$")


# --- HIP -------------------------------------------------------------------------------------------


def test_rocr_without_a_launch(tmp_path: Path) -> None:
    assert reason([], [], started=Started(hip=2)) == "no kernel was launched, though 2 processes started ROCr"
    both = reason([], [], started=Started(cuda=1, hip=1))
    assert both == (
        "no kernel was launched, though one process called the CUDA driver and one process started ROCr"
    )
    native = [ProcessLog(Path("1-0"), 1, process=ProcessRecord(pid=1, shim="hip"))]
    assert reason([], native) == "no kernel was launched (one process with ROCr)"


def test_hip_alone_without_its_shim() -> None:
    text = reason([], [], started=Started(), command=("true",), backend="hip")
    assert text == "nothing was hooked: the HIP shim is not in this installation (kerncap doctor)"


@pytest.mark.usefixtures("_hip_shim")
def test_hip_alone_says_why_rocr_did_not_take_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from kerncap.capture import reasons

    monkeypatch.setattr(reasons, "KFD", str(tmp_path / "kfd"))
    text = reason([], [], started=Started(), command=("true",), backend="hip")
    assert f"there is no {tmp_path / 'kfd'} here" in text
    (tmp_path / "kfd").write_text("")
    text = reason([], [], started=Started(), command=("true",), backend="hip")
    assert "HSA_TOOLS_REPORT_LOAD_FAILURE=1" in text
    monkeypatch.setattr(reasons.os, "access", lambda path, mode: False)
    text = reason([], [], started=Started(), command=("no such program",), backend="hip")
    assert "groups render and video" in text


@pytest.mark.usefixtures("_shim", "_hip_shim")
def test_with_both_shims_neither_library_was_used() -> None:
    text = reason([], [], started=Started(), command=("true",))
    assert text.startswith("no process called the CUDA driver or started ROCr; no Python process was hooked")


@pytest.mark.usefixtures("_hip_shim")
def test_with_the_hip_shim_alone_no_other_library_is_named() -> None:
    text = reason([], [], started=Started(), command=("true",))
    assert text.startswith("no process started ROCr; no Python process was hooked")


def test_the_marks_of_the_shims_are_counted(tmp_path: Path) -> None:
    for name in ("hip-12", "hip-13", "cuda-12", "python-3", "triton-3", "hippo", "12-0"):
        (tmp_path / name).write_text("")
    assert Started.of(tmp_path) == Started(python=1, triton=1, cuda=1, hip=2)


# --- ranges, ranks, dormant ---------------------------------------------------------------------------


def test_a_rank_that_launched_nothing_is_named_with_those_that_did() -> None:
    ranked = [ProcessLog(Path(f"{n}-0"), n, process=ProcessRecord(pid=n, rank=n)) for n in (10, 9)]
    filtered = [kernel("add", launches=4, filtered={"rank": 4})]
    text = reason(filtered, ranked, kernel="add", ranks=(2, 3))
    assert text == "--rank 2,3: no process of it launched a kernel; the processes that did have ranks 9, 10"
    assert "have no rank (no RANK, OMPI" in reason(filtered, ranks=(0,))


def test_a_range_that_no_launch_lay_in() -> None:
    text = reason([kernel("add", launches=4, filtered={"range": 4})], range="bwd")
    assert text.startswith("--range 'bwd' matches no NVTX range of any of 4 launches")


def test_what_was_never_armed_says_so() -> None:
    asleep = [kernel("add", launches=4, filtered={"dormant": 4})]
    assert reason(asleep, dormant=True) == (
        "nothing was armed while the program ran (4 launches); arm it with kerncap arm"
    )
    assert reason(asleep, kernel="add") == "all 4 launches came before it was armed"
