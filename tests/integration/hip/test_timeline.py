"""`kerncap list --timeline` of an HIP program: dispatches and copies by the runtime's timestamps."""

from __future__ import annotations

from tests.integration.traces import read_trace

from .conftest import Bench, Programs


def test_a_kernel_runs_between_its_copies(shared_bench: Bench, programs: Programs) -> None:
    program = [*shared_bench.rig.run_prefix, programs("copies")]
    done = shared_bench("list", "--json", "--timeline", "hip.json", "--", *program)
    assert done.status == 0, done.stderr
    tracks = read_trace(shared_bench.kerncap.folder / "hip.json")
    assert set(tracks) == {"GPU 0, copies", "GPU 0, hsa queue 0"}
    upload, download = tracks["GPU 0, copies"]
    [launch] = tracks["GPU 0, hsa queue 0"]
    assert [event["name"] for event in (upload, launch, download)] == [
        "copy host to device", "add_one", "copy device to host"
    ]  # fmt: skip
    assert upload["args"]["bytes"] == download["args"]["bytes"] == 1 << 18
    assert upload["ts"] + upload["dur"] <= launch["ts"]
    assert launch["ts"] + launch["dur"] <= download["ts"]
