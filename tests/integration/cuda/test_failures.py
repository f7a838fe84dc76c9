"""What goes wrong on the way: never another result for the target, never a false success."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cuda.conftest import Bench
from tests.parameters import first_of


@pytest.mark.long
def test_no_device_memory_left(bench: Bench) -> None:
    captured = bench.capture("-k", "scale_in_place", client=("failures", "full"), expect=None)
    if not captured.paths:
        assert captured.done.status == 1 and "memory" in captured.reason
    for path in captured.paths:
        bench.passes(path)


def test_no_device_memory_left_for_a_copy_on_the_device(bench: Bench) -> None:
    captured = bench.capture(
        "-k", "scale_in_place", "--when", "nonfinite", client=("failures", "full"), expect=0
    )
    assert captured.done.status == 1


def test_copies_fail(bench: Bench) -> None:
    captured = bench.capture("-k", "scale_in_place", client=("failures", "no_copies"), expect=0)
    assert captured.done.status == 1
    assert "scale_in_place" in captured.reason and "CUDA_ERROR_UNKNOWN" in captured.reason
    assert not (bench.kerncap.folder / "out").exists()


@pytest.mark.parametrize("good", [1, 2, 3, 4])
def test_a_copy_fails_halfway(bench: Bench, good: int) -> None:
    captured = bench.capture(
        "-k", "scale_in_place", client=("failures", "some_copies", str(good)), expect=None
    )
    for path in captured.paths:
        bench.passes(path)
    if not captured.paths:
        assert captured.done.status == 1 and "scale_in_place" in captured.reason


def test_our_own_kernels_fail(bench: Bench) -> None:
    """The scan goes over the host then, or the capture fails by name; the target's result stays."""
    captured = bench.capture(
        "-k",
        "sum_of_list",
        client=("pointers", "list"),
        extra={"KERNCAP_RIG_HELPER_ERROR": "701"},
        expect=None,
    )
    for path in captured.paths:
        bench.passes(path)
    if not captured.paths:
        assert captured.done.status == 1 and "sum_of_list" in captured.reason


@pytest.mark.long
def test_a_launch_that_the_driver_refuses(bench: Bench) -> None:
    captured = bench.capture(
        "-k", "scale_in_place", "--launch", "0:2", client=("failures", "refused"), expect=None
    )
    # Nothing ran for the refused one: it is no capture; the next one is.
    for path in captured.paths:
        assert captured.manifest(path).launch.block == (256, 1, 1)
        bench.passes(path)


@first_of("options", [(), ("--when", "nonfinite"), ("--when", "differs"), ("--on-fault",)])
def test_a_device_that_is_reset_between_captures(bench: Bench, options: tuple[str, ...]) -> None:
    """What the shim had on it is gone too, and its addresses may be the target's by then."""
    captured = bench.capture(
        "-k",
        "scale_in_place",
        "--launch",
        "0:4",
        *options,
        client=("failures", "reset"),
        expect=0 if options else 4,
    )
    if captured.paths:
        bench.passes(captured.paths[-1])


def test_a_fault_elsewhere_leaves_what_was_complete(bench: Bench) -> None:
    captured = bench.capture("-k", "scale_in_place", "--launch", "2", client=("failures", "fault"))
    assert captured.manifest().launch.ordinal == 2
    bench.passes(captured.path)


def test_the_last_launches_are_named_after_a_fault(bench: Bench) -> None:
    captured = bench.capture("-k", "no_such_kernel", client=("failures", "fault"), expect=0)
    names = [launch["kernel"] for launch in captured.document["last_launches"]]
    assert names and "strike" in names[-1]
    assert "--on-fault" in captured.done.stderr or "--on-fault" in captured.reason


def test_an_asynchronous_error_during_the_captured_launch(bench: Bench) -> None:
    captured = bench.capture("-k", "scale_in_place", "--launch", "2", client=("failures", "asynchronous"))
    oracle = captured.manifest().oracle
    assert oracle.kind == "fault" and "CUDA_ERROR_LAUNCH_FAILED" in (oracle.error or "")
    # The driver made it up: alone the launch ends well, and that is no success.
    assert bench.judge(captured.path, command="replay")["result"] == "fail"


@first_of("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_target_that_dies_after_a_launch_loses_none(bench: Bench, number: signal.Signals) -> None:
    captured = bench.capture("-k", "scale_in_place", client=("failures", "killed", str(int(number))))
    bench.passes(captured.path)


def test_a_full_disk(bench: Bench) -> None:
    # A file size limit is what a full disk is to a writer, and needs no other file system.
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 10, 256 << 10))

    client = bench.rig.client("vector_add")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "kerncap",
            "capture",
            "-k",
            "vector_add",
            "-o",
            "out",
            "--",
            client,
            "1000000",
        ],
        cwd=bench.kerncap.folder,
        env=bench.kerncap.environment(bench.rig.environment()),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=limit,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout == bench.rig.run("vector_add", "1000000").stdout
    out = bench.kerncap.folder / "out"
    assert not out.exists() or not [path for path in out.iterdir() if not path.name.startswith(".")]
    assert "vector_add" in done.stderr


def test_a_session_folder_that_goes_away(bench: Bench) -> None:
    """The target is none the worse for it."""
    missing = bench.kerncap.folder / "gone"
    environment = {"KERNCAP_SESSION": str(missing), "LD_PRELOAD": str(shim_of(bench))}
    assert bench.rig.run("values", "many", extra=environment) == bench.rig.run("values", "many")


def shim_of(bench: Bench) -> Path:
    from kerncap import env

    path = env.cuda_shim()
    assert path is not None and bench.rig.folder.exists()
    return path
