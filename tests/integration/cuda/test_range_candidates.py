"""CUDA C++ sources with launch lines, in place of launches of a range, on the stand-in driver.

It runs the kernels that it knows by name, so the candidates have those, and pass them memory and numbers.
"""

from __future__ import annotations

from typing import Any

import pytest

from kerncap.api.range_candidate import opened_candidate
from kerncap.api.verify.verify_result import VerifyOptions, VerifyResult
from kerncap.replay import candidates
from kerncap.replay.engine import CANDIDATE, ORIGINAL
from kerncap.replay.pool import Pool
from kerncap.replay.verdict import judge_timed
from kerncap.replay.verdict_words import BY_DTYPE
from tests.integration.cuda.conftest import Bench, Captured

# For the launches 1 and 2 of the client: sum = a + b, and sum *= 3.
THE_SAME = """
// kerncap: replaces 0:2
// kerncap: launch vector_add<<<8, 128>>>(0.arg0, 0.arg1, 0.arg2, 0.arg3)
// kerncap: launch scale_in_place<<<8, 128>>>(1.arg0, 1.arg1, 1000)
__global__ void vector_add(const float* a, const float* b, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}
__global__ void scale_in_place(float* values, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] *= factor;
}
"""


@pytest.fixture
def chain(bench: Bench) -> Captured:
    if isinstance(found := candidates.tools.nvcc(), str):
        pytest.skip(found)
    return bench.capture("--launches", "1:4", client=("chain",))


def verified(bench: Bench, captured: Captured, candidate: str, *options: str) -> dict[str, Any]:
    (bench.kerncap.folder / "c.cu").write_text(candidate)
    return bench.judge(captured.path, "--candidate", "c.cu", *options)


@pytest.mark.parametrize("options", [(), pytest.param(("--hostile",), marks=pytest.mark.long)])
def test_one_that_does_the_same_passes(bench: Bench, chain: Captured, options: tuple[str, ...]) -> None:
    found = verified(bench, chain, THE_SAME, *options)
    assert (found["result"], found["engine"]) == ("pass", "binary"), found
    [note] = [each for each in found["notes"] if "in place of" in each]
    assert note == "vector_add, scale_in_place in place of launches 0 (vector_add), 1 (scale_in_place)"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("1.arg1, 1000", "2.5f, 1000", "0.arg2: "),
        ("1.arg1, 1000", "3.0, 999", "0.arg2[999]"),  # in C++, a double for a float parameter is converted
        ("(1.arg0, ", "(0.arg1, ", "0.arg"),
        ("1.arg1, 1000", "1.arg1", "takes 3 arguments (values, factor, n), 2 are passed"),
        ("launch scale_in_place", "launch scaled", "the source has scale_in_place, vector_add"),
        ("launch scale_in_place", "launch _Z14scale_in_placePffi", ""),
    ],
)
def test_others(bench: Bench, chain: Captured, old: str, new: str, said: str) -> None:
    assert old in THE_SAME
    found = verified(bench, chain, THE_SAME.replace(old, new))
    assert found["result"] == ("fail" if said else "pass") and said in found["summary"], found


def test_the_numbers_of_a_source_are_searched(bench: Bench, chain: Captured) -> None:
    """Of fewer threads than elements the result is wrong; a quotient with a rest is no launch."""
    (bench.kerncap.folder / "c.cu").write_text(
        "#define THREADS 256\n" + THE_SAME.replace("<<<8, 128>>>", "<<<4, THREADS>>>", 1)
        .replace("<<<8, 128>>>", "<<<1024 / THREADS, THREADS>>>")
    )  # fmt: skip
    options = ("--candidate", "c.cu", "--bound", "THREADS=128:1024", "--apply")
    found = bench("tune", "--json", chain.path, *options).document
    states = {trial["point"]["THREADS"]: trial["state"] for trial in found["trials"]}
    assert states[128] == "wrong" and {states[each] for each in (256, 512, 1024)} <= {"timed", "slow"}, found
    assert found["result"] == "pass" and found["engine"] == "binary", found
    best = found["shapes"][0]["best"]["config"]["THREADS"]
    assert any(note.startswith(f"verify says pass of THREADS={best}: ") for note in found["notes"]), found
    assert best == 256 or f"+#define THREADS {best}\n" in found["patch"], found["patch"]


def test_rows_of_launches_are_timed_as_one(
    bench: Bench, chain: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bench.rig.environment().items():
        monkeypatch.setenv(name, value)
    candidate = bench.kerncap.folder / "c.cu"
    candidate.write_text(THE_SAME)
    options = VerifyOptions(candidate=candidate, trust=True)
    with Pool() as pool, opened_candidate(chain.path, options, (), pool) as found:
        assert not isinstance(found, VerifyResult)
        engine, measured = found.engine, found.measured
        engine.load_candidate(candidate)
        engine.restore()
        times = engine.interleaved([ORIGINAL, CANDIDATE], 3, sorted(measured.written))
        assert [len(times[which]) for which in (ORIGINAL, CANDIDATE)] == [3, 3]
        # Each row was run as a whole, the last launch too: that is what a verdict on its memory says.
        assert judge_timed(engine, measured, CANDIDATE, BY_DTYPE).passed


def test_what_something_else_changes_in_between(bench: Bench, chain: Captured) -> None:
    found = verified(bench, chain, THE_SAME.replace("0:2", "0:3"))
    assert found["result"] == "undecided", found
    assert "changes memory between launches 1 and 2" in found["summary"]
