"""The stand-in driver itself: as the real one where it is known, and free of races."""

from __future__ import annotations

import subprocess

import pytest

from tests.integration.cuda.conftest import Rig
from tests.native.building import stand_in

CLIENTS = [
    ("rig_check",),
    ("threads",),
    ("flag", "before"),
    ("graphs", "host_node"),
    ("memory_kinds", "pool"),
    ("stream_capture",),
]


def test_it_behaves_as_the_real_one_is_known_to(rig: Rig) -> None:
    done = rig.run("rig_check")
    assert done.status == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "client",
    [
        ("values", "many"),
        ("pointers", "list"),
        ("memory_kinds", "segments"),
        ("graphs", "explicit"),
        ("threads",),
    ],
)
def test_two_runs_print_the_same(rig: Rig, client: tuple[str, ...]) -> None:
    first, second = rig.run(*client), rig.run(*client)
    assert first.status == 0 and first == second


def test_an_unknown_kernel_is_said(rig: Rig) -> None:
    done = rig.run("vector_add", extra={"KERNCAP_RIG_KERNELS": ""})
    assert done.status != 0
    assert "no host function rig_kernel__Z10vector_addPKfS0_Pfi" in done.stderr


def test_injected_failures(rig: Rig) -> None:
    assert "OUT_OF_MEMORY" in rig.run("vector_add", extra={"KERNCAP_RIG_OOM_AFTER": "4096"}).stderr
    assert (
        "LAUNCH_OUT_OF_RESOURCES" in rig.run("vector_add", extra={"KERNCAP_RIG_LAUNCH_ERROR_AT": "0"}).stderr
    )
    assert "ILLEGAL_ADDRESS" in rig.run("vector_add", extra={"KERNCAP_RIG_FAULT_AT": "0"}).stderr
    assert "CUDA_ERROR_UNKNOWN" in rig.run("vector_add", extra={"KERNCAP_RIG_COPY_ERROR_AT": "2"}).stderr
    assert "JIT_COMPILER_NOT_FOUND" in rig.run("vector_add", extra={"KERNCAP_RIG_NO_JIT": "1"}).stderr or (
        rig.run("vector_add", extra={"KERNCAP_RIG_NO_JIT": "1"}).status != 0
    )


def test_the_driver_needs_nothing_but_the_system(rig: Rig) -> None:
    needed = subprocess.run(
        ["ldd", str(rig.folder / "libcuda.so.1")], capture_output=True, text=True, check=True
    ).stdout
    assert "libcudart" not in needed and "nvidia" not in needed


@pytest.fixture(scope="session", params=["thread", "address"])
def instrumented(request: pytest.FixtureRequest) -> Rig:
    return Rig(stand_in(request.param))


@pytest.mark.sanitized
@pytest.mark.timeout(900)
def test_sanitizers_find_nothing(instrumented: Rig) -> None:
    # What the driver leaves at the end it leaves on purpose: handles stay harmless for ever.
    quiet = {"ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "halt_on_error=1"}
    for client in CLIENTS:
        done = instrumented.run(*client, extra=quiet, timeout=300)
        assert done.status == 0, f"{client}: {done.stdout}{done.stderr[-3000:]}"
