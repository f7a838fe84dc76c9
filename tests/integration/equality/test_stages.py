"""`kerncap prove REPRO --stages`: Triton's passes keep the function, or the one that does not is named."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kerncap.api.compiled_stages import CompiledStages, State, compile_stages
from kerncap.api.prove.proof_words import of_passes, said
from kerncap.api.prove.stages import of_stages
from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine
from tests.unit.replay.build import Launch

TARGET = "cuda:90"
N = 32
# On this target a product of shared memory, which the compiler has to transpose one operand for.
PRODUCT = """@triton.jit
def product(x, y, out, n):
    rows, columns = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    left = tl.load(x + rows * 32 + columns, rows < n, 0.0)
    right = tl.load(y + rows * 32 + columns, columns < n, 0.0)
    total = tl.dot(left, tl.trans(right)) * 2.5 / 3.0
    tl.store(out + rows * 32 + columns, total - tl.sum(total, 1)[:, None], rows < n)
"""
PIPELINED = """@triton.jit
def product(x, y, out, n):
    rows, columns = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    total = tl.zeros((32, 32), tl.float32)
    for k in range(0, n, 32):
        left, right = tl.load(x + rows * 64 + columns + k), tl.load(y + rows * 64 + columns + k)
        total = tl.dot(left, right, total)
    tl.store(out + rows * 32 + columns, total)
"""


def captured(parent: Path, text: str, n: int) -> Path:
    values = np.ones((N, 2 * N), np.float16)
    launch = Launch(text, "product").tensor("x", values).tensor("y", values)
    return launch.tensor("out", np.zeros((N, N), np.float32)).argument("n", n).seal(parent)


@pytest.fixture(scope="module")
def repro(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return captured(tmp_path_factory.mktemp("stages"), PRODUCT, 20)


@pytest.fixture(scope="module")
def compiled(repro: Path) -> CompiledStages:
    with Reproducer.open(repro) as reproducer:
        return compile_stages(reproducer, TARGET, reproducer.source_text() or "", None)


def test_all_passes_keep_the_function(kerncap: CommandLine, repro: Path) -> None:
    done = kerncap("prove", repro, "--stages", "--trust", "--json")
    assert done.status == 0, done.stdout + done.stderr
    document = done.document
    assert document["b"] is None and document["elements"] == 20 * N
    assert document["passes"] == {"compared": "TTGIR", "guilty": [], "not_modelled": []}
    assert any("waits and barriers are not looked at" in one for one in document["not_shown"])
    assert document["shown"][0].startswith(
        "PROVED equal over the reals, for all float values, at these sizes"
    )


@pytest.mark.long
def test_a_pipelined_loop(tmp_path: Path) -> None:
    with Reproducer.open(captured(tmp_path, PIPELINED, 64)) as reproducer:
        compiled = compile_stages(reproducer, TARGET, reproducer.source_text() or "", None)
        text, states = compiled.texts["ttgir"], compiled.states["ttgir"]
        assert "async_copy_global_to_local" in text
        found = of_stages(reproducer, TARGET, compiled)
        assert found.proof.equal and found.reached == "TTGIR" and not found.guilty, found.proof.reason
        # A slot is read one turn too early.
        wrong = re.sub("cmpi sge", "cmpi sgt", text)
        assert wrong != text
        wrong_slots = replace(compiled, texts={**compiled.texts, "ttgir": wrong})
        assert of_stages(reproducer, TARGET, wrong_slots).proof.equal is not True
        # Nothing is said of what comes after an operation that is not modelled.
        unread = [State(one.passed, one.text.replace("ttg.async_wait", "ttg.wait")) for one in states]
        texts = {**compiled.texts, "ttgir": text.replace("ttg.async_wait", "ttg.wait")}
        found = of_stages(
            reproducer, TARGET, replace(compiled, texts=texts, states={**compiled.states, "ttgir": unread})
        )
    assert found.proof.equal and found.unread[0] == "tritongpu-pipeline", found.unread
    assert found.reached == "what tritongpu-pipeline is given"
    words = said(found.proof, "TTIR", found.reached)
    of_passes(words, found)
    assert words.result == "undecided" and "PROVED equal" in words.shown[0]
    assert "tritongpu-pipeline brings in what is not modelled; equal before it" in words.reasons[0]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (r"dense<2\.500000e\+00>", "dense<2.000000e+00>"),  # a constant
        pytest.param(r"(tt\.store %\S+, %\S+), %\S+ :", r"\1 :", marks=pytest.mark.long),  # no mask
        pytest.param(r"(trans .*order = array<i32: )1, 0>", r"\g<1>0, 1>", marks=pytest.mark.long),
        pytest.param(r"arith\.cmpi slt", "arith.cmpi sle", marks=pytest.mark.long),
        pytest.param(r"tt\.reduce\"(.*)axis = 1", 'tt.reduce"\\1axis = 0', marks=pytest.mark.long),
    ],
)
def test_a_pass_that_changes_it_is_named(
    repro: Path, compiled: CompiledStages, right: str, wrong: str
) -> None:
    states = compiled.states["ttgir"]
    first = next(number for number, one in enumerate(states) if re.search(right, one.text))
    at = (first + len(states)) // 2  # given the wrong text; the pass before it made it wrong
    broken = [
        one if number < at else State(one.passed, re.sub(right, wrong, one.text))
        for number, one in enumerate(states)
    ]
    final = re.sub(right, wrong, compiled.texts["ttgir"])
    assert final != compiled.texts["ttgir"] and broken[at].text != states[at].text
    with Reproducer.open(repro) as reproducer:
        found = of_stages(
            reproducer, TARGET,
            replace(
                compiled, texts={**compiled.texts, "ttgir": final},
                states={**compiled.states, "ttgir": broken},
            ),
        )  # fmt: skip
    assert found.proof.equal is False and found.guilty == (states[at - 1].passed,), found.proof.reason


def test_other_kernels_are_not_given_with_it(kerncap: CommandLine, repro: Path) -> None:
    done = kerncap("prove", repro, repro, "--stages")
    assert done.status == 2 and "--stages: " in done.stderr
    done = kerncap("prove", repro)
    assert done.status == 2 and "give another one to compare it with, or --stages" in done.stderr
