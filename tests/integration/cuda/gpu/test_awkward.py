"""Kernels that no replay repeats bit by bit, or that have nothing to compare: none of them fails."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine

from .captured import TARGETS, Captured, Judge, build, capture, compile_candidate

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]


@dataclass(frozen=True)
class Right:
    """A right answer: its exit status, and words that the reasons or the last line hold."""

    status: int
    words: tuple[str, ...] = ()


_ANSWERS = {
    "kc_clock": Right(5, ("arg2 differs from run to run", "arg3 differs from run to run", "no value of it")),
    "kc_arrival": Right(5, ("arg3 differs from run to run", "no value of it can be judged")),
    "kc_sum": Right(0),
    "kc_own_heap": Right(0),
    "kc_use": Right(5, ("device's malloc",)),
    "kc_print": Right(0, ("what the application printed (1 line)",)),
    "kc_tell": Right(0),
    "kc_empty": Right(5, ("nothing to compare",)),
    "kc_masked": Right(0),
    "kc_zero": Right(0),
    "kc_steered": Right(0),
}


@pytest.fixture(scope="module")
def awkward(kerncap_of_module: CommandLine, judge: Judge) -> Captured:
    captured = capture(
        kerncap_of_module, build("awkward.cu"),
        options=("-k", "|".join(_ANSWERS), "--launch", "0:1"),
    )  # fmt: skip
    captured.target_is_unchanged()
    judge.prepare(captured.one(name) for name in _ANSWERS)
    return captured


@pytest.mark.parametrize("kernel", _ANSWERS)
@pytest.mark.parametrize("verb", ["replay", "verify"])
def test_the_answer_is_right(awkward: Captured, judge: Judge, verb: str, kernel: str) -> None:
    [done] = judge.ask((verb, "--json", str(awkward.one(kernel))))
    right = _ANSWERS[kernel]
    said = done.stdout + done.stderr
    assert done.status == right.status, said
    assert all(word in said for word in right.words), said


@pytest.mark.parametrize("kernel, judged", [("kc_clock", "y[i] = 2"), ("kc_arrival", "y[i] = 3")])
def test_what_can_be_judged_still_is(
    awkward: Captured, judge: Judge, kernel: str, judged: str, tmp_path: Path
) -> None:
    """A candidate that is wrong in the output that every run repeats."""
    path = awkward.one(kernel)
    text = (TARGETS / "awkward.cu").read_text()
    source = tmp_path / "wrong.cu"
    body = text[text.index(f"__global__ void {kernel}(") :]
    source.write_text(body[: body.index("\n}\n") + 3].replace(judged, f"{judged}.5f"))
    judge.rejects(path, compile_candidate(source, awkward.reproducers[path].device.arch))


@pytest.mark.parametrize("text, status", [("printed %d", 0), ("Printed %d", 1), ("printed %d again", 1)])
def test_a_candidate_is_judged_by_what_it_prints(
    awkward: Captured, judge: Judge, text: str, status: int, tmp_path: Path
) -> None:
    path = awkward.one("kc_print")
    source = tmp_path / "prints.cu"
    source.write_text(
        "#include <cstdio>\n__global__ void kc_print(int n) {\n"
        f'  if (!threadIdx.x) printf("{text}\\n", n);\n}}\n'
    )
    candidate = compile_candidate(source, awkward.reproducers[path].device.arch)
    [done] = judge.ask(("verify", "--json", str(path), "--candidate", str(candidate)))
    assert done.status == status, done.stdout + done.stderr


@pytest.mark.parametrize("text, status", [("last is %d", 0), ("the last is %d", 1)])
def test_what_is_printed_counts_beside_what_is_written(
    awkward: Captured, judge: Judge, text: str, status: int, tmp_path: Path
) -> None:
    path = awkward.one("kc_tell")
    source = tmp_path / "tells.cu"
    source.write_text(
        "#include <cstdio>\n__global__ void kc_tell(int* y, int n) {\n"
        "  y[threadIdx.x] = n * static_cast<int>(threadIdx.x);\n"
        f'  if (threadIdx.x == 31) printf("{text}\\n", y[31]);\n}}\n'
    )
    candidate = compile_candidate(source, awkward.reproducers[path].device.arch)
    [done] = judge.ask(("verify", "--json", str(path), "--candidate", str(candidate)))
    assert done.status == status, done.stdout + done.stderr


# Where no other contents show the stores, nothing can be compared: undecided, never a no.
_STORES = {"masked_fill": (0, 5), "FillFunctor": (0,), "clamp": (0, 5), "copy_kernel": (0,)}


@pytest.fixture(scope="module")
def stores(kerncap_of_module: CommandLine) -> Captured:
    program = (sys.executable, TARGETS / "torch_awkward.py", "stores")
    return capture(kerncap_of_module, *program, options=("-k", "|".join(_STORES), "--launch", "0:1"))


@pytest.mark.parametrize("word", _STORES)
def test_what_torch_stores_again_is_judged(stores: Captured, judge: Judge, word: str) -> None:
    [done] = judge.ask(("verify", "--json", str(stores.one(word))))
    assert done.status in _STORES[word], done.stdout + done.stderr


def test_no_kernel_of_a_backward_pass_fails(kerncap_of_module: CommandLine, judge: Judge) -> None:
    """cuDNN's, with scratch that is left in any order: judged, or open by name, each of them."""
    words = "dgrad|wgrad|cudnn|cutlass|nvjet|nhwc|bn_"
    program = (sys.executable, TARGETS / "torch_awkward.py", "backward")
    captured = capture(kerncap_of_module, *program, options=("-k", words, "--launch", "0:1"))
    assert len(captured.reproducers) >= 3, captured.names()
    asked = [("verify", "--json", str(path)) for path in captured.reproducers]
    for (_, _, path), done in zip(asked, judge.ask(*asked), strict=True):
        print(path, done.result_line if "Result" in done.stdout else done.document["summary"])
        assert done.status in (0, 5), f"{path}\n{done.stdout}{done.stderr}"
