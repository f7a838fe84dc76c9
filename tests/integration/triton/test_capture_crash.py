"""A target that faults, or a kerncap that is killed: what was complete is sealed, nothing else."""

from __future__ import annotations

import fcntl
import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine, Finished

ENDS = Path(__file__).parent / "targets" / "capture_ends.py"


def capture_ends(kerncap: CommandLine, *options: str, how: str, launches: int) -> Finished:
    """Capture from capture_ends.py, which launches `add` and then ends as asked."""
    return kerncap(
        "capture", "--json", "--no-self-check", *options, "--", sys.executable, ENDS, how, str(launches)
    )


def values_of(path: Path) -> tuple[float, float]:
    """What `add` read and wrote in its first element, as the reproducer has it."""
    with Reproducer.open(path) as reproducer:
        reproducer.verify()
        views = {view.name: view for view in reproducer.manifest.views}
        x, out = views["x"], views["out"]
        before = reproducer.read("pre", x.region, x.offset, 4)
        after = reproducer.read("post", out.region, out.offset, 4)
    return struct.unpack("<f", before)[0], struct.unpack("<f", after)[0]


def test_on_fault_keeps_exactly_the_launch_that_died(kerncap: CommandLine) -> None:
    done = capture_ends(kerncap, "--on-fault", how="wild", launches=4)
    assert done.status == 139
    [path] = done.document["captured"]
    with Reproducer.open(Path(path)) as reproducer:
        manifest = reproducer.manifest
        assert manifest.kernel.name == "wild"
        assert (manifest.oracle.kind, manifest.oracle.error) == ("fault", "killed by SIGSEGV")
        index = next(view for view in manifest.views if view.name == "index")
        assert reproducer.read("pre", index.region, index.offset, 8) == (1 << 44).to_bytes(8, "little")


@pytest.mark.long
def test_on_fault_without_a_fault(kerncap: CommandLine) -> None:
    done = capture_ends(kerncap, "--on-fault", how="none", launches=4)
    assert done.status == 1 and done.document["reason"] == "none of 4 launches faulted"
    assert not (kerncap.folder / "kerncap-out").exists()


def test_seal_recovers_a_session_whose_kerncap_was_killed(kerncap: CommandLine) -> None:
    # With --last nothing is sealed before the target's end: all of it is left to `seal`.
    command = ["capture", "--last", "2", "-o", "out", "--", sys.executable, str(ENDS), "wait", "3"]
    with subprocess.Popen(
        [sys.executable, "-m", "kerncap", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=kerncap.folder,
        env=kerncap.environment(),
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "launched 3\n"
        process.kill()
        process.wait()
        [session] = (kerncap.folder / "out").glob(".kerncap-session-*")
        running = kerncap("seal", session)
        assert running.status == 1 and "still running" in running.stderr
        process.stdin.close()  # the target ends
        [lock] = session.glob("*-*/lock")
        with open(lock) as file:
            fcntl.flock(file, fcntl.LOCK_SH)  # once the target is gone

    socket = json.loads((session / "session.json").read_text())["socket"]
    done = kerncap("seal", session, "-o", "recovered", "--json")
    assert done.status == 0, done.stderr
    paths = [Path(path) for path in json.loads(done.stdout)["captured"]]
    assert sorted(values_of(kerncap.folder / path) for path in paths) == [(1.0, 2.0), (2.0, 4.0)]
    with Reproducer.open(kerncap.folder / paths[0]) as reproducer:
        assert reproducer.manifest.command == (sys.executable, str(ENDS), "wait", "3")
    assert not session.exists() and not Path(socket).exists() and not Path(socket).parent.exists()
    assert kerncap("seal", kerncap.folder).status == 2, "not every folder is a session"


@pytest.mark.long
def test_a_kept_session_is_not_sealed_twice(kerncap: CommandLine) -> None:
    done = capture_ends(kerncap, "-k", "add", "--keep-session", how="none", launches=2)
    session = Path(done.document["session"])
    assert session.is_dir() and len(done.document["captured"]) == 1
    again = kerncap("seal", session, "-o", "again")
    assert again.status == 1 and "nothing in the session is left to seal" in again.stderr
