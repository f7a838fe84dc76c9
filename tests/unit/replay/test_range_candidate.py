"""What a file for several launches says of itself is read as data, and wrong data end in one line."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kerncap.errors import UsageError
from kerncap.replay.byte_effects import Measured
from kerncap.replay.ranges.as_one import measured_as_one
from kerncap.replay.ranges.candidate import CandidateLaunch, read
from kerncap.replay.ranges.joined_memory import Place
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.failures import Refused
from kerncap.replay.worker.native.passed_values import packed
from kerncap.replay.worker.protocol import KernelOfSource

ONE = '{"kernel": "k", "grid": [4], "arguments": {"x": "0.x", "n": 3}}'


def module(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "fused.py"
    path.write_text(text)
    return path


def test_what_it_launches(tmp_path: Path) -> None:
    text = (
        'REPLACES: str = "1:3"\n'
        'LAUNCHES = [{"kernel": "k", "grid": 4, "options": {"num_warps": 8},'
        ' "arguments": {"x": "1.x", "n": 3, "mode": "mean", "none": None}}]\n'
    )
    found = read(module(tmp_path, text), 5)
    assert (found.first, found.last) == (1, 2)
    arguments = {"x": "1.x", "n": 3, "mode": "mean", "none": None}
    [launch] = found.launches
    assert launch == CandidateLaunch("LAUNCHES[0]", "k", (4, 1, 1), arguments, {"num_warps": 8})


def test_all_launches_are_replaced_unless_it_says_which(tmp_path: Path) -> None:
    found = read(module(tmp_path, f"LAUNCHES = ({ONE},)"), 5)
    assert (found.first, found.last) == (0, 4)


def test_it_is_not_executed(tmp_path: Path) -> None:
    left = tmp_path / "left"
    path = module(tmp_path, f"open({str(left)!r}, 'w')\nLAUNCHES = [{ONE}]\nimport nothing_of_this_name")
    assert read(path, 1).launches[0].kernel == "k"
    assert not left.exists()


@pytest.mark.parametrize(
    "text, said",
    [
        ("x = 1", "no LAUNCHES"),
        ("LAUNCHES = [", "line 1: not Python"),
        ("LAUNCHES = '\0'", "not Python"),
        (f"LAUNCHES = {'[' * 5000}{']' * 5000}", "fused.py"),
        ("LAUNCHES = []", "1 to 1,024 launches"),
        ("LAUNCHES = made()", "line 1: LAUNCHES is not a literal"),
        ("LAUNCHES: list", "LAUNCHES is not a literal"),
        (f"LAUNCHES = [{ONE}]\nLAUNCHES = []", "line 2: LAUNCHES is assigned twice"),
        (f"LAUNCHES = [{ONE}]\nREPLACES = '0:9'", "REPLACES '0:9'"),
        (f"LAUNCHES = [{ONE}]\nREPLACES = '2:2'", "launches N to M-1 of 5"),
        (f"LAUNCHES = [{ONE}]\nREPLACES = 3", "REPLACES 3"),
        ("LAUNCHES = ['k']", "LAUNCHES[0]: expected a dict"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': 1}]", "expected a dict of kernel, grid, arguments"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': 1, 'arguments': {}, 'block': 3}]", "expected a dict of kernel"),
        ("LAUNCHES = [{'kernel': 'a b', 'grid': 1, 'arguments': {}}]", "the name of a function"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': [1, 1, 1, 1], 'arguments': {}}]", "one to three integers"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': [True], 'arguments': {}}]", "one to three integers"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': [0], 'arguments': {}}]", "programs"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': [65536, 65536], 'arguments': {}}]", "programs"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': 1, 'arguments': {1: 2}}]", "values by parameter"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': 1, 'arguments': {'x': [1]}}]", "argument x"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': 1, 'arguments': {}, 'options': {'warps': 1}}]", "num_warps"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': 1, 'arguments': {}, 'options': {'num_warps': 0}}]", "integers"),
    ],
)  # fmt: skip
def test_what_is_said_wrongly(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(module(tmp_path, text), 5)
    assert said in str(raised.value) and "\n" not in str(raised.value), raised.value


def source(tmp_path: Path, *said: str) -> Path:
    path = tmp_path / "fused.cu"
    path.write_text("#include <x>\n" + "".join(f"// kerncap: {each}\n" for each in said))
    return path


def test_what_a_source_launches(tmp_path: Path) -> None:
    path = source(
        tmp_path,
        "replaces 1:3",
        "launch ours::k<<<dim3(2, 3), 128, 0x40>>>(1.x, -2,\n  //   1e-6f, .5, 2.0, true, nullptr);",
        "launch _Z1kPf<<<7, dim3(8, 8, 2)>>>()",
    )
    found = read(path, 5)
    assert (found.first, found.last, found.text) == (1, 2, path.read_bytes())
    passed = {"1": "1.x", "2": -2, "3": 1e-6, "4": 0.5, "5": 2.0, "6": True, "7": None}
    assert found.launches == (
        CandidateLaunch("line 3", "ours::k", (2, 3, 1), passed, {}, (128, 1, 1), 64),
        CandidateLaunch("line 5", "_Z1kPf", (7, 1, 1), {}, {}, (8, 8, 2), 0),
    )


def test_a_shape_follows_what_the_file_defines(tmp_path: Path) -> None:
    path = tmp_path / "fused.cu"
    path.write_text(
        "#define ROWS 4\n# define THREADS (64u)  // of a block\n#define TWICE 1\n#define TWICE 2\n"
        "// kerncap: launch k<<<dim3(64/ROWS * 3, 2), THREADS * 2, 16*THREADS * ROWS / 2>>>()\n"
    )
    [launch] = read(path, 5).launches
    assert (launch.grid, launch.block, launch.shared_bytes) == ((48, 2, 1), (128, 1, 1), 2048)
    for shape in ("10 / ROWS", "TWICE", "ROWS ROWS", "/ ROWS", "ROWS *", "THREADS / 0", "ROWS + 1", "* 2"):
        with pytest.raises(UsageError, match=r"block .*: expected a number"):
            read(source(tmp_path, f"launch k<<<1, {shape}>>>()\n#define ROWS 4\n#define THREADS 64"), 5)


@pytest.mark.parametrize(
    "line, said",
    [
        ("lauch k<<<1, 1>>>()", "expected `replaces N:M`, or `launch KERNEL<<<"),
        ("launch k<<<1>>>()", "expected <<<GRID, BLOCK>>> or"),
        ("launch k<<<1, 1, 0, s>>>()", "a stream"),
        ("launch k<<<n / 2, 1>>>()", "grid n / 2: expected a number, or dim3(X, Y, Z)"),
        ("launch k<<<dim3(1, 2, 3, 4), 1>>>()", "grid dim3(1, 2, 3, 4): expected"),
        ("launch k<<<1, 0>>>()", "block 0: expected"),
        ("launch k<<<1, 010>>>()", "block 010: expected"),  # octal in C++
        ("launch k<<<1, 1025>>>()", "block: expected 1 to 1,024 threads"),
        ("launch k<<<dim3(99999, 99999), 1>>>()", "grid: expected 1 to 2,147,483,647 blocks"),
        ("launch k<<<1, 1, -4>>>()", "shared memory -4: expected a number of bytes"),
        ("launch k<<<1, 1>>>(0.x, , 2)", "argument 2, : expected K.NAME"),
        ("launch k<<<1, 1>>>(0.x, n)", "argument 2, n: expected K.NAME"),
        ("launch k<<<1, 1>>>(0.x + 4)", "argument 1, 0.x + 4: expected K.NAME"),
        ("launch k<<<1, 1>>>(0.x", "expected `replaces N:M`, or"),
        ("replaces 0:9", "REPLACES '0:9': expected"),
        ("replaces 0:1\n// kerncap: replaces 0:1", "a second `replaces`"),
    ],
)
def test_lines_that_say_no_launch(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(source(tmp_path, line), 5)
    assert said in str(raised.value) and len(str(raised.value).splitlines()) == 1


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "fused.cubin"
    path.write_bytes(b"\x7fELF")
    with pytest.raises(UsageError, match=r"is one of \.cc, \.cpp, \.cu, \.cxx, \.hip, \.py"):
        read(path, 5)


Passed = tuple[str, Any, str, int]  # the argument's kind and value, the parameter's type and size


@pytest.mark.parametrize(
    "passed, expected",
    [
        (("int", "-2", "int32", 4), "feffffff"),
        (("int", "3", "float32", 4), "00004040"),
        (("int", "4294967295", "uint32", 4), "ffffffff"),
        (("float", (2.0).hex(), "int64", 8), "0200000000000000"),
        (("float", (1.5).hex(), "float16", 2), "003e"),
        (("float", (1.5).hex(), "bfloat16", 2), "c03f"),
        (("float", "inf", "float32", 4), "0000807f"),
        (("bool", True, "bool", 1), "01"),
        (("int", "1", "bool", 1), "01"),
        (("int", "5", "", 2), "0500"),
        (("float", (1.5).hex(), "", 8), "000000000000f83f"),
        (("none", None, "*", 8), "0000000000000000"),
    ],
)
def test_numbers_become_what_the_parameter_is(passed: Passed, expected: str) -> None:
    assert _packed(passed).hex() == expected


@pytest.mark.parametrize(
    "passed, said",
    [
        (("float", (1.5).hex(), "int32", 4), "1.5 is not an int32"),
        (("float", "nan", "int32", 4), "nan is not an int32"),
        (("int", "300", "int8", 1), "300 is not an int8"),
        (("int", "1", "float64", 4), "float64 has no 4 bytes, as the image says"),
        (("float", (1.5).hex(), "", 2), "a type that is not known has no 2 bytes"),
        (("int", "1", "", 12), "has no 12 bytes"),
        (("int", "0", "*", 8), "a pointer in the source, and a number is passed"),
        (("none", None, "int32", 4), "int32 in the source, and memory is passed"),
        (("none", None, "", 4), "4 bytes in the source, and memory is passed"),
        (("str", "x", "int32", 4), "str, which no parameter of a kernel is"),
    ],
)
def test_what_a_parameter_does_not_take(passed: Passed, said: str) -> None:
    with pytest.raises(Refused, match=r"argument 1 \(n\): ") as raised:
        _packed(passed)
    assert said in str(raised.value)


def _packed(passed: Passed) -> bytearray:
    kind, value, type_, size = passed
    argument = {"name": "1", "role": "runtime", "signature": None, "value": {"kind": kind, "value": value}}
    kernel = KernelOfSource("k", [("n", type_)], (1, 1, 1), (1, 1, 1), 0)
    return packed(kernel, cast("Any", [argument]), [(0, size)], cast("Any", None))


def test_what_a_launch_rewrites_is_its_result() -> None:
    """A launch in place reads what the one before left; nothing reads what it leaves itself."""
    first, second = Measured([8]), Measured([8])
    first.add(0, bitmap.span(8, 0, 8))
    second.add(0, bitmap.span(8, 0, 4), also_input=bitmap.span(8, 0, 4))
    place = [Place(0, 0)]
    whole = SimpleNamespace(
        manifest=SimpleNamespace(regions=[SimpleNamespace(size=8)]), places=[place, place],
        replaced=[SimpleNamespace(number=0), SimpleNamespace(number=1)],
    )  # fmt: skip
    found = measured_as_one(cast("Any", whole), [first, second])
    assert found.results()[0] == bitmap.span(8, 0, 8)
    assert found.perhaps_dead()[0] == bitmap.span(8, 4, 8)
