"""Where an error is in the user's own file."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from kerncap.replay.candidates import first_place
from kerncap.replay.worker.protocol import Place
from kerncap.replay.worker.torch_backend.launchers.places import of_error, of_log

_FILE = """\
import triton


class Kernels:
    @triton.jit
    def scale(x):
        y = x + 1
        return y + unknown


def main():
    raise ValueError("in the module's own code")
"""


class _OfTriton(Exception):
    """What Triton raises: the text of the function alone, and a node of that text."""

    def __init__(self, src: str, node: ast.AST) -> None:
        super().__init__("at 3:11")
        self.src = src
        self.node = node


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(_FILE)
    return path


def test_a_node_of_a_function_is_found_in_its_file(path: Path) -> None:
    text = "def scale(x):\n    y = x + 1\n    return y + unknown\n"
    node = next(n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name) and n.id == "unknown")
    found = of_error(_OfTriton(text, node), path)
    assert found == Place(str(path), 8, 20)
    assert path.read_text().split("\n")[7][19:] == "unknown"


def test_the_innermost_cause_counts_if_it_is_in_the_file(path: Path) -> None:
    text = "def scale(x):\n    y = x + 1\n    return y + unknown\n"
    tree = ast.parse(text)
    outer, inner = _OfTriton(text, tree.body[0]), NameError("unknown")
    outer.__cause__ = inner  # raised by the compiler: none of its frames is in the file
    assert of_error(outer, path).line == 6
    elsewhere = _OfTriton("def other(x):\n    return 2\n", ast.parse("x").body[0])
    assert of_error(elsewhere, path) is None


def test_the_line_of_a_traceback(path: Path) -> None:
    module: dict[str, object] = {}
    exec(compile(_FILE.replace("@triton.jit", "").replace("import triton", ""), str(path), "exec"), module)
    with pytest.raises(ValueError, match="own code") as caught:
        module["main"]()  # type: ignore[operator]
    assert of_error(caught.value, path) == Place(str(path), 12)


@pytest.mark.parametrize(
    ("log", "line", "column"),
    [
        ('loc("k.ttgir":23:13): error: expected SSA operand', 23, 13),
        ("/tmp/k.ttir:7:3: error: use of undeclared SSA value", 7, 3),
        ("ptxas /tmp/tmpx.ptx, line 72; error   : Not a name", 72, None),
        ("LLVM ERROR: failed to parse IR: expected instruction opcodelineno: 31", 31, None),
    ],
)
def test_places_in_what_a_compiler_prints(log: str, line: int, column: int | None) -> None:
    found = of_log(f"Traceback (most recent call last):\n{log}\n", Path("k.ttir"))
    assert found == Place("k.ttir", line, column)
    assert of_log("nothing is said of a place", Path("k.ttir")) is None


@pytest.mark.parametrize(
    ("log", "place"),
    [
        ('source/k.cu(12): error: identifier "x" is undefined', Place("source/k.cu", 12)),
        ("candidate.cu(3): catastrophic error: cannot open", Place("candidate.cu", 3)),
        ("k.cu:4:10: fatal error: a.h: No such file", Place("k.cu", 4, 10)),
        ("k.cu(9): warning #177-D: declared\nk.cu(20): error: expected", Place("k.cu", 20)),
        ("ptxas renamed.ptx, line 8; error : Unknown symbol", Place("renamed.ptx", 8)),
        ("nvcc fatal : Unsupported gpu architecture", Place()),
    ],
)
def test_places_in_what_nvcc_and_nvrtc_print(log: str, place: Place) -> None:
    assert first_place(log) == place
