"""`replay --limits` and `profile` on a machine with no GPU."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from kerncap.api.limits import limits
from kerncap.api.replay import ReplayOptions
from kerncap.cli import main
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.replay.byte_effects import Measured
from kerncap.replay.choose_engine import Choice
from kerncap.report.limits_text import render
from tests.unit.limits.device_and_work import DOCUMENT, device

api = sys.modules["kerncap.api.limits"]  # the module: kerncap.api.limits is the function
GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture(autouse=True)
def _no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same on every machine: the launch would run on the host."""
    monkeypatch.setattr(api, "choose", lambda *_: Choice("python", "interpreter", "host", -1))


@pytest.fixture
def triton_launch(tmp_path: Path) -> Path:
    """256 additions of two arguments: 128 lanes of a strided view."""
    return Path(shutil.copytree(GOLDEN / "v1.2", tmp_path / "repro"))


def test_a_triton_launch_is_counted_and_what_is_missing_named(
    triton_launch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(triton_launch), "--limits", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["work"]["source"] == "TTIR" and document["work"]["exact"]
    assert document["work"]["read"]["unique_bytes"] == 1000
    assert document["work"]["written"]["unique_bytes"] == 512
    assert document["work"]["flops_per_byte"] > 0
    assert document["binding"] is None and document["ceilings"] is None
    assert any("--ceilings" in note for note in document["notes"])


def test_a_file_of_ceilings_gives_the_shortest_time(
    triton_launch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ceilings.json"
    path.write_text(json.dumps(DOCUMENT))
    assert main(["replay", str(triton_launch), "--limits", "--ceilings", str(path)]) == 0
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert last == "Limit: the launch itself; this work takes no less than 3 us on that device"


def test_a_native_launch_has_an_upper_bound(tmp_path: Path) -> None:
    path = Path(shutil.copytree(GOLDEN / "v1.1", tmp_path / "repro"))
    report = limits(path)
    assert report.work.source == "closure" and not report.work.exact
    assert report.work.written is not None and report.work.written.unique_bytes == 4
    assert any("upper bound" in note for note in report.work.notes)


def test_what_can_not_be_is_refused(triton_launch: Path) -> None:
    with pytest.raises(UsageError, match="counters"):
        limits(triton_launch, counters="some")
    with pytest.raises(UsageError, match="no known device"):
        limits(triton_launch, ceilings_of="H9000")


def test_profile_needs_a_launch_or_a_report(triton_launch: Path) -> None:
    assert main(["profile"]) == 2
    assert main(["profile", str(triton_launch), "--import-report", "x.ncu-rep"]) == 2
    assert main(["profile", "--import-report", str(triton_launch / "x.ncu-rep")]) == 2


def test_profile_of_a_strangers_reproducer_asks_for_trust(
    triton_launch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(triton_launch)]) == 2
    assert "--trust" in capsys.readouterr().err


def test_options_reach_the_count(triton_launch: Path) -> None:
    assert limits(triton_launch, ReplayOptions(device="cpu")).counted.programs > 0


@pytest.mark.long
def test_a_launch_that_runs_is_timed_and_judged(triton_launch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way, with Triton's interpreter in the device's place."""
    choice = Choice(sys.executable, "interpreter", "cuda", 0)
    monkeypatch.setattr(api, "choose", lambda *_: choice)
    monkeypatch.setattr(api.ceilings, "of_device", lambda *_: device(event_us=3.0))
    monkeypatch.setattr(api.ncu, "find", lambda: None)
    monkeypatch.setattr(api, "_TIMED_RUNS", 2)
    with Reproducer.open(triton_launch) as reproducer:
        sizes = [region.size for region in reproducer.manifest.regions]
    monkeypatch.setattr(api, "write_set", lambda *_: Measured(sizes))  # measured elsewhere
    report = limits(triton_launch, ReplayOptions(trust=True, device="cpu"))
    assert report.times.headline is not None
    assert report.work.source == "TTIR" and report.counters is None
    assert report.binding is not None and report.binding.name == "launch"
    assert report.achieved is not None and 0 < report.achieved < 1
    assert "Limit: the launch itself" in render(report)
