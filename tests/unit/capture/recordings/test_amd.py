"""AMD's tools: a Triton launch of its kerncap, replayed and right; an archive of HIP's record and replay."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncap.api.from_recording import from_recording
from kerncap.cli import main
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from tests.unit.replay.build import ADD, HEADER

pytest.importorskip("triton")


def tensor(folder: Path, number: int, name: str, before: Any, after: Any) -> dict[str, Any]:
    """A row of metadata.json, and its files: rows of `before` are 8 elements apart, the first at 3."""
    storage = np.zeros(3 + 8 * len(before), np.float32)
    storage[3:].reshape(-1, 8)[:, :6] = before
    storage.tofile(folder / f"arg_{number}.bin")
    np.ascontiguousarray(after).tofile(folder / f"ref_output_{number}.bin")
    return {
        "index": number, "name": name, "is_pointer": True, "file": f"arg_{number}.bin",
        "ref_output_file": f"ref_output_{number}.bin", "shape": list(before.shape), "strides": [8, 1],
        "storage_offset": 3, "torch_dtype": "torch.float32",
    }  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What `kerncap extract` of AMD's tool makes of `add` on rows that are not contiguous."""
    folder = tmp_path / "isolated" / "capture"
    folder.mkdir(parents=True)
    x, y = np.random.default_rng(1).standard_normal((2, 5, 6)).astype(np.float32)
    source = ADD.replace("(out_ptr + i,", "(out_ptr + i // 6 * 8 + i % 6,")
    for name in ("x_ptr", "y_ptr"):
        source = source.replace(f"({name} + i,", f"({name} + i // 6 * 8 + i % 6,")
    rows = [
        tensor(folder, 0, "x_ptr", x, x),
        tensor(folder, 1, "y_ptr", y, y),
        tensor(folder, 2, "out_ptr", np.full((5, 6), 7, np.float32), x + y),
        {"index": 3, "name": "n", "is_pointer": False, "value": 30, "type": "int"},
        {"index": 4, "name": "BLOCK", "is_pointer": False, "value": 99, "type": "int",
         "is_autotune_config": True},
    ]  # fmt: skip
    facts = {
        "kernel_name": "add", "grid": {"x": 2, "y": 1, "z": 1}, "language": "triton", "args": rows,
        "autotune_config": {"kwargs": {"BLOCK": 16}, "num_warps": 4},
    }  # fmt: skip
    (folder / "metadata.json").write_text(json.dumps(facts))
    (folder.parent / "kernels.py").write_text(HEADER + source)
    (folder.parent / "reproducer.py").write_text("def add():\n    raise SystemExit\n")
    return folder.parent


@pytest.mark.long
def test_a_launch_of_triton_is_verified(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["from-recording", str(project), "-o", str(out)]) == 0
    [path] = out.iterdir()
    with Reproducer.open(path) as made:
        assert made.manifest.oracle.kind == "trusted" and made.manifest.launch.grid == (2, 1, 1)
        made.verify()
    assert main(["replay", str(path), "--trust", "--device", "cpu"]) == 0, capsys.readouterr()
    assert "Result: PASS" in capsys.readouterr().out
    np.zeros(30, np.float32).tofile(project / "capture/ref_output_2.bin")
    [other] = from_recording(project, tmp_path / "other").paths
    assert main(["replay", str(other), "--trust", "--device", "cpu"]) == 1
    assert "Result: FAIL (out_ptr" in capsys.readouterr().out


def test_without_its_source_it_is_named(project: Path, tmp_path: Path) -> None:
    made = from_recording(project / "capture", tmp_path / "out")
    assert "no .py file next to the captured data defines add" in made.left_out[0].reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"file": "../../../../../../etc/passwd"}, "leads out of the recording"),
        ({"file": "/etc/passwd"}, "leads out of the recording"),
        ({"storage_offset": 1 << 40}, "x_ptr reaches past its"),
        ({"shape": [5]}, "its strides do not fit its shape"),
        ({"torch_dtype": "torch.quint8"}, "x_ptr is of quint8"),
        ({"ref_output_file": "arg_0.bin"}, "which is not x_ptr's size"),
    ],
)
def test_rows_that_lie(project: Path, tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    facts = project / "capture/metadata.json"
    document = json.loads(facts.read_text())
    document["args"][0].update(change)
    facts.write_text(json.dumps(document))
    try:
        said = from_recording(project, tmp_path / "out").left_out[0].reason
    except UsageError as error:
        said = str(error)
    assert reason in said


def test_an_archive_of_calls_is_answered_with_the_command(tmp_path: Path) -> None:
    process = tmp_path / "run.hrr" / "pid-42"
    process.mkdir(parents=True)
    (process / "events.bin").write_bytes(struct.pack("<IHH", 0x52524845, 7, 0))
    with pytest.raises(UsageError, match=r"kerncap capture -- hrr-playback \S+/run.hrr/pid-42$"):
        from_recording(process.parent, tmp_path / "out")
