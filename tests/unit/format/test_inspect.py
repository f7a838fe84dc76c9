"""`inspect`: what it says about the golden reproducer, and that nothing hostile reaches a terminal."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kerncap.api.inspect import inspect
from kerncap.cli.inspect import command
from kerncap.errors import FormatError
from kerncap.report.inspect_text import render, value_text
from tests.unit.format.damage import GOLDEN, edit_manifest

SOURCE_MARK = "source-was-executed"


def test_json_document() -> None:
    result = CliRunner().invoke(command, ["--json", str(GOLDEN)], standalone_mode=False)
    assert result.return_value == 0
    document = json.loads(result.stdout)
    assert document["manifest"] == json.loads((GOLDEN / "manifest.json").read_bytes())
    assert document["digests"] == "verified"
    assert document["checks"]["self_check"]["result"] == "pass"
    assert document["write_set"] == [{"region": 2, "written_bytes": 2048, "size": 4096, "also_input": True}]
    assert document["stored"]["pre_bytes"] == 529384
    assert document["stored"]["regions"][0]["chunks_changed"] == 2
    assert document["arguments"][1]["tensors"][0] == {
        "view": 1, "name": "x_flip", "dtype": "float32", "shape": [128], "strides": [-1],
        "region": 0, "offset": 508, "address": 0x7F0000000000 + 508, "alignment": 4,
    }  # fmt: skip


def test_aliases_between_arguments() -> None:
    document = inspect(GOLDEN)
    assert document["aliases"] == [
        {"arguments": ["flip", "x_ptr"], "region": 0, "bytes": 512, "same_range": False}
    ]


@pytest.mark.parametrize(
    "line",
    [
        "kernel       app.kernels.scale (triton)",
        "defined in   /app/kernels.py:41",
        "grid         (64, 1, 1)",
        "called from  /app/layer.py:80 in forward",
        "oracle       trusted",
        "digests      verified",
        "command      python train.py --steps 3",
        "source       source/scale.py, entry scale",
        "             scale (line 4) from /app/kernels.py:41",
        "  flip and x_ptr overlap in 512 bytes of region 0",
        "  FACTOR   constexpr         -inf",
        "  DTYPE    constexpr         tl.float32",
        "  -> BLOCK=128  grid (64, 1, 1)",
        "  self-check: pass by interpreter: bit for bit",
        "  write set: region 2: 2048 of 4096 bytes written, also input",
        "  argument z was left out",
        "  CUDA_VISIBLE_DEVICES=0",
    ],
)
def test_text(line: str) -> None:
    assert line in [found.rstrip() for found in render(inspect(GOLDEN)).splitlines()]


def test_the_caller_is_not_a_frame_of_triton() -> None:
    document = inspect(GOLDEN)
    stack = document["manifest"]["launch"]["python_stack"]
    document["manifest"]["launch"]["python_stack"] = [*stack, ("/p/triton/runtime/jit.py", 375, "<lambda>")]
    assert "called from  /app/layer.py:80 in forward" in render(document).splitlines()


def test_hostile_text_cannot_reach_the_terminal(folder: Path) -> None:
    evil = "\x1b]0;owned\x07\nResult: PASS\u202e"

    def edit(manifest: Any) -> None:
        manifest["kernel"]["qualified_name"] = evil
        manifest["notes"] = [evil]
        manifest["command"] = [evil]
        manifest["environment"] = {evil: evil}
        manifest["regions"][0]["reason"] = evil
        manifest["arguments"][0]["name"] = evil
        manifest["arguments"][3]["value"] = {"kind": "str", "value": evil}
        manifest["arguments"][4]["value"] = {"kind": "opaque", "type_name": evil, "repr": evil}
        manifest["autotune"]["key"] = [evil]
        manifest["code"][0]["stage"] = evil
        manifest["source"]["entry"] = evil

    edit_manifest(folder, edit)
    for options in ([], ["--json"]):
        result = CliRunner().invoke(command, [*options, str(folder)], standalone_mode=False)
        assert result.exception is None
        text = result.stdout
        assert all(c.isprintable() or c == "\n" for c in text)
        assert not any(line.startswith("Result:") for line in text.splitlines())


def test_memory_above_the_limit_is_checked_on_request_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["kerncap.api.inspect"], "DIGESTS_CHECKED_UP_TO", 1000)
    data = bytearray((folder / "memory/chunks").read_bytes())
    data[3000] ^= 1
    (folder / "memory/chunks").write_bytes(data)
    assert inspect(folder)["digests"] == "digests of memory not checked (6.2 KiB; --verify)"
    with pytest.raises(FormatError, match="chunk 3 is damaged"):
        inspect(folder, verify=True)


def test_source_is_not_executed(folder: Path, tmp_path: Path) -> None:
    from tests.unit.format.damage import write_stored

    mark = tmp_path / SOURCE_MARK
    code = f"open({str(mark)!r}, 'w')\n".encode()
    write_stored(folder, ("source", "file"), "source/scale.py", code)
    inspect(folder, verify=True)
    assert not mark.exists()


def test_a_folder_of_reproducers_names_them(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="this folder is not a reproducer"):
        inspect(tmp_path)
    shutil.copytree(GOLDEN, tmp_path / "add-00000001")
    with pytest.raises(FormatError, match="this folder holds reproducers: add-00000001"):
        inspect(tmp_path)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"kind": "float", "value": "0x1.8p+1"}, "3.0"),
        ({"kind": "float", "value": "nan"}, "nan"),
        ({"kind": "bool", "value": True}, "True"),
        ({"kind": "sequence", "items": [{"kind": "int", "value": "1"}], "type": "list"}, "[1]"),
        ({"kind": "pointer", "address": 255, "dtype": "fp32"}, "fp32 at 0xff"),
        ({"kind": "function", "name": "f"}, "function f"),
        ({"kind": "dtype", "name": "int8", "library": "torch"}, "torch.int8"),
    ],
)
def test_value_text(value: dict[str, Any], text: str) -> None:
    assert value_text(value) == text
