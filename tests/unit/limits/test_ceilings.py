"""Ceilings are measured once per device and kept."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kerncap.errors import BackendUnavailable, UsageError
from kerncap.replay.limits import ceilings, published
from kerncap.replay.limits.named_ceilings import named
from kerncap.replay.worker.protocol import Failure
from tests.unit.limits.device_and_work import DOCUMENT


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def answering(tmp_path: Path, measured: object) -> tuple[str, Path]:
    """A Python that says which device it is, and what it measured; the file counts how often it did."""
    log = tmp_path / "measured"
    facts = {key: DOCUMENT[key] for key in ("device", "driver", "sm_count", "clock_khz", "memory_clock_khz")}
    program = tmp_path / "python"
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\nidentify = sys.argv[2] == 'device'\n"
        f"if not identify:\n    open({str(log)!r}, 'a').write('x')\n"
        f"print(json.dumps({facts!r} if identify else {measured!r}))\n"
    )
    program.chmod(0o755)
    return str(program), log


def test_the_second_run_reads_what_the_first_measured(tmp_path: Path) -> None:
    python, log = answering(tmp_path, DOCUMENT)
    first = ceilings.of_device(python, 0)
    second = ceilings.of_device(python, 0)
    assert log.read_text() == "x"
    assert first.rates == second.rates == DOCUMENT["ceilings"]
    assert second.measured_at == first.measured_at != ""
    ceilings.of_device(python, 0, again=True)
    assert log.read_text() == "xx"


def test_another_driver_is_measured_anew(tmp_path: Path) -> None:
    python, log = answering(tmp_path, DOCUMENT)
    ceilings.of_device(python, 0)
    text = Path(python).read_text()
    Path(python).write_text(text.replace("'driver': '13.0'", "'driver': '13.1'"))
    ceilings.of_device(python, 0)
    assert log.read_text() == "xx"


def test_a_damaged_file_is_measured_anew(tmp_path: Path) -> None:
    python, log = answering(tmp_path, DOCUMENT)
    kept = ceilings.of_device(python, 0).path
    Path(kept).write_text('{"version": 1}')
    assert ceilings.of_device(python, 0).rates == DOCUMENT["ceilings"]
    assert log.read_text() == "xx"


def test_a_device_that_refuses_is_no_ceiling(tmp_path: Path) -> None:
    python, _ = answering(tmp_path, vars(Failure("refused", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION")))
    with pytest.raises(BackendUnavailable, match="UNSUPPORTED_PTX_VERSION"):
        ceilings.of_device(python, 0)
    assert not list(ceilings.folder().glob("*"))


def test_with_no_driver_the_reason_is_told() -> None:
    with pytest.raises(BackendUnavailable, match="ceilings"):
        ceilings.of_device(sys.executable, 10_000)


def test_a_measured_device_is_found_by_a_part_of_its_name(tmp_path: Path) -> None:
    python, _ = answering(tmp_path, DOCUMENT)
    ceilings.of_device(python, 0)
    assert named("made up").device == "NVIDIA Made Up"
    with pytest.raises(UsageError, match="measured here: NVIDIA Made Up; published: AMD Instinct MI210, "):
        named("H900")


def test_a_file_serves_where_there_is_no_device(tmp_path: Path) -> None:
    path = tmp_path / "given.json"
    path.write_text(json.dumps(DOCUMENT))
    found = named(str(path))
    assert found.rate("l2_bytes_per_s") == 8e12
    assert ceilings.from_dict(found.as_dict()).rates == found.rates
    assert found.rate("tensor_fp64_per_s") is None


# AMD's data sheets: 5.3, 1.6 and 8 TB/s; TFLOP/s of fp64 vectors, and of fp16 and fp8 matrices.
DATA_SHEETS = {
    "AMD Instinct MI300X": (5.3e12, 81.7e12, 1307.4e12, 2614.9e12),
    "AMD Instinct MI325X": (6.0e12, 81.7e12, 1307.4e12, 2614.9e12),
    "AMD Instinct MI355X": (8.0e12, 78.6e12, 2516.6e12, 5033.2e12),
}


@pytest.mark.parametrize("name", DATA_SHEETS)
def test_what_is_published_is_what_the_data_sheets_have(name: str) -> None:
    found = named(name.split()[-1].lower())
    assert found.device == name and found.origin == "published"
    rates = (
        found.dram(1, 1), *map(found.rate, ("fp64_per_s", "tensor_fp16_per_s", "tensor_fp8_per_s")),
    )  # fmt: skip
    assert rates == pytest.approx(DATA_SHEETS[name], rel=0.03)
    assert ceilings.from_dict(found.as_dict()) == found


def test_a_device_with_nothing_published_has_none() -> None:
    assert published.of("AMD Instinct MI250X / MI250") == published.of("AMD Instinct MI250X")
    assert named("MI210").rate("tensor_fp8_per_s") is None
    assert published.of("AMD Instinct MI9000") is None and published.of("NVIDIA H100") is None


NO_VERSION = json.dumps({key: value for key, value in DOCUMENT.items() if key != "version"})


@pytest.mark.parametrize("text", ["", "[]", '{"version": 2}', NO_VERSION, '{"version": 1, "device": "x"}'])
def test_what_is_no_file_of_ceilings_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "given.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="no ceilings"):
        ceilings.read(path)
