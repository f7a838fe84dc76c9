"""Core dumps that driver 580 wrote of an H100, as CUDA-GDB read them there, and of an H200, without memory.

Programs: samples/core_dump.
"""

from __future__ import annotations

import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kerncap.api import from_core
from kerncap.errors import FormatError
from kerncap.report.from_core_text import render
from tests.unit.capture.core_dump.test_reader import mutated
from tests.unit.schemas.strict import check

SAMPLE = Path(__file__).parents[4] / "samples" / "core_dump"
CU, PY = "/tmp/core-sample/fault.cu", "/tmp/core-sample/bad.py"


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dumps")
    for card in ("h100", "h200"):
        with tarfile.open(SAMPLE / f"{card}.tar.xz") as archive:
            archive.extractall(folder if card == "h100" else folder / card, filter="data")
    return folder


def read(path: Path) -> dict[str, Any]:
    document = from_core(path)
    check("from-core", document)
    assert not document["notes"][2:], "nothing in it is unreadable"
    return document


def line_of(text: str, program: str = "fault.cu") -> int:
    """The number of the line of a program that has ``text``."""
    return next(n for n, line in enumerate((SAMPLE / program).read_text().split("\n"), 1) if text in line)


@pytest.mark.parametrize("card", ["", "h200"])
@pytest.mark.parametrize(
    ("name", "exception", "kernel", "function", "offset", "source", "block", "thread", "count"),
    [
        ("illegal", "WARP_ILLEGAL_ADDRESS", "scale", "_Z4pickPKfl", 0x50, "return x[i]", (2, 0, 0), (5, 1, 0),
         32),
        ("assert", "WARP_ASSERT", "checked", "_Z7checkedPfi", 0x1C0, "assert(i", (3, 0, 0), (31, 1, 0), 1),
        ("trap", "TRAP", "trapped", "_Z7trappedPfPVi", 0x170, "__trap()", (2, 0, 0), (2, 0, 0), 1),
        ("triton", "WARP_ILLEGAL_ADDRESS", "gather", "gather", 0x160, "tl.load(x", (5, 0, 0), (60, 0, 0), 32),
    ],
)  # fmt: skip
def test_kernel_thread_and_line(
    dumps: Path, card: str, name: str, exception: str, kernel: str, function: str, offset: int, source: str,
    block: tuple[int, ...], thread: tuple[int, ...], count: int,
) -> None:  # fmt: skip
    document = read(dumps / card / f"{name}.nvcudmp")
    [fault] = document["faults"]
    program = PY if name == "triton" else CU
    assert fault["exception"]["name"] == exception
    assert document["kernels"][fault["kernel"]]["name"] == kernel
    place = fault["place"]
    assert (place["function"], place["offset"], place["file"]) == (function, offset, program)
    assert place["line"] == line_of(source, Path(program).name)
    assert (fault["thread_count"], fault["blocks"]) == (count, 1)
    assert (fault["threads"][0]["block"], fault["threads"][0]["thread"]) == (block, thread)
    assert document["driver"]["version"] == "580.159" and document["devices"][0]["arch"] == "sm_90"
    assert document["command"] == f"kerncap capture --on-fault -k '^{kernel}$' -- CMD"


def test_the_address_its_registers_and_the_call(dumps: Path) -> None:
    """Thread (5, 1, 0) of block 2 is element 165, which reads x + 4 * 2**40."""
    document = read(dumps / "illegal.nvcudmp")
    [fault] = document["faults"]
    x = int.from_bytes(bytes.fromhex(document["kernels"][0]["parameters"][1]["bytes"]), "little")
    assert x == 0x7F7F81E00000, "as the program printed it"
    first, *others = (each["access"] for each in fault["threads"])
    assert first == {"space": "global", "address": x + (4 << 40), "in_dump": False}
    assert sorted(each["address"] for each in others) == [x + 4 * n for n in range(160, 192) if n != 165]
    assert all(each["in_dump"] for each in others)
    state = fault["first_thread"]
    assert (state["sm"], state["warp"], state["lane"]) == (124, 1, 5)
    assert state["registers"][7] == 165
    assert state["predicates"] == (0, 0, 0, 0, 0, 0, 0, 1)
    [call] = state["backtrace"]
    assert (call["function"], call["offset"]) == ("_Z5scalePfPKfif", 0x160)
    assert call["line"] == line_of("pick(x, j)")


def test_memory_and_parameters(dumps: Path) -> None:
    document = read(dumps / "illegal.nvcudmp")
    kinds = Counter(each["kind"] for each in document["memory"])
    assert kinds == {"global": 7, "shared": 1, "local": 1}
    assert document["driver"]["left_out"] == ()
    parameters = [each["bytes"] for each in document["kernels"][0]["parameters"]]
    assert parameters[2:] == ["00010000", "00002040"], "256 and 2.5f"
    assert "global memory" in read(dumps / "assert.nvcudmp")["driver"]["left_out"]


def test_the_address_is_named_without_memory(dumps: Path) -> None:
    """Global memory was left out: the address that is far from the others' comes first."""
    [fault] = read(dumps / "triton.nvcudmp")["faults"]
    first, *others = (each["access"]["address"] for each in fault["threads"])
    assert first - min(others) > 1 << 41 and max(others) - min(others) < 128
    assert fault["threads"][0]["access"]["in_dump"] is None
    [fault] = read(dumps / "h200" / "illegal.nvcudmp")["faults"]
    first, *others = (each["access"]["address"] for each in fault["threads"])
    assert first == min(others) - 4 * 160 + (4 << 40), "x + 4 * 2**40, as in the dump with memory"


@pytest.mark.parametrize("card", ["", "h200"])
def test_a_program_that_hung(dumps: Path, card: str) -> None:
    document = read(dumps / card / "hang.nvcudmp")
    assert document["faults"] == []
    [place] = document["elsewhere"]
    assert (place["thread_count"], place["place"]["kernel"]) == (1, "_Z7hangingPfPVi")
    assert place["place"]["line"] == line_of("*flag == 0) {}")
    page = render(document)
    assert "1 at hanging+0x110" in page and "; 16 registers, 1 thread resident" in page


def test_a_dump_whose_program_ended_before_it_was_written(dumps: Path) -> None:
    with pytest.raises(
        FormatError, match="301 section headers in a file of 68,672 bytes; the dump was cut off"
    ):
        from_core(dumps / "cut-off.nvcudmp")


@pytest.mark.parametrize("name", ["assert", "triton"])
def test_damaged_ones_end_in_one_line(name: str, dumps: Path, tmp_path: Path) -> None:
    whole, path, failed = (dumps / f"{name}.nvcudmp").read_bytes(), tmp_path / "damaged", 0
    for seed in range(60):
        path.write_bytes(mutated(whole, seed))
        try:
            render(from_core(path))
        except FormatError as error:
            failed += "\n" not in str(error)
    assert failed > 20
