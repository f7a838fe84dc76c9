"""Launches that reach other processes' memory: two processes, each with a device of the stand-in driver."""

from __future__ import annotations

import pytest

from kerncap.format.schema import Region
from tests.integration.cuda.conftest import Bench, Captured

TWO_DEVICES = {"KERNCAP_RIG_DEVICES": "2"}
DEVICE_MEMORY = "another process's memory on device 1"


def captured_from(bench: Bench, way: str, what: str, kernel: str = "vector_add") -> Captured:
    return bench.capture("-k", kernel, client=("peers", way, what), extra=TWO_DEVICES)


def shared(captured: Captured) -> list[Region]:
    return [region for region in captured.manifest().regions if region.shared]


def test_a_window_is_memory_of_the_one_device_that_replays(bench: Bench) -> None:
    """It is read through the launch's device: its own has no context here."""
    captured = captured_from(bench, "vmm", "reads")
    [window] = shared(captured)
    assert window.shared == f"{DEVICE_MEMORY} (cuMemMap)"
    assert window.device == 0
    bench.passes(captured.path)
    document = bench.judge(captured.path, "--candidate", bench.candidate("idle", 1))
    assert document["result"] == "fail", document


def test_what_is_written_to_a_window_is_judged(bench: Bench) -> None:
    captured = captured_from(bench, "vmm", "writes")
    [window] = shared(captured)
    assert window.reason == "parameter 0" or window.reason == "parameter 2"
    bench.passes(captured.path)
    for name, variant in (("idle", 1), ("past", 2)):
        document = bench.judge(captured.path, "--candidate", bench.candidate(name, variant))
        assert document["result"] == "fail", document


def test_memory_that_came_as_an_ipc_handle(bench: Bench) -> None:
    captured = captured_from(bench, "ipc", "reads")
    [window] = shared(captured)
    assert window.shared is not None and "cuIpcOpenMemHandle" in window.shared
    bench.passes(captured.path)


def test_a_file_that_processes_share(bench: Bench) -> None:
    captured = captured_from(bench, "vmm", "host")
    [ring] = shared(captured)
    assert ring.kind == "host"
    assert ring.shared is not None and ring.shared.startswith("the shared file /dev/shm/kerncap-peers-")
    bench.passes(captured.path)


def test_a_kernel_that_waits_for_a_peer_is_undecided(bench: Bench) -> None:
    captured = captured_from(bench, "vmm", "waits", "wait_for_flag")
    for command in ("replay", "verify"):
        document = bench.judge(captured.path, "--timeout", "1", command=command)
        assert document["result"] == "undecided", document
        assert any(DEVICE_MEMORY in reason for reason in document["reasons"])


@pytest.fixture
def collective(bench: Bench) -> Captured:
    return captured_from(bench, "vmm", "nccl", "nccl")


def test_a_kernel_with_a_device_communicator_is_described(bench: Bench) -> None:
    captured = captured_from(bench, "vmm", "lsa", "lsa_sum")
    assert captured.manifest().closure.not_held[0].startswith("NCCL's communicator")


def test_a_library_s_collective_is_described_and_not_run(bench: Bench, collective: Captured) -> None:
    manifest = collective.manifest()
    assert manifest.regions == () and manifest.code == ()
    assert manifest.launch.parameters is not None
    needs = manifest.closure.not_held
    assert needs[0].startswith("NCCL's communicator")
    assert any(DEVICE_MEMORY in need for need in needs)
    assert sum(file.stat().st_size for file in collective.path.rglob("*") if file.is_file()) < 100_000
    for command in ("replay", "verify"):
        document = bench.judge(collective.path, command=command)
        assert document["result"] == "undecided"
        assert document["reasons"] == list(needs)


def test_what_is_only_described_says_so_everywhere(bench: Bench, collective: Captured) -> None:
    text = bench("inspect", collective.path).stdout
    assert "can't be held: NCCL's communicator" in text
    for command in (("minimize",), ("export", "--as", "cmake", "-o", "project")):
        done = bench(command[0], collective.path, *command[1:])
        assert done.status in (2, 5), done.stderr
        assert "no reproducer can hold" in done.stderr, done.stderr
    done = bench("report", collective.path, "-o", "page.html")
    assert done.status == 0, done.stderr
    page = (bench.kerncap.folder / "page.html").read_text()
    assert "no reproducer can hold" in page


def test_a_condition_can_not_be_kept_for_a_collective(bench: Bench) -> None:
    options = ("-k", "nccl", "--when", "nonfinite")
    captured = bench.capture(*options, client=("peers", "vmm", "nccl"), extra=TWO_DEVICES, expect=0)
    assert any("NCCL's communicator" in failed for failed in captured.document["failed"])


def test_one_launch_of_several_devices_is_refused_by_name(bench: Bench) -> None:
    captured = bench.capture(
        "-k", "increment", client=("devices", "cooperative"), extra=TWO_DEVICES, expect=0
    )
    [failed] = captured.document["failed"]
    assert "cuLaunchCooperativeKernelMultiDevice, which runs on several devices at once" in failed


def test_a_kernel_that_may_wait_for_another_device_is_launched_at_once(bench: Bench) -> None:
    """What it waits for is this thread's next launch, which comes in time; a later one is captured."""
    options = ("-k", "wait_for_flag|increment")
    captured = bench.capture(*options, client=("devices", "waits"), extra=TWO_DEVICES)
    assert captured.manifest().kernel.name == "increment"
    first, second = captured.document["failed"]
    assert "loads a value in a loop and reaches memory of device 1" in first
    assert "a kernel that may wait for this one runs" in second
    bench.passes(captured.path)
