"""Modules that replace several launches of a range: judged as one launch's candidate is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import CommandLine
from tests.parameters import first_of

MLP = Path(__file__).parents[3] / "samples" / "mlp"
FUSED = MLP / "fused.py"
NEEDED_NO_MORE = ("--intermediate", "0.y", "--intermediate", "1.c")

# Two launches for the last two, and both write all that those wrote.
TWO = """
import triton
import triton.language as tl

REPLACES = "1:3"
LAUNCHES = [
    {"kernel": "product", "grid": [2, 1], "arguments": {"a": "1.a", "b": "1.b", "c": "1.c", "K": "1.K"}},
    {"kernel": "gated", "grid": 16, "arguments": {"gate_up": "1.c", "out": "2.out", "scale": 1.0}},
]

@triton.jit
def product(a, b, c, K: tl.constexpr):
    rows, columns = tl.arange(0, 16), tl.program_id(0) * 32 + tl.arange(0, 32)
    inner = tl.arange(0, K)
    left = tl.load(a + rows[:, None] * K + inner[None, :])
    right = tl.load(b + inner[:, None] * 64 + columns[None, :])
    tl.store(c + rows[:, None] * 64 + columns[None, :], tl.dot(left, right, input_precision="ieee"))

@triton.jit
def gated(gate_up, out, scale):
    row, at = tl.program_id(0), tl.arange(0, 32)
    gate = tl.load(gate_up + row * 64 + at) * scale
    tl.store(out + row * 32 + at, gate * tl.sigmoid(gate) * tl.load(gate_up + row * 64 + 32 + at))
"""


@pytest.fixture(scope="module")
def mlp(kerncap_of_module: CommandLine) -> Path:
    [path] = kerncap_of_module.capture("--launches", "3:6", target=MLP / "run.py")
    return path


def verified(kerncap: CommandLine, path: Path, candidate: Path | str, *options: str) -> dict[str, Any]:
    if isinstance(candidate, str):
        (kerncap.folder / "candidate.py").write_text(candidate)
        candidate = kerncap.folder / "candidate.py"
    return kerncap("verify", "--json", path, "--candidate", candidate, *options).judged


def test_a_fused_kernel_passes(kerncap: CommandLine, mlp: Path) -> None:
    found = verified(kerncap, mlp, FUSED, *NEEDED_NO_MORE)
    assert found["result"] == "pass", found
    assert found["kernel"] == "rms_norm, matmul, swiglu" and "mlp in place of launches 0" in found["notes"][0]
    assert found["notes"][1].startswith("not compared: 2,048 bytes of 0.y")
    [_, oracle, sanitizer] = found["stages"]
    assert any("on other values of" in said for said in oracle["shown"]), oracle
    assert "proved for every program of the grid" in sanitizer["shown"][0], sanitizer


def test_one_that_reads_past_a_tensor_fails(kerncap: CommandLine, mlp: Path) -> None:
    """Rows that are loaded and never stored leave the right result."""
    text = (MLP / "fused_rows.py").read_text()
    for old, new in (('"ROWS": 4', '"ROWS": 32'), (", mask=rows < M, other=0.0)", ")")):
        assert old in text
        text = text.replace(old, new)
    found = verified(kerncap, mlp, text, *NEEDED_NO_MORE)
    assert found["result"] == "fail", found
    assert found["reasons"][-1].startswith("sanitizer: oob: load of 4 bytes at x + 512 "), found


def test_what_a_later_launch_reads_again_may_be_needed(kerncap: CommandLine, mlp: Path) -> None:
    """The range ends with its last launch: nobody knows what the application does with the rest."""
    done = kerncap("verify", "--json", mlp, "--candidate", FUSED)
    assert (done.status, done.document["result"]) == (5, "undecided"), done.document
    assert "--intermediate 0.y --intermediate 1.c says that nothing does" in done.document["summary"]


@pytest.mark.long
def test_of_several_that_may_be_needed_one_is_named(kerncap: CommandLine, mlp: Path) -> None:
    only = kerncap("verify", "--json", mlp, "--candidate", FUSED, "--intermediate", "0.y").document
    assert only["result"] == "undecided" and "1.c is not known" in only["summary"], only


def test_two_launches_that_write_everything_pass_as_they_are(kerncap: CommandLine, mlp: Path) -> None:
    found = verified(kerncap, mlp, TWO)
    assert found["result"] == "pass" and "product, gated in place of launches 1" in found["notes"][0], found


@pytest.mark.long
def test_what_an_earlier_launch_left_is_judged(kerncap: CommandLine, mlp: Path) -> None:
    """Launch 0 was not run: what it left is the application's, and its place is still judged."""
    spoiled = TWO.replace('"c": "1.c", "K"', '"c": "1.a", "K"')
    assert verified(kerncap, mlp, spoiled)["result"] == "fail"


@first_of(
    "options, old, new, place",
    [
        ((), "1e-6", "1e-2", "2.out: "),  # within no tolerance
        (NEEDED_NO_MORE, "1e-6", "1e-2", "2.out: "),
        ((), "tl.store(out + rows[:, None] * N", "tl.store(out + (rows[:, None] % 8) * N", "2.out[8, 0]"),
        (NEEDED_NO_MORE, "gate * tl.sigmoid(gate) * up)", "0.0 * gate)", "2.out: "),
    ],
)
def test_a_wrong_one_fails_and_the_place_is_named(
    kerncap: CommandLine, mlp: Path, options: tuple[str, ...], old: str, new: str, place: str
) -> None:
    text = FUSED.read_text()
    assert old in text
    found = verified(kerncap, mlp, text.replace(old, new), *options)
    assert found["result"] == "fail" and place in found["summary"], found


def test_one_that_writes_elsewhere_fails(kerncap: CommandLine, mlp: Path) -> None:
    found = verified(kerncap, mlp, FUSED.read_text() + "    tl.store(weight, 0.0)\n", *NEEDED_NO_MORE)
    assert found["result"] == "fail" and "1.b" in found["summary"], found


def test_a_result_can_not_be_declared_away(kerncap: CommandLine, mlp: Path) -> None:
    done = kerncap("verify", mlp, "--candidate", FUSED, "--intermediate", "2.out")
    assert done.status == 2 and "they are a result" in done.stderr, done.stderr
    for name, said in (
        ("0.x", "write nothing there"),
        ("5.x", "no 5"),
        ("y", "K.NAME"),
        ("1.K", "not a tensor"),
    ):
        done = kerncap("verify", mlp, "--candidate", FUSED, "--intermediate", name)
        assert done.status == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


# One launch for the last two, which leaves nothing in 1.c.
ONE = """
import triton
import triton.language as tl

REPLACES = "1:3"
LAUNCHES = [
    {
        "kernel": "both", "grid": 1,
        "arguments": {"a": "1.a", "b": "1.b", "out": "2.out", "M": "1.M", "K": "1.K", "N": "2.columns"},
    },
]

@triton.jit
def both(a, b, out, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    rows, inner, columns = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    left = tl.load(a + rows[:, None] * K + inner[None, :])
    halves = b + inner[:, None] * 2 * N + columns[None, :]
    gate = tl.dot(left, tl.load(halves), input_precision="ieee")
    up = tl.dot(left, tl.load(halves + N), input_precision="ieee")
    tl.store(out + rows[:, None] * N + columns[None, :], gate * tl.sigmoid(gate) * up)
"""


@first_of(
    "text, old, new, options, result, assumed",
    [
        (ONE, "", "", ("--intermediate", "1.c"), "pass", True),
        (ONE, "sigmoid(gate) *", "sigmoid(gate) * (1 + 1e-30 * tl.exp(gate)) *", (), "fail", True),
        (TWO, "", "", (), "pass", False),
    ],
)
def test_a_proof_is_about_the_results(
    kerncap: CommandLine, mlp: Path, text: str, old: str, new: str, options: tuple[str, ...], result: str,
    assumed: bool,
) -> None:  # fmt: skip
    """And about what the captured launches read again, as far as that is left as they left it."""
    found = verified(kerncap, mlp, text.replace(old, new), "--prove", *options)
    [proof] = [stage for stage in found["stages"] if stage["name"] == "proof"]
    assert (proof["result"], found["result"]) == (result, result), found
    assert assumed == ("assumed: nothing after these launches needs 1.c" in proof["not_shown"]), proof
    assert result == "pass" or proof["reasons"][0].startswith("not the same function: "), proof


@pytest.mark.long
def test_a_proof_that_fails_to_decide(kerncap: CommandLine, mlp: Path) -> None:
    """The proof gives up on a root for each of 16 rows. What may be needed is still named."""
    found = verified(kerncap, mlp, FUSED, *NEEDED_NO_MORE, "--prove")
    assert found["result"] == "undecided" and "too many comparisons and roots" in found["summary"], found
    found = verified(kerncap, mlp, FUSED, "--prove")
    assert found["result"] == "undecided" and "0.y, 1.c is not known" in found["summary"], found
    refused = kerncap("verify", mlp, "--prove")
    assert refused.status == 2 and "--prove is for one launch of a range" in refused.stderr, refused.stderr


@pytest.mark.long
def test_hostile_ones(kerncap: CommandLine, mlp: Path) -> None:
    """Its Python can't decide what is launched."""
    found = verified(kerncap, mlp, FUSED, *NEEDED_NO_MORE, "--hostile")
    assert found["result"] == "pass" and [s["name"] for s in found["stages"]][-2:] == [
        "determinism",
        "sanitizer",
    ], found
    # What it assigns when it runs is not what was read.
    later = FUSED.read_text() + "\nglobals()['LAUNCHES'] = []\nmlp.run = lambda *a, **k: None\n"
    assert verified(kerncap, mlp, later, *NEEDED_NO_MORE, "--hostile")["result"] == "fail"


def test_a_hostile_one_sees_no_file_of_the_reproducer(kerncap: CommandLine, mlp: Path) -> None:
    reads = FUSED.read_text() + f"\nopen({str(mlp / 'manifest.json')!r}).read()\n"
    failed = verified(kerncap, mlp, reads, *NEEDED_NO_MORE, "--hostile")
    assert failed["result"] == "fail" and "Permission denied" in failed["summary"], failed


def test_what_a_launch_passes_has_to_be_there(kerncap: CommandLine, mlp: Path) -> None:
    text = FUSED.read_text()
    for old, new, said in (
        ('"0.x"', '"7.x"', "the range has the launches 0 to 2"),
        ('"0.x"', '"0.z"', "launch 0 has no argument z; it has x, weight, y"),
    ):
        (kerncap.folder / "c.py").write_text(text.replace(old, new))
        done = kerncap("verify", mlp, "--candidate", "c.py")
        assert done.status == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
        assert done.stderr.startswith("kerncap: c.py: LAUNCHES[0]"), done.stderr
    missing = verified(kerncap, mlp, text.replace('"x": "0.x", ', ""))
    assert missing["result"] == "fail" and "it takes x, which the launch does not pass" in missing["summary"]


def test_a_source_needs_a_gpu(kerncap: CommandLine, mlp: Path) -> None:
    (kerncap.folder / "c.cu").write_text("// kerncap: launch k<<<1, 32>>>(0.x)\n")
    done = kerncap("verify", mlp, "--candidate", "c.cu")
    assert done.status == 4 and "a source for several launches is not available: " in done.stderr, done
    assert "the interpreter engine in host memory" in done.stderr, done.stderr


@pytest.mark.long
def test_memory_that_something_else_changes_in_between(kerncap: CommandLine) -> None:
    target = kerncap.target("""
        @triton.jit
        def twice(x, y, BLOCK: tl.constexpr):
            at = tl.arange(0, BLOCK)
            tl.store(y + at, tl.load(x + at) * 2)

        x, y, z = (torch.randn(64, device=DEVICE) for _ in range(3))
        twice[(1,)](x, y, BLOCK=64)
        y += 1
        twice[(1,)](y, z, BLOCK=64)
    """)
    [path] = kerncap.capture("--launches", "0:2", target=target)
    (kerncap.folder / "c.py").write_text(
        "import triton, triton.language as tl\n"
        'LAUNCHES = [{"kernel": "all", "grid": 1, "arguments": {"x": "0.x", "y": "0.y", "z": "1.y"}}]\n'
        "@triton.jit\ndef all(x, y, z):\n"
        "    at = tl.arange(0, 64)\n    twice = tl.load(x + at) * 2 + 1\n"
        "    tl.store(y + at, twice)\n    tl.store(z + at, twice * 2)\n"
    )
    done = kerncap("verify", "--json", path, "--candidate", "c.py")
    assert done.status == 5 and "changes memory between launches 0 and 1" in done.document["summary"]
