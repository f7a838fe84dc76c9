"""Programs that fault, run out of memory or fork: named, captured where it was asked, never harmed."""

from __future__ import annotations

import pytest

from .conftest import Bench, Programs, fnv, post_of

MEMORY = {"AMD_GPU_MEMORY": str(256 << 20)}


@pytest.fixture
def failures(programs: Programs) -> tuple[str, ...]:
    return (str(programs("failures")),)


def test_a_faulting_launch_is_kept_and_faults_again(bench: Bench, failures: tuple[str, ...]) -> None:
    run = bench.capture("--on-fault", "-k", "^wild$", program=(*failures, "fault"))
    assert run.plain.status < 0  # ROCr aborts the program, with or without kerncap
    [manifest] = run.manifests().values()
    assert (manifest.kernel.name, manifest.oracle.kind) == ("wild", "fault")
    assert manifest.oracle.error
    document = bench.judge(run.path, command="replay")
    assert document["result"] == "pass", document  # the fault comes again: that is what was captured


@pytest.mark.long
def test_a_launch_that_does_not_fault_is_dropped(bench: Bench, failures: tuple[str, ...]) -> None:
    run = bench.capture("--on-fault", "-k", "^good$", program=(*failures, "fault"), expect=0)
    assert run.document["captured"] == []


def test_a_kernel_with_images_is_refused_by_name(bench: Bench, programs: Programs) -> None:
    run = bench.capture("-k", "^(samples|calls|plain)$", program=(programs("images"),))
    [manifest] = run.manifests().values()
    assert manifest.kernel.name == "plain"
    failed = run.document["failed"]
    assert [line.partition(": ")[0] for line in failed] == ["samples(float*)", "calls(float*)"]
    assert all("images (textures, surfaces), whose memory can't be captured" in line for line in failed), (
        failed
    )


def test_after_a_fault_the_last_launches_are_named(bench: Bench, failures: tuple[str, ...]) -> None:
    done = bench(
        "capture", "-k", "^good$", "--no-self-check", "--", *bench.rig.run_prefix, *failures, "fault"
    )
    assert done.status not in (0, 1)  # the target's own
    assert "a kernel faulted" in done.stderr and "--on-fault" in done.stderr and "wild" in done.stderr


@pytest.mark.long
def test_a_program_that_takes_all_memory_still_can(bench: Bench, failures: tuple[str, ...]) -> None:
    run = bench.capture(
        "-k", "^good$", "--launch", "0:9", program=(*failures, "memory"), extra=MEMORY, expect=2
    )
    outputs = run.outputs()
    for path, manifest in run.manifests().items():
        output = outputs[("before", "after")[manifest.launch.ordinal]]
        assert fnv(post_of(path, output)) == output.hash


@pytest.mark.long
def test_a_replay_that_has_no_room_says_so(
    bench: Bench, failures: tuple[str, ...], programs: Programs
) -> None:
    run = bench.capture("-k", "^tiled_matmul$", program=(programs("arrays"),))
    done = bench("replay", run.path, "--emulator", bench.rig.folder, extra={"AMD_GPU_MEMORY": "65536"})
    assert done.status not in (0, 1), (done.stdout, done.stderr)
    assert "Result: PASS" not in done.stdout
    assert "memory" in done.stderr.lower(), done.stderr


@pytest.mark.long
def test_a_forked_child_is_captured(bench: Bench, failures: tuple[str, ...]) -> None:
    run = bench.capture("-k", "^good$", program=(*failures, "fork"))
    output = run.outputs()["child"]
    assert fnv(post_of(run.path, output)) == output.hash
    assert bench.judge(run.path, command="replay")["result"] == "pass"


@pytest.mark.long
@pytest.mark.parametrize("large_bar", ["0", "1"])
def test_device_memory_may_be_accessible_to_the_host_or_not(
    bench: Bench, programs: Programs, large_bar: str
) -> None:
    run = bench.capture(
        "-k", "^in_place$", program=(programs("arrays"),), extra={"AMD_GPU_LARGE_BAR": large_bar}
    )
    output = run.outputs()["in_place"]
    assert fnv(post_of(run.path, output)) == output.hash


@pytest.mark.long
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_both_architectures(bench: Bench, programs: Programs, arch: str) -> None:
    extra = {"AMD_GPU_GFX": arch}
    run = bench.capture("-k", "^tiled_matmul$", program=(programs("arrays", arch),), extra=extra)
    [manifest] = run.manifests().values()
    assert manifest.device.arch == arch
    output = run.outputs()["tiled_matmul"]
    assert fnv(post_of(run.path, output)) == output.hash
    # The emulator takes the captured architecture, whatever the variable says here.
    assert bench.judge(run.path, command="replay", extra={"AMD_GPU_GFX": "gfx90a"})["result"] == "pass"
