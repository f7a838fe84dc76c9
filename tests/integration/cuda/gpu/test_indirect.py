"""Function pointers, virtual tables, and kernels that launch kernels.

In a program of one compilation a function's address is a number; if its objects are linked, it is where the
driver put the code, and the words that hold it are others in a replay.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine

from .captured import TARGETS, Captured, Judge, build, capture

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

_KERNELS = ("kc_table", "kc_constant", "kc_passed", "kc_take", "kc_stored", "kc_make", "kc_virtual")
_LINKED = ("-rdc=true", "-DLAUNCHES_ON_DEVICE")


@pytest.fixture(scope="module")
def programs(kerncap_of_module: CommandLine, judge: Judge) -> dict[str, Captured]:
    made = {}
    for name, options in (("whole", ()), ("linked", _LINKED)):
        program = build("indirect.cu", options=options)
        made[name] = capture(kerncap_of_module, program, options=("-k", "kc_", "--launch", "0:1"))
    judge.prepare(path for captured in made.values() for path in captured.reproducers)
    return made


def test_the_programs_notice_nothing(programs: dict[str, Captured]) -> None:
    for captured in programs.values():
        captured.target_is_unchanged()
        assert captured.plain.status == 0, captured.plain.stderr


@pytest.mark.parametrize("kernel", _KERNELS)
def test_a_program_of_one_compilation(programs: dict[str, Captured], judge: Judge, kernel: str) -> None:
    [done] = judge.ask(("verify", "--json", str(programs["whole"].one(kernel))))
    assert done.status == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kernel", [*_KERNELS, "kc_parent"])
def test_a_program_that_was_linked(programs: dict[str, Captured], judge: Judge, kernel: str) -> None:
    [done] = judge.ask(("verify", "--json", str(programs["linked"].one(kernel))))
    assert done.status == 0, done.stdout + done.stderr
    assert done.document["exact"], done.stdout


_ALL = (TARGETS / "indirect.cu").read_text().replace('#include "check.h"\n', "")
_ALL = _ALL[: _ALL.index("#ifdef LAUNCHES_ON_DEVICE")]
_FIRST = """
__device__ float first(float a, float b) {
  return a - b;
}
__device__ Operation firsts[1] = {first};
__global__ void kc_first(float* x, int which) {
  x[0] = firsts[which](x[0], 1);
}
"""
_ONE_MORE = _ALL.replace("__constant__", f"{_FIRST}__constant__")
_ALONE = "typedef float (*Operation)(float, float);\n" + _ALL[_ALL.index("__global__ void kc_stored") :]
_ALONE = _ALONE[: _ALONE.index("\n}\n") + 3]


@pytest.mark.parametrize(
    "candidate, status, why",
    [
        (_ALL, (0,), ""),
        (_ALL.replace("[threadIdx.x], 5)", "[threadIdx.x], 6)"), (1,), ""),
        (_ONE_MORE, (0, 5), "in the captured code, and"),  # the compiler's order of functions is its own
        (_ALONE, (5,), "the candidate has none of these"),
    ],
    ids=["the same", "wrong", "one function more", "no functions"],
)
def test_a_candidate_whose_functions_have_other_numbers(
    programs: dict[str, Captured],
    judge: Judge,
    tmp_path: Path,
    candidate: str,
    status: tuple[int, ...],
    why: str,
) -> None:
    """It may be right in the program that it is for: never a no."""
    source = tmp_path / "candidate.cu"
    source.write_text(candidate)
    path = programs["whole"].one("kc_stored")
    [done] = judge.ask(("verify", "--json", str(path), "--candidate", str(source)))
    assert done.status in status, done.stdout + done.stderr
    assert done.status == 0 or why in done.document["summary"]
