"""The commands on HIP reproducers: the emulator's option and variable, candidates, times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kerncap.format import Reproducer
from kerncap.replay import trust
from kerncap.replay.amd_devices import EMULATOR_VARIABLE
from kerncap.replay.engine import ORIGINAL, Engine
from tests.integration.conftest import CommandLine

from . import replay_launches as launches
from .replay_launches import HERE, emulator, launch

EMULATOR = emulator()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hip")


@pytest.fixture(scope="module")
def path(folder: Path) -> Path:
    """``out = a + b`` of 1000 numbers."""
    a, b = np.random.default_rng(1).standard_normal((2, 1000)).astype(np.float32)
    made = launch("vector_add", launches.kernels(folder), grid=(16, 1, 1))
    made.array(a).array(b).array(np.full(1000, 7, dtype=np.float32), a + b)
    return made.integer(1000).seal(folder)


def test_replay_and_verify_on_the_emulator(kerncap: CommandLine, path: Path) -> None:
    done = kerncap("replay", path, "--trust", "--emulator", EMULATOR)
    assert done.status == 0, done.stderr
    assert f"note: on an emulated AMD GPU ({EMULATOR})" in done.stdout
    assert ", ROCr " in done.stdout and done.result_line.startswith("Result: PASS (12,000 bytes identical")
    done = kerncap("verify", path, "--json", env={EMULATOR_VARIABLE: str(EMULATOR)})
    assert (done.status, done.document["result"]) == (0, "pass"), done.stderr
    assert done.document["placement"] == {"honoured": 3, "relocated": []}


def test_a_tool_in_the_environment_does_not_reach_the_worker(
    kerncap: CommandLine, path: Path, tmp_path: Path
) -> None:
    """ROCr would load it, and a capture's own shim would then watch the replay."""
    extra = {"HSA_TOOLS_LIB": str(tmp_path / "libkerncap_hip.so"), "HSA_TOOLS_REPORT_LOAD_FAILURE": "1"}
    done = kerncap("replay", path, "--trust", "--emulator", EMULATOR, env=extra)
    assert done.status == 0 and "libkerncap_hip" not in done.stdout + done.stderr


@pytest.fixture(scope="module")
def mistaken(folder: Path) -> Path:
    file = folder / "mistaken.hsaco"
    file.write_bytes(launches.code_object(HERE / "replay_candidates.hip", folder, "-DMISTAKEN"))
    return file


@pytest.mark.long
def test_a_candidate_is_verified(kerncap: CommandLine, path: Path, folder: Path, mistaken: Path) -> None:
    good = folder / "good.hsaco"
    good.write_bytes(launches.kernels(folder))
    options = ("--trust", "--json", "--emulator", EMULATOR, "--candidate")
    done = kerncap("verify", path, *options, good)
    assert (done.status, done.document["result"]) == (0, "pass"), done.stderr
    done = kerncap("verify", path, *options, mistaken)
    assert (done.status, done.document["result"]) == (1, "fail"), done.stderr
    done = kerncap("replay", path, *options, HERE / "replay_candidates.hip", "-n", "0")
    assert done.status == 1  # there is no source that it could be an edit of
    assert "does not say how its kernel was compiled" in done.document["summary"]
    (folder / "kernel.ptx").write_text(".version 8.0")
    done = kerncap("replay", path, *options, folder / "kernel.ptx")
    assert done.status == 2 and ".hsaco" in done.stderr


def test_variants_are_compared_in_turns(kerncap: CommandLine, path: Path, mistaken: Path) -> None:
    done = kerncap(
        "replay", path, "--trust", "--emulator", EMULATOR, "--compare", "captured,candidate", "--candidate",
        mistaken, "--json",
    )  # fmt: skip
    assert done.status == 1, done.stderr
    verdicts = {each["name"]: each["result"] for each in done.document["variants"]}
    assert verdicts == {"captured": "pass", "candidate": "fail"}


def test_times_with_a_warm_and_a_cold_cache(path: Path) -> None:
    """Not by a command on an emulated GPU, whose times say nothing; the worker does it all the same."""
    trust.agree_to_derived(path)
    with Reproducer.open(path) as reproducer, Engine(reproducer, emulator=EMULATOR) as engine:
        found = engine.timings(ORIGINAL, [(2, 0, 4000)], [2], again=True)
        assert found.warm_ms and found.cold_ms
        times = engine.interleaved([ORIGINAL], 3, [2])
        assert len(times[ORIGINAL]) == 3 and min(times[ORIGINAL]) > 0
        engine.restore()
        assert engine.launch(ORIGINAL).ok and engine.differing("post") == []
