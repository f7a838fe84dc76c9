"""The emulated AMD GPU itself: what HIP programs compute on it, and how it fails when it has to."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.integration.conftest import Finished
from tests.parameters import first_of
from tests.rigs.amd_gpu import CompileError, Rig, find

PROGRAMS = Path(__file__).parent / "programs"
BOTH = "gfx90a,gfx942"

# What a queue's callback is told for each failure that AMD_GPU_FAIL can ask for.
QUEUE_ERRORS = {
    "illegal": "HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION",
    "aperture": "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION",
    "trap": "HSA_STATUS_ERROR_EXCEPTION",
    "packet": "HSA_STATUS_ERROR_INVALID_PACKET_FORMAT",
}

Driver = Callable[..., Finished]


@pytest.fixture(scope="module")
def rig() -> Rig:
    found = find()
    if isinstance(found, str):
        pytest.skip(found)
    return found


def run(rig: Rig, program: Path, *arguments: str, extra: Mapping[str, str] | None = None) -> Finished:
    done = subprocess.run(
        [*rig.run_prefix, program, *arguments],
        env=rig.environment(extra),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def kernels(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rig.build(PROGRAMS / "checks_kernels.hip", tmp_path_factory.mktemp("checks") / "kernels", BOTH)


@pytest.fixture(scope="module")
def case(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Driver:
    """Runs a case of checks_driver with variables of the rig's, and returns how it ended."""
    out = tmp_path_factory.mktemp("checks") / "driver"
    program = rig.build(PROGRAMS / "checks_driver.hip", out, BOTH)

    def run_case(name: str, **variables: str) -> Finished:
        extra = {f"AMD_GPU_{variable}": value for variable, value in variables.items()}
        return run(rig, program, name, extra=extra)

    return run_case


@first_of(("arch", "product"), [("gfx90a", "MI210"), ("gfx942", "MI300X")])
def test_kernels_compute_what_the_host_does(rig: Rig, kernels: Path, arch: str, product: str) -> None:
    done = run(rig, kernels, extra={"AMD_GPU_GFX": arch})
    lines = done.stdout.splitlines()
    assert done.status == 0, done.stdout + done.stderr
    assert arch in lines[0] and product in lines[0]
    assert [line for line in lines[1:-1] if not line.endswith(": ok")] == []
    assert len(lines) == 17 and lines[-1] == "0 wrong"


# --- memory ------------------------------------------------------------------------------------------


def test_virtual_memory_at_a_wanted_address(case: Driver) -> None:
    done = case("virtual_memory")
    assert done.stdout == "at the wanted address: 1\nmapped 100 101 163\n", done.stderr
    assert done.status == 0


def test_out_of_memory_is_an_error_and_not_the_end(case: Driver) -> None:
    done = case("out_of_memory", MEMORY=str(1 << 30))
    assert done.stdout == "total 1024 MiB\nmuch: hipErrorOutOfMemory\nlittle 0 1 63\n", done.stderr
    assert done.status == 0


def test_the_host_may_not_touch_device_memory(case: Driver) -> None:
    done = case("touch_device_memory")
    assert (done.status, done.stdout) == (-11, "copied 0 1 63\n"), done.stderr
    done = case("touch_device_memory", LARGE_BAR="1")
    assert (done.status, done.stdout) == (0, "copied 0 1 63\ntouched 63\n"), done.stderr


def test_managed_memory_takes_advice(case: Driver) -> None:
    done = case("managed_advice")
    assert (done.status, done.stdout) == (0, "managed 1: 7 70\n"), done.stderr


# --- ways to launch ----------------------------------------------------------------------------------


@first_of("arch", BOTH.split(","))
def test_code_compiled_at_run_time(case: Driver, arch: str) -> None:
    done = case("runtime_compiled", GFX=arch)
    assert (done.status, done.stdout) == (0, "squares 0 0.25 992.25\n"), done.stderr


def test_a_graph(case: Driver) -> None:
    done = case("graph")
    assert (done.status, done.stdout) == (0, "graph 0 6 378\n"), done.stderr


def test_printf_in_a_kernel(case: Driver) -> None:
    done = case("device_printf")
    assert (done.status, done.stdout) == (0, "thread 0 says 42\nthread 1 says 42\n"), done.stderr


def test_a_kernel_may_wait_for_another_and_for_the_host(case: Driver) -> None:
    done = case("concurrent")
    assert (done.status, done.stdout) == (0, "first is done: 0\nseen 5 0 0\n"), done.stderr


# --- failures ----------------------------------------------------------------------------------------


def test_a_fault_ends_the_program_and_names_the_page(case: Driver) -> None:
    done = case("write_nowhere")
    assert done.status == -6 and done.stdout == ""
    assert re.search(r"Memory access fault by GPU node-1 .* on address 0x1234567000\.", done.stderr)
    assert "Page not present" in done.stderr
    assert "write to 0x1234567040" in done.stderr  # the rig's own line has the whole address


def test_a_fault_reaches_the_handler_that_was_registered(case: Driver) -> None:
    done = case("handle_fault")
    assert (done.status, done.stdout) == (7, "registered: 0\nevent 0, page 0x1234567000, reasons 0x1\n")


@pytest.mark.parametrize(("what", "status"), QUEUE_ERRORS.items())
def test_queue_errors_on_demand(case: Driver, what: str, status: str) -> None:
    # The runtime's own kernels count too: three fills, the program's first, a copy, the program's second.
    done = case("three_kernels", FAIL=f"{what}@6")
    assert done.status == -6, done.stdout + done.stderr
    assert status in done.stderr
    assert done.stdout == "kernel 0 1 63\n"


def test_a_memory_fault_on_demand(case: Driver) -> None:
    done = case("three_kernels", FAIL="memory@6:0x777700001234")
    assert done.status == -6 and done.stdout == "kernel 0 1 63\n"
    assert "on address 0x777700001000." in done.stderr


def test_a_setting_that_makes_no_sense_is_said(case: Driver) -> None:
    for variables, line in [
        ({"GFX": "gfx1100"}, "AMD_GPU_GFX=gfx1100: gfx90a, gfx942 and gfx950 are emulated"),
        ({"MEMORY": "1"}, "AMD_GPU_MEMORY=1: expected a number from 1048576 to 68719476736"),
        ({"FAIL": "fire@1"}, "AMD_GPU_FAIL=fire@1: expected WHAT@NUMBER"),
    ]:
        done = case("graph", **variables)
        assert done.status == 2 and line in done.stderr and done.stdout == ""


# --- processes, devices, time ------------------------------------------------------------------------


def test_a_fork_leaves_the_parent_alone(case: Driver) -> None:
    done = case("forked")
    assert done.status == 0, done.stderr
    assert done.stdout.splitlines() == [
        "before 0 1 63",
        "the child could allocate: 0",
        "after 0 2 126",
        *["kernel 0 1 63", "kernel 0 2 126", "kernel 0 3 189"],  # the other child, which began anew
        "anew: 0",
        "at the end 0 3 189",
    ]


def test_two_devices(case: Driver) -> None:
    done = case("devices", COUNT="2")
    expected = "device 0 1 63\ndevice 1000 1001 1063\ncopied to 0 1000 1001 1063\n"
    assert (done.status, done.stdout) == (0, expected), done.stderr


def test_launches_are_quick_and_an_idle_queue_rests(case: Driver) -> None:
    found = re.fullmatch(r"([\d.]+) us a launch, ([\d.]+) % of a core idle\n", case("times").stdout)
    assert found is not None
    # Far above what it is (some 15 us, 3 %), and below what a queue that sleeps too long or spins would need.
    assert float(found[1]) < 1000 and float(found[2]) < 40


# --- the programs themselves -------------------------------------------------------------------------


@pytest.mark.long
def test_a_program_is_compiled_anew_when_its_header_changes(rig: Rig, tmp_path: Path) -> None:
    header, source, out = tmp_path / "status.h", tmp_path / "main.hip", tmp_path / "program"
    source.write_text('#include "status.h"\nint main() { return STATUS; }\n')
    header.write_text("#define STATUS 3\n")
    for _ in range(2):
        assert run(rig, rig.build(source, out)).status == 3
    header.write_text("#error gone\n")
    with pytest.raises(CompileError, match="gone"):
        rig.build(source, out)


def test_run_says_what_it_can_not_run(rig: Rig) -> None:
    assert run(rig, Path("no-such-program")).status == 127
    done = subprocess.run(rig.run_prefix, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith("usage:")


def test_a_script_runs_with_its_interpreter(rig: Rig, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1:])\n")
    script.chmod(0o755)
    assert run(rig, script, "one", "two words").stdout == "['one', 'two words']\n"
