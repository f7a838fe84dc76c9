"""`kerncap prove A B`: two reproducers, one and a source, two sources; and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kerncap.api.prove import ProveOptions, ProveResult, prove
from kerncap.errors import UsageError
from tests.integration.conftest import CommandLine
from tests.unit.replay.build import HEADER, Launch

SQUARES = """@triton.jit
def squares(x, index, out, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + tl.load(index + i, i < n), i < n)
    tl.store(out + i, scale * (value * value - 1), i < n)
"""
FACTORS = """@triton.jit
def factors(result, source, places, count, factor, SIZE: tl.constexpr):
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    value = tl.load(source + tl.load(places + i, i < count), i < count)
    tl.store(result + i, (value - 1) * (factor * value + factor), i < count)
"""
N = 100
X = np.arange(N, dtype=np.float32) / 7
INDEX = (np.arange(N, dtype=np.int64) * 7) % N
Y = (2.5 * (X * X - 1)).astype(np.float32)[INDEX]


def squares(parent: Path, n: int = N, scale: float = 2.5, index: np.ndarray = INDEX) -> Path:  # type: ignore[type-arg]
    launch = Launch(SQUARES, "squares", (2, 1, 1)).tensor("x", X).tensor("index", index)
    launch.tensor("out", np.zeros(N, np.float32), Y).argument("n", n).argument("scale", scale)
    return launch.constexpr("BLOCK", 64).seal(parent)


def factors(parent: Path, count: int = N, x: np.ndarray = X) -> Path:  # type: ignore[type-arg]
    launch = Launch(FACTORS, "factors").tensor("result", np.zeros(N, np.float32), Y).tensor("source", x)
    launch.tensor("places", INDEX).argument("count", count).argument("factor", 2.5)
    return launch.constexpr("SIZE", 128).seal(parent)


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(HEADER + text)
    return path


def shown(result: ProveResult) -> str:
    return "\n".join([*result.words.shown, *result.words.not_shown, *result.words.reasons])


@pytest.fixture
def repro(tmp_path: Path) -> Path:
    return squares(tmp_path / "captured")


def test_a_source_on_the_launch_of_a_reproducer(kerncap: CommandLine, repro: Path, tmp_path: Path) -> None:
    good = written(tmp_path, "good.py", SQUARES.replace("value * value - 1", "(value + 1) * (value - 1)"))
    done = kerncap("prove", repro, good, "--trust")
    assert done.status == 0, done.stdout + done.stderr
    assert f"squares of {repro.name} and squares of good.py, on the launch of {repro.name}" in done.stdout
    assert "  shown: PROVED equal over the reals, for all float values, at these sizes" in done.stdout
    assert done.result_line == "Result: PASS (equal over the reals)"
    bad = written(tmp_path, "bad.py", "# kerncap: BLOCK=32 grid=4\n" + SQUARES.replace("- 1)", "+ 1)"))
    done = kerncap("prove", bad, repro)
    assert done.status == 1
    assert f"element 0 of out is 0 in {repro.name} and 5 in bad.py" in done.result_line


def test_two_sources_need_a_launch(kerncap: CommandLine, repro: Path, tmp_path: Path) -> None:
    one = written(tmp_path, "one.py", SQUARES)
    other = written(
        tmp_path, "other.py", SQUARES.replace("scale * (value * value - 1)", "scale * value * value")
    )
    assert kerncap("prove", one, one, "--launch", repro).status == 0
    done = kerncap("prove", one, other, "--launch", repro, "--json")
    assert done.status == 1
    assert done.document["launch"] == str(repro) and done.document["witness"]["tensor"] == "out"
    done = kerncap("prove", one, other)
    assert done.status == 2
    assert done.stderr.endswith("two sources, and no launch of them; give a reproducer with --launch REPRO\n")
    with pytest.raises(UsageError, match="has its own; leave it out"):
        prove(one, repro, ProveOptions(launch=repro))


def test_what_is_not_modelled_is_named_by_its_own_file(repro: Path, tmp_path: Path) -> None:
    bits = SQUARES.replace("value * value", "value.to(tl.int32, bitcast=True)")
    found = prove(repro, written(tmp_path, "bits.py", bits))
    assert found.proof.equal is None
    assert "not proved: tt.bitcast at bits.py:9: not modelled, the bits of a float" in shown(found)


def test_two_reproducers_with_names_of_their_own(repro: Path, tmp_path: Path) -> None:
    other = factors(tmp_path)
    found = prove(repro, other)
    assert found.passed, shown(found)
    assert found.matched == [("x", "source"), ("index", "places"), ("out", "result")]
    assert f"assumed: source of {other.name} is x of {repro.name}" in shown(found)
    assert ", for the floats that are passed," in shown(found)
    named = prove(repro, other, ProveOptions(same={"scale": "factor"}))
    assert named.passed and ", for the floats that are passed," not in shown(named)
    wrong = prove(repro, other, ProveOptions(same={"x": "result", "out": "source"}))
    assert wrong.proof.equal is not True


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n": 99}, "n: it is 100 in .* and 99 in .*; capture both with the same numbers"),
        ({"scale": 2.0}, "scale: it is 2.5 in .* and 2.0 in"),
        ({"index": INDEX.astype(np.int32)}, r"index: it is int64\[100\] at byte 0 of 800 in .* int32\[100\]"),
    ],
)
def test_other_sizes_and_numbers_are_refused(
    repro: Path, tmp_path: Path, change: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        prove(repro, squares(tmp_path, **change))  # type: ignore[arg-type]


def test_other_integers_are_said(repro: Path, tmp_path: Path) -> None:
    found = prove(repro, squares(tmp_path, index=INDEX[::-1]))
    assert found.passed
    assert "assumed: index holds other integers in" in shown(found)


def test_same_names_what_there_is(repro: Path, tmp_path: Path) -> None:
    other = factors(tmp_path)
    with pytest.raises(UsageError, match=f"--same: {other.name} has no argument y; there are result, source"):
        prove(repro, other, ProveOptions(same={"x": "y"}))
    with pytest.raises(UsageError, match="leave it out"):
        prove(repro, written(tmp_path, "s.py", SQUARES), ProveOptions(same={"x": "x"}))


def test_what_only_one_stores_to_is_said(repro: Path, tmp_path: Path) -> None:
    more = SQUARES.replace("n, scale", "sums, n, scale") + "    tl.store(sums + i, value, i < n)\n"
    launch = Launch(more, "squares", (2, 1, 1)).tensor("x", X).tensor("index", INDEX)
    launch.tensor("out", np.zeros(N, np.float32), Y).tensor("sums", np.zeros(N, np.float32), X)
    launch.argument("n", N).argument("scale", 2.5).constexpr("BLOCK", 64)
    other = launch.seal(tmp_path)
    found = prove(repro, other)
    assert found.passed
    assert f"what is left in sums, stored to only by {other.name}" in shown(found)


def test_the_bits_of_floats_are_no_integers(repro: Path, tmp_path: Path) -> None:
    """Nothing is known of them: at the captured values both kernels store the same."""
    value = "    value = tl.load(x + tl.load(index + i, i < n), i < n)\n"
    constant = SQUARES.replace(value, "").replace("scale * (value * value - 1)", "0.0")
    word = value.replace("x +", "x.to(tl.pointer_type(tl.int32)) +")
    bits = SQUARES.replace(value, word).replace(
        "scale * (value * value - 1)", "tl.where(value == -1, 1.0, 0.0)"
    )
    names = written(tmp_path, "a.py", constant), written(tmp_path, "b.py", bits)
    found = prove(*names, ProveOptions(launch=repro))
    assert found.proof.equal is None
    assert "x holds floats, which are taken for integers" in shown(found)


def test_two_types_of_one_memory(repro: Path, tmp_path: Path) -> None:
    half = SQUARES.replace("x + tl.load", "x.to(tl.pointer_type(tl.float16)) + tl.load").replace(
        "i < n)\n    tl.store", "i < n).to(tl.float32)\n    tl.store"
    )
    found = prove(repro, written(tmp_path, "half.py", half))
    assert found.proof.equal is None
    assert "they take x for different types" in shown(found)


GATHER = """@triton.jit
def gather(x, index, mid, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(mid + i, tl.load(x + tl.load(index + i, i < n), i < n), i < n)
"""
FINISH = """@triton.jit
def finish(mid, out, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(mid + i, i < n)
    tl.store(out + i, scale * (value * value - 1), i < n)
"""
MID, OUT = 0x7F0000000000, 0x7F0000100000


def in_two(parent: Path, mid: np.ndarray = X[INDEX], finish: str = FINISH) -> tuple[Path, Path]:  # type: ignore[type-arg]
    """``mid``: what the second begins with; ``finish``: its source."""
    empty = np.zeros(N, np.float32)
    first = Launch(GATHER, "gather", (2, 1, 1)).tensor("x", X).tensor("index", INDEX)
    first.tensor("mid", empty, X[INDEX], MID).argument("n", N).constexpr("BLOCK", 64)
    second = Launch(finish, "finish", (2, 1, 1))
    if finish == FINISH:
        second.tensor("mid", mid, base=MID).tensor("out", empty, Y, OUT)
    else:
        second.tensor("mid", mid, Y, base=MID)
    second.argument("n", N).argument("scale", 2.5)
    return first.seal(parent / "first"), second.constexpr("BLOCK", 64).seal(parent / "second")


def test_one_launch_and_two(kerncap: CommandLine, repro: Path, tmp_path: Path) -> None:
    first, second = in_two(tmp_path)
    done = kerncap("prove", repro, first, second, "--trust")
    assert done.status == 0, done.stdout + done.stderr
    assert f"squares of {repro.name} and gather and finish of {first.name} and {second.name}" in done.stdout
    assert f"what is left in mid, stored to only by {first.name} and {second.name}" in done.stdout
    assert kerncap("prove", repro, second, first).status == 2  # the second does not begin with zeros
    alone = prove(repro, second)
    assert alone.proof.equal is not True


def test_launches_that_do_not_follow_each_other_are_refused(repro: Path, tmp_path: Path) -> None:
    first, second = in_two(tmp_path, mid=X[INDEX] + 1)
    with pytest.raises(UsageError, match="mid does not begin with what .* left in it; give all launches"):
        prove(repro, first, ProveOptions(then=(second,)))
    with pytest.raises(UsageError, match="several B, and a source among the kernels; give reproducers only"):
        prove(repro, first, ProveOptions(then=(written(tmp_path, "finish.py", FINISH),)))


def test_a_result_that_is_left_in_place(kerncap: CommandLine, tmp_path: Path) -> None:
    in_place = FINISH.replace("mid, out", "mid").replace("out + i", "mid + i")
    apart, here = in_two(tmp_path / "apart")[1], in_two(tmp_path / "here", finish=in_place)[1]
    assert prove(apart, here, ProveOptions(trust=True)).proof.equal is False  # of what is left in mid
    done = kerncap("prove", apart, here, "--result", "out=mid", "--trust")
    assert done.status == 0, done.stdout + done.stderr
    assert f"  not shown: assumed: what {here.name} leaves in mid is the out of {apart.name}" in done.stdout
    unknown = kerncap("prove", apart, here, "--result", "out=y")
    assert unknown.status == 2
    assert f"--result: {here.name} has no argument y; there are mid, n, scale" in unknown.stderr
