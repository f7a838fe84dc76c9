"""`kerncap diff` of launch, arguments, code, source and environment; and the command itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from kerncap.api.diff import code_diff as code_module
from kerncap.api.diff import diff_reproducers, stage_rows
from kerncap.api.pack import pack
from kerncap.cli.diff import command
from kerncap.errors import FormatError, UsageError
from kerncap.format import schema
from kerncap.report.diff_text import render
from tests.unit.diff.tensor_reproducers import make, same, view

X = np.arange(64, dtype=np.float32)
TTIR = """\
#loc = loc("/home/a/k.py":3:0)
module {
  tt.func public @k(%x: !tt.ptr<f32> loc("/home/a/k.py":3:0)) {
    %c0 = arith.constant 4 : i32 loc(#loc1)
    %0 = tt.splat %x : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>> loc(#loc2)
    tt.return loc(#loc3)
  }
}
#loc1 = loc("/home/a/k.py":5:9)
"""
MOVED = TTIR.replace("/home/a", "/srv/b").replace("%c0", "%four").replace("%0", "%9").replace(":5:9", ":7:9")
ADDED = TTIR.replace("    tt.return", "    %1 = arith.addi %c0, %c0 : i32\n    tt.return")


def pair(tmp_path: Path, **sides: tuple) -> tuple[Path, Path]:
    made = [
        make(tmp_path / name, [same(X)], views=[view("x", X)], **{k: v[i] for k, v in sides.items()})
        for i, name in enumerate("ab")
    ]
    return made[0], made[1]


def test_locations_and_numbering_are_no_difference(tmp_path: Path) -> None:
    a, b = pair(tmp_path, code=({"ttir": TTIR.encode()}, {"ttir": MOVED.encode()}))
    found = diff_reproducers(a, b)
    assert found.equal and [(one.stage, one.same, one.how) for one in found.code] == [("ttir", True, "text")]


def test_an_instruction_more_is_told_by_its_name(tmp_path: Path) -> None:
    a, b = pair(tmp_path, code=({"ttir": TTIR.encode()}, {"ttir": ADDED.encode()}))
    found = diff_reproducers(a, b)
    [one] = found.code
    assert found.differing == ["code"] and one.text is not None
    assert dict(one.text.changed) == {"arith.addi": (0, 1)}
    assert "arith.addi 0 -> 1" in render(found)
    rows = stage_rows(a, b, "ttir")
    assert rows is not None and [mark for mark, _, _ in rows if mark != " "] == [">"]


@pytest.mark.skipif(not code_module._objdumps(), reason="no llvm-objdump")
def test_machine_code_of_an_amd_gpu(tmp_path: Path) -> None:
    image = (Path(__file__).parents[2] / "golden" / "v1.3" / "code" / "kernel.hsaco").read_bytes()
    at = image.index(b"\x00\x00\x81\xbf")  # s_endpgm
    other = bytearray(image)
    other[at : at + 4] = b"\x00\x00\x80\xbf"  # s_nop 0
    a, b = pair(tmp_path, code=({"hsaco": image}, {"hsaco": bytes(other)}))
    plain = diff_reproducers(a, b).code[0]
    assert not plain.same and plain.text is None and "--code isa" in plain.note  # strangers' images
    asked = diff_reproducers(a, b, stages=["isa"]).code[0]
    if asked.text is None:
        pytest.skip("this llvm-objdump knows no AMD GPU")
    assert asked.how == "isa" and set(asked.text.changed) == {"s_endpgm", "s_nop"}


def test_assembly_of_an_amd_gpu_with_other_registers(tmp_path: Path) -> None:
    text = (
        "k:\n\t.loc 1 3 0\n\ts_load_dword s4, s[0:1], 0x8\n"
        ".LBB0_1:\n\tv_add_f32_e32 v1, v2, v3 ; 4\n\ts_endpgm\n"
    )
    moved = text.replace("1 3 0", "1 9 9").replace("s4", "s7").replace("v1", "v9").replace("LBB0_1", "LBB0_2")
    a, b = pair(tmp_path / "moved", code=({"amdgcn": text.encode()}, {"amdgcn": moved.encode()}))
    assert diff_reproducers(a, b).equal
    other = text.replace("v_add_f32_e32", "v_mul_f32_e32")
    a, b = pair(tmp_path / "other", code=({"amdgcn": text.encode()}, {"amdgcn": other.encode()}))
    [one] = diff_reproducers(a, b).code
    assert one.text is not None and set(one.text.changed) == {"v_add_f32_e32", "v_mul_f32_e32"}


def test_no_disassembler_is_said_and_breaks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_module, "isa", lambda path: None)
    monkeypatch.setattr("kerncap.replay.candidates.disassemble.sass", lambda path: None)
    a, b = pair(tmp_path, code=({"cubin": b"one", "hsaco": b"x"}, {"cubin": b"two", "hsaco": b"y"}))
    found = diff_reproducers(a, b, stages=["sass", "isa"])
    assert [one.how for one in found.code] == ["binary", "binary"]
    assert any("nvdisasm" in note for note in found.notes) and any(
        "llvm-objdump" in note for note in found.notes
    )


def test_source_and_where_it_came_from(tmp_path: Path) -> None:
    text = b"# k: /a/k.py:3\nimport triton\n\n# /a/k.py:3\ndef k(): return 1\n"
    a, b = pair(tmp_path / "moved", source=(text, text.replace(b"/a/k.py:3", b"/b/k.py:9")))
    assert diff_reproducers(a, b).equal
    a, b = pair(tmp_path / "edited", source=(text, text.replace(b"1\n", b"2\n")))
    found = diff_reproducers(a, b)
    assert found.differing == ["source"]
    assert "-def k(): return 1" in found.source[0].lines and "+def k(): return 2" in found.source[0].lines


def test_launch_and_arguments(tmp_path: Path) -> None:
    launches = [
        schema.Launch(
            grid=(n, 1, 1), ordinal=n, mode="jit", options={"num_warps": schema.IntValue(value=str(n))}
        )
        for n in (4, 8)
    ]
    a, b = pair(tmp_path, launch=tuple(launches))
    found = diff_reproducers(a, b)
    assert {(one.what, one.a, one.b) for one in found.launch} == {
        ("grid", "4x1x1", "8x1x1"), ("option num_warps", "4", "8"),
    }  # fmt: skip
    assert found.differing == ["launch"]
    assert ("launch number", "4", "8") in {(one.what, one.a, one.b) for one in found.environment}


def test_tensors_that_share_memory_on_one_side(tmp_path: Path) -> None:
    x = np.zeros(8, np.float32)
    a = make(tmp_path / "a", [same(x), same(x)], views=[view("x", x), view("y", x, region=1)])
    b = make(tmp_path / "b", [same(x), same(x)], views=[view("x", x), view("y", x)])
    assert [(one.what, one.a, one.b) for one in diff_reproducers(a, b).arguments] == [("aliases", "", "x, y")]


def test_versions_decide_nothing(tmp_path: Path) -> None:
    platforms = tuple(
        schema.Platform(system="Linux", machine="x86_64", python="3.12", packages={"triton": version})
        for version in ("3.8.0", "3.9.0")
    )
    compiled = tuple(
        {"hash": schema.StrValue(value=digest), "shared": schema.IntValue(value="0")} for digest in "ab"
    )
    found = diff_reproducers(*pair(tmp_path, platform=platforms, compiled=compiled))
    assert found.equal and ("triton", "3.8.0", "3.9.0") in {(c.what, c.a, c.b) for c in found.environment}


# --- the command -----------------------------------------------------------------------------------------


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(command, [str(word) for word in words], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.stdout


def test_exit_status_text_and_json(tmp_path: Path) -> None:
    y = X.copy()
    y[3] = np.inf
    a, b = (make(tmp_path / n, [same(one)], views=[view("x", X)]) for n, one in (("a", X), ("b", y)))
    assert run(a, a)[0] == 0
    status, text = run(a, b)
    assert status == 1 and "x (float32[64]) before: 1 of 64 differ, first at [3]: 3.0 -> inf" in text
    status, text = run(a, b, "--json")
    document = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert (status, document["result"], document["kind"]) == (1, "different", "reproducers")
    assert document["views"][0]["states"][0]["first"] == {"index": [3], "a": "3.0", "b": "inf"}
    status, text = run(a, b, "--memory", "x")
    assert status == 1 and "where (" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--code", "nonsense"), "expected one of ttir"),
        (("--memory", "nonsense"), "there are x"),
        (("--max-ratio", "2"), "two results"),
        (("--side-by-side",), "--code"),
    ],
)
def test_usage(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    a, b = pair(tmp_path)
    with pytest.raises(UsageError, match=said):
        run(a, b, *words)


def test_packed_reproducers_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pair(tmp_path)
    archive = pack(a, tmp_path / "a.zip").path
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    assert diff_reproducers(archive, b).equal
    assert list(scratch.iterdir()) == []


def test_a_damaged_one_is_refused(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    broken = Path(shutil.copytree(b, tmp_path / "broken"))
    chunks = broken / "memory" / "chunks"
    data = bytearray(chunks.read_bytes())
    data[len(data) // 2] ^= 1
    chunks.write_bytes(bytes(data))
    other = make(tmp_path / "other", [same(X + 1)], views=[view("x", X)])
    with pytest.raises(FormatError):
        diff_reproducers(other, broken)


def test_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    a, _ = pair(tmp_path)
    with pytest.raises(UsageError, match="not a reproducer folder"):
        run(a, tmp_path / ("b" * 300))
