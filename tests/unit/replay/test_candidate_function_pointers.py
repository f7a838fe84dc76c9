"""Function pointers in captured memory, and a candidate whose functions have other numbers or addresses."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from kerncap.answer import Answer
from kerncap.api.replay import ReplayOptions, replay
from kerncap.format import Reproducer
from kerncap.replay import candidate_function_pointers
from tests.unit.capture.built_images import cubin

from .native import Native, ptx


def image(launch: Native, meant: int, numbered: tuple[str, ...]) -> bytes:
    """``meant``: what the function that is called by its number writes; 0: it faults."""
    return cubin(
        kernels={"numbered": launch.layout},
        variables=[("meant", ".nv.global.init")],
        content=struct.pack("<Q", meant),
        numbered=numbered,
    )


def captured(numbered: tuple[str, ...] = ("sum", "product")) -> Native:
    launch = Native("numbered").array(np.zeros(1, np.uint64), np.array([7], np.uint64))
    launch.parameter(struct.pack("<Q", 16), 16)
    launch.code = {"cubin": image(launch, 7, numbered)}
    return launch


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize("meant", [8, 0], ids=["differs", "faults"])
@pytest.mark.parametrize(
    ("numbered", "why"),
    [
        (("first", "sum", "product"), "0x8 is sum in the captured code, and first there"),
        (("sum",), "0x10 is product in the captured code, and none there"),
        (("sum", "product"), ""),
        (("sum", "product", "last"), ""),
    ],
)
def test_a_wrong_result_says_nothing_if_numbers_mean_other_functions(
    tmp_path: Path, meant: int, numbered: tuple[str, ...], why: str
) -> None:
    launch = captured()
    file = tmp_path / "candidate.cubin"
    file.write_bytes(image(launch, meant, numbered))
    result = replay(launch.seal(tmp_path), ReplayOptions(timed_runs=0, timeout_s=10.0, candidate=file))
    assert result.answer is (Answer.UNDECIDED if why else Answer.NO), result.verdict.reasons
    assert why in result.verdict.summary


@pytest.mark.parametrize(
    ("instruction", "why"), [(0x7944, ""), (0x7344, "none of these"), (0x7343, "none of these")]
)
def test_a_candidate_without_functions_may_call_by_pointer(
    tmp_path: Path, instruction: int, why: str
) -> None:
    file = tmp_path / "candidate"
    file.write_bytes(cubin(kernels={"numbered": []}, code=struct.pack("<2Q", instruction, 0)))
    with Reproducer.open(captured().seal(tmp_path)) as reproducer:
        told = candidate_function_pointers.doubt(reproducer, file)
    assert bool(told) == bool(why)
    assert why in told


@pytest.mark.usefixtures("stand_in")
def test_a_right_result_is_right_whatever_the_numbers_are(tmp_path: Path) -> None:
    launch = captured()
    file = tmp_path / "candidate.cubin"
    file.write_bytes(image(launch, 7, ("product", "sum")))
    result = replay(launch.seal(tmp_path), ReplayOptions(timed_runs=0, timeout_s=10.0, candidate=file))
    assert result.answer is Answer.YES, result.verdict.reasons


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        (cubin(kernels={"numbered": []}, numbered=("sum", "product")), ""),
        (cubin(kernels={"numbered": []}, numbered=("sum", "product"))[:-70], "is not known"),
        (ptx("numbered", [8, 8]), ""),
        (ptx("numbered", [8, 8]) + b".callprototype", "is not known"),
        (b"\x50\xed\x55\xba", "is not known"),  # a fatbin
    ],
    ids=["equal", "cut", "ptx", "ptx that calls by pointer", "fatbin"],
)
def test_what_an_image_tells(tmp_path: Path, candidate: bytes, why: str) -> None:
    file = tmp_path / "candidate"
    file.write_bytes(candidate)
    with Reproducer.open(captured().seal(tmp_path)) as reproducer:
        told = candidate_function_pointers.doubt(reproducer, file)
    assert bool(told) == bool(why)
    assert why in told


def test_a_linked_candidate_has_the_words_that_are_put_right(tmp_path: Path) -> None:
    def linked(variable: str, functions: tuple[str, ...]) -> bytes:
        return cubin(
            kernels={"numbered": []}, variables=[(variable, ".nv.global.init")], content=bytes(16),
            functions=functions,
        )  # fmt: skip

    launch = captured()
    launch.code = {"cubin": linked("table", ("a", "b"))}
    file = tmp_path / "candidate"
    with Reproducer.open(launch.seal(tmp_path)) as reproducer:
        for candidate, why in (
            (linked("table", ("b", "a")), ""),
            (linked("table", ("a",)), "none at byte 8 of table"),
            (linked("other", ("a", "b")), "none at byte 0 of table"),
        ):
            file.write_bytes(candidate)
            told = candidate_function_pointers.doubt(reproducer, file)
            assert bool(told) == bool(why)
            assert why in told
