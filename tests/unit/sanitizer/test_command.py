"""``kerncap sanitize`` on files: what it takes, what it says, how it ends. Compiles nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kerncap.cli import main
from tests.unit.format.damage import GOLDEN, GOLDEN_BLOCK, GOLDEN_NATIVE, edit_manifest, write_stored

ARGUMENTS = ["--arg", "x_ptr=f32[250]", "--arg", "out_ptr=f32[250]", "--arg", "n=250"]


@pytest.fixture(autouse=True)
def _nothing_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def ttir(tmp_path: Path) -> Path:
    """A kernel whose load has a mask and whose store has none."""
    path = tmp_path / "scale.ttir"
    path.write_bytes((GOLDEN_BLOCK / "code" / "kernel.ttir").read_bytes())
    return path


@pytest.fixture
def block(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN_BLOCK, tmp_path / "block"))


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main(["sanitize", *map(str, arguments)])
    said = capsys.readouterr()
    return status, said.out, said.err


# --- usage ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "sanitize: nothing to check; give a reproducer, a .ttir file, or -- and a program"),
        (["--"], "sanitize takes either REPRO, FILE.ttir, or -- and a program"),
        (["repro", "--", "true"], "sanitize takes either REPRO, FILE.ttir, or -- and a program"),
        (["x.ttir"], "x.ttir: a .ttir file needs --grid, and --arg for each of its parameters"),
        (["x.ttir", "--grid", "8,"], "--grid 8,: one to three numbers, as in 8 or 8,4,1"),
        (["x.ttir", "--grid", "8", "--arg", "n"], "--arg n: expected NAME=VALUE, as in x=f32[1024,64]"),
        (["x.ttir", "--grid", "8", "--arg", "n=1", "--arg", "n=2"], "--arg n=2: n has a value already"),
        (["x.ttir", "--grid", "8"], "x.ttir: can't be read: No such file or directory"),
        (
            ["x.ttir", "--target", "cuda:90"],
            "--target goes with -- and a program or a reproducer, not with a",
        ),
        (["x.ttir", "--trust"], "--trust goes with a reproducer, not with a .ttir file"),
        (["repro", "--arg", "n=1"], "repro: --grid and --arg go with a .ttir file or with --for-all"),
        (["repro", "--one-config"], "--one-config goes with -- and a program, not with a reproducer"),
        (["--grid", "8", "--", "true"], "--grid goes with a .ttir file or a reproducer, not with -- and"),
        (
            ["repro", "--check", "oob,typo"],
            "--check oob,typo: typo is not a check; choose from oob, race, uninit",
        ),
        (["repro", "--check", ","], "--check ,: nothing is not a check"),
        (["repro", "--target", "sm_90"], "--target sm_90: expected cuda:N or hip:gfxN, as in cuda:90"),
        (["--target", "h100", "--", "true"], "--target h100: expected cuda:N or hip:gfxN"),
        (["nowhere"], "nowhere"),
    ],
)
def test_usage(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2 if arguments != ["nowhere"] else status, "")
    assert message in err and err.count("\n") == 1


# --- a program ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "ended", "status", "last"),
    [
        (["sh", "-c", "exit 0"], 0, 5, "no launch; a run that launches a Triton kernel would decide it"),
        (["sh", "-c", "exit 1"], 1, 5, "no launch: the program ended with status 1"),
        (["sh", "-c", "kill -9 $$"], 137, 5, "no launch: the program was killed, probably for memory"),
        (["no-such-program"], 127, 127, "no launch: the program ended with status 127"),
    ],
)
def test_a_program_that_launches_nothing(
    capsys: pytest.CaptureFixture[str], program: list[str], ended: int, status: int, last: str
) -> None:
    """Status 1 is the answer no, which nobody can give here."""
    found, out, _ = run(capsys, "--", *program)
    assert (found, out.splitlines()[-1]) == (status, f"Result: UNDECIDED ({last})")
    found, out, _ = run(capsys, "--json", "--", *program)
    document = json.loads(out)
    assert (found, document["result"], document["target_status"]) == (status, "undecided", ended)


# --- a .ttir file ---------------------------------------------------------------------------------------


def test_a_ttir_file_with_a_finding(capsys: pytest.CaptureFixture[str], ttir: Path) -> None:
    status, out, err = run(capsys, ttir, "--grid", "2", *ARGUMENTS, "--check", "oob")
    assert (status, err) == (1, "")
    lines = out.splitlines()
    assert lines[0] == "scale[2, 1, 1]: 1 finding; memory operations: 1 proved, 1 violated"
    assert (
        "  error[oob]: store of 4 bytes at out_ptr + 250 (byte 1,000): just past the end of out_ptr "
        "(float32[250], 1,000 bytes); program (1, 0, 0), lane 122"
    ) in lines
    assert "    --> /app/kernels.py:9:5" in lines
    assert "    try      mask=offsets < n" in lines
    assert lines[-1] == "Result: FAIL (1 finding; 1 launch; memory operations: 1 proved, 1 violated)"


def test_the_findings_of_one_line(capsys: pytest.CaptureFixture[str], ttir: Path) -> None:
    given = (ttir, "--grid", "2", *ARGUMENTS, "--check", "oob")
    status, out, _ = run(capsys, "--at", "kernels.py:9", *given)
    assert (status, "error[oob]" in out) == (1, True)
    status, out, _ = run(capsys, "--at", "kernels.py:8", *given)
    assert (status, "error[oob]" in out, "Result: FAIL (1 finding;" in out) == (1, False, True)


def test_a_ttir_file_that_is_clean(capsys: pytest.CaptureFixture[str], ttir: Path) -> None:
    whole = [argument.replace("250", "256") for argument in ARGUMENTS]
    status, out, _ = run(capsys, ttir, "--grid", "2", *whole)
    assert (status, out.splitlines()[-1]) == (0, "Result: PASS (1 launch; memory operations: 2 proved)")


def test_json_and_sarif(capsys: pytest.CaptureFixture[str], ttir: Path, tmp_path: Path) -> None:
    sarif = tmp_path / "out.sarif"
    status, out, err = run(capsys, ttir, "--grid", "2,1", *ARGUMENTS, "--json", "--sarif", sarif)
    document = json.loads(out)
    assert (status, err, document["result"]) == (1, "", "fail")
    (launch,) = document["launches"]
    assert launch["kernel"] == "scale" and launch["grid"] == [2, 1, 1]
    found = {one["check"]: one for one in launch["findings"]}
    assert set(found) == {"oob"}
    assert [(one["check"], one["note"]) for one in launch["noted"]] == [("uninit", "portability")]
    assert (found["oob"]["line"], found["oob"]["program_id"], found["oob"]["lane"]) == (9, [1, 0, 0], [122])
    assert found["oob"]["argument"] == "out_ptr" and found["oob"]["offset_bytes"] == 1000
    results = json.loads(sarif.read_text())["runs"][0]["results"]
    levels = [(result["ruleId"], result["level"]) for result in results]
    assert levels == [("oob", "error"), ("uninit", "note")]
    status, out, err = run(capsys, ttir, "--grid", "2", *ARGUMENTS, "--sarif", tmp_path / "no" / "way")
    assert (status, out) == (2, "") and "way: can't be written: No such file or directory" in err


def test_what_a_sarif_log_has_is_known(
    capsys: pytest.CaptureFixture[str], ttir: Path, tmp_path: Path
) -> None:
    log, after = tmp_path / "known.sarif", tmp_path / "after.sarif"
    assert run(capsys, ttir, "--grid", "2", *ARGUMENTS, "--sarif", log)[0] == 1
    status, out, err = run(capsys, ttir, "--grid", "8", *ARGUMENTS, "--baseline", log, "--sarif", after)
    assert (status, err) == (0, "") and "  known[oob]: /app/kernels.py:9:5: store of 4 bytes at" in out
    said = f"no new finding, 1 known in {log}; 1 launch; memory operations: 1 proved, 1 violated"
    assert out.splitlines()[-1] == f"Result: PASS ({said})"
    found = json.loads(after.read_text())["runs"][0]["results"]
    assert [(one["ruleId"], one["baselineState"]) for one in found] == [
        ("oob", "unchanged"),
        ("uninit", "unchanged"),
    ]
    less = [argument.replace("x_ptr=f32[250]", "x_ptr=f32[200]") for argument in ARGUMENTS]
    status, out, _ = run(capsys, ttir, "--grid", "2", *less, "--baseline", log, "--json")
    document = json.loads(out)
    assert (status, document["result"]) == (1, "fail")
    assert sorted((one["argument"], one["baseline_state"]) for one in document["causes"]) == [
        ("out_ptr", "unchanged"),
        ("x_ptr", "new"),
    ]
    status, out, err = run(capsys, ttir, "--grid", "2", *ARGUMENTS, "--baseline", ttir)
    assert (status, out) == (2, "") and f"{ttir}: not JSON" in err and err.count("\n") == 1


def test_every_check_is_shown(capsys: pytest.CaptureFixture[str], ttir: Path) -> None:
    _, out, _ = run(capsys, ttir, "--grid", "2", *ARGUMENTS, "--every")
    assert "  /app/kernels.py:8:9: load oob: proved (" in out
    assert "  /app/kernels.py:9:5: store race: proved (" in out


@pytest.mark.parametrize(
    ("data", "status"),
    [(b"", 3), (b"tt.func", 3), (b"module {\n", 3), (b"\x00" * 100, 3), (b"\xff\xfe", 2), (b"(" * 10_000, 3)],
)
def test_what_is_no_ttir(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, data: bytes, status: int
) -> None:
    path = tmp_path / "bad.ttir"
    path.write_bytes(data)
    ended, out, err = run(capsys, path, "--grid", "1")
    assert (ended, out) == (status, "") and err.count("\n") == 1 and len(err) < 500


def test_arguments_that_do_not_fit(capsys: pytest.CaptureFixture[str], ttir: Path) -> None:
    status, _, err = run(capsys, ttir, "--grid", "1", "--arg", "x_ptr=f32[250]")
    assert status == 2 and "out_ptr" in err
    status, _, err = run(capsys, ttir, "--grid", "1,2,3,4", *ARGUMENTS)
    assert status == 2 and "grid" in err


# --- a reproducer ---------------------------------------------------------------------------------------


def test_the_storage_of_a_tensor_in_an_allocators_block(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, GOLDEN_BLOCK, "--check", "oob")
    assert (status, err) == (1, "")
    assert "out_ptr + 250 (byte 1,000): just past the end of out_ptr (float32[250], 1,000 bytes);" in out
    assert "    > 9 |     tl.store(out_ptr + offsets, x * 2.0)" in out.splitlines()
    assert "the storage of" not in out
    status, out, _ = run(capsys, GOLDEN_BLOCK, "--check", "oob", "--bounds", "allocation")
    assert (status, out.splitlines()[-1]) == (0, "Result: PASS (1 launch; memory operations: 2 proved)")


def test_without_storages_the_allocation_counts_and_that_is_said(
    capsys: pytest.CaptureFixture[str], block: Path
) -> None:
    edit_manifest(block, lambda manifest: [view.pop("storage") for view in manifest["views"]])
    note = "  note: the storage of x_ptr, out_ptr is not known: bounds are those of the allocation around it"
    status, out, _ = run(capsys, block, "--check", "oob")
    assert status == 0 and note in out.splitlines()
    status, out, _ = run(capsys, block, "--check", "oob", "--bounds", "view")
    assert status == 1 and note not in out.splitlines()


def test_two_storages_that_share_bytes_are_one(capsys: pytest.CaptureFixture[str], block: Path) -> None:
    def share(manifest: object) -> None:
        views = manifest["views"]  # type: ignore[index]
        views[1]["offset"] = views[0]["offset"] + 400
        views[1]["storage"] = [views[0]["offset"] + 400, 1000]

    edit_manifest(block, share)
    status, out, _ = run(capsys, block, "--check", "race")
    assert status == 1 and "  error[race]: " in out


@pytest.mark.parametrize("garbage", [b"garbage", b"module {", b"\xff\x00\x1b[2J", b"tt.func @k(" * 1000])
def test_a_hostile_reproducer(capsys: pytest.CaptureFixture[str], block: Path, garbage: bytes) -> None:
    write_stored(block, ("code", 0, "file"), "code/kernel.ttir", garbage)  # type: ignore[arg-type]
    status, out, err = run(capsys, block)
    assert (status, out) == (3, "") and err.count("\n") == 1 and "\x1b" not in err


def test_a_damaged_reproducer(capsys: pytest.CaptureFixture[str], block: Path) -> None:
    (block / "code/kernel.ttir").write_bytes(b"module {}")
    status, _, err = run(capsys, block)
    assert status == 3 and "kernel.ttir" in err


def test_a_kernel_that_is_not_tritons(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, GOLDEN_NATIVE)
    assert (status, out) == (4, "") and "it is a cuda kernel; the sanitizer reads Triton's TTIR" in err


def test_an_empty_module(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, GOLDEN)
    assert (status, out) == (3, "") and err.count("\n") == 1


def without_code(folder: Path) -> None:
    """As if it was captured under the interpreter."""
    shutil.rmtree(folder / "code")
    edit_manifest(folder, lambda manifest: manifest["code"].clear())


def test_a_strangers_source_is_not_compiled(capsys: pytest.CaptureFixture[str], block: Path) -> None:
    without_code(block)
    status, out, err = run(capsys, block)
    assert (status, out) == (2, "") and err.count("\n") == 1
    assert "would execute: source/kernel.py (9 lines of Python, kernel scale)" in err and "--trust" in err
    status, _, err = run(capsys, GOLDEN_BLOCK, "--target", "cuda:80")
    assert status == 2 and "the check is for cuda:80" in err


def test_without_a_source_there_is_nothing_to_compile(
    capsys: pytest.CaptureFixture[str], block: Path
) -> None:
    without_code(block)
    shutil.rmtree(block / "source")
    edit_manifest(block, lambda manifest: manifest.pop("source"))
    status, _, err = run(capsys, block, "--trust")
    assert status == 4 and "it has no Python source to compile" in err


def test_a_python_that_can_not_compile_is_named(capsys: pytest.CaptureFixture[str], block: Path) -> None:
    without_code(block)
    status, _, err = run(capsys, block, "--trust", "--python", "/bin/false")
    assert status == 4 and "/bin/false" in err


# --- all sizes ------------------------------------------------------------------------------------------

STATED = ["--for-all", "n=1..2**31-1", "--grid", "cdiv(n,256)"]
SHAPES = ["--arg", "x_ptr=f32[n]", "--arg", "out_ptr=f32[n]"]


def test_a_mask_that_is_missing_at_the_smallest_size(capsys: pytest.CaptureFixture[str], ttir: Path) -> None:
    status, out, _ = run(capsys, ttir, *STATED, *SHAPES, "--json")
    document = json.loads(out)
    [launch] = document["launches"]
    assert (status, document["result"], launch["proved"], launch["violated"]) == (1, "fail", 1, 1)
    assert launch["for_all"] == {
        "intervals": {"n": "1..2147483647"},
        "grid": ["cdiv(n,256)"],
        "assumed": ["x_ptr is f32[n]", "out_ptr is f32[n]", "no two arguments share memory"],
    }
    [finding] = launch["findings"]
    assert (finding["at"], finding["smallest"], finding["lane"]) == ({"n": 1}, True, [1])
    status, out, _ = run(capsys, ttir, *STATED, *SHAPES)
    assert "[cdiv(n,256)] for all n in 1..2147483647: 1 finding" in out
    assert "error[oob]: with n = 1 (the smallest): store of 4 bytes" in out


def test_whole_blocks_need_no_mask(capsys: pytest.CaptureFixture[str], ttir: Path) -> None:
    stated = ["--for-all", "n=256..2**31-256:256", "--grid", "cdiv(n,256)"]
    status, out, _ = run(capsys, ttir, *stated, *SHAPES)
    assert (status, out.splitlines()[-1]) == (0, "Result: PASS (1 launch; memory operations: 2 proved)")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--for-all", "n"], "--for-all n: expected NAME=LOW..HIGH or NAME=EXPRESSION"),
        (["--for-all", "n=9..1"], "--for-all n=9..1: 9 is above 1; give the smaller number first"),
        (["--for-all", "n=1..m"], "--for-all n=1..m: m is not known here; the names are none"),
        (["--for-all", "n=1..9:0"], "--for-all n=1..9:0: expected numbers, as in 16..4096:16"),
        (["--for-all", "k=1..9"], "--for-all k=1..9: k is not an integer or pointer of the compiled kernel"),
        (["--for-all", "n=1..9,n=2"], "--for-all n=2: n is stated already; state each name once"),
        (["--for-all", "x_ptr=4"], "--for-all x_ptr=4: x_ptr is a pointer; state what its memory holds"),
        (["--for-all", "x_ptr=0..4"], "--for-all: no size has an interval; expected one at least"),
        (["--for-all", "n=1..2**31"], "n is an i32 there, and its values may be 1 to 2147483648"),
        (["--for-all", "n=1..9", "--arg", "n=4"], "--arg n=4: --for-all states n; leave one of the two out"),
        (["--for-all", "n=1..9", "--arg", "q=4"], "no parameter is called q; it has x_ptr, out_ptr, n"),
        (["--for-all", "n=1..9", "--bounds", "view"], "--bounds view: with --for-all an access stays inside"),
        (["--for-all", "n=1..9", "--check", "uninit"], "uninit: --for-all checks oob, overflow, race; leave"),
        (["--for-all", "n=0..9", "--grid", "9//n"], "--grid 9//n: 9 // n may divide by zero"),
        (["--for-all", "n=1..9", "--grid", "n.real"], "--grid n.real: n.real is not supported"),
        (["--for-all", "n=1..9", "--grid", "n**n"], "--grid n**n: n ** n is not supported"),
        (["--for-all", "n=1..9", "--arg", "x_ptr=n"], "argument x_ptr=n: expected a tensor such as f32[M,K]"),
        (["--for-all", "n=-9..9"], "a size or stride may be negative; state sizes that keep it at 0 or more"),
        (["--for-all", f"n=1..{'-' * 900}9"], "is nested too deeply; write it shorter"),
        (["--for-all", "n=1..2**63"], "--for-all n=1..2**63: 2 ** 63 may leave 64 bits"),
        (["--for-all", "n=1..2**64"], "--for-all n=1..2**64: 2 ** 64 may leave 64 bits"),
    ],
)  # fmt: skip
def test_usage_of_all_sizes(
    capsys: pytest.CaptureFixture[str], ttir: Path, arguments: list[str], message: str
) -> None:
    given = [*(SHAPES[:2] if "x_ptr=n" not in arguments else []), *SHAPES[2:], *arguments]
    status, out, err = run(capsys, ttir, *(() if "--grid" in arguments else STATED[2:]), *given)
    assert (status, out) == (2, "")
    assert message in err and err.count("\n") == 1
