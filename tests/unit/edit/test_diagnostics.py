"""Compilers' words become places in the user's file: line, column, the lines before, a caret."""

from __future__ import annotations

from pathlib import Path

from kerncap.api.edit.diagnostics import Texts, diagnose, texts_of
from kerncap.report.edit_text import diagnostic

KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def half(x):
    return tl.halve(x)


@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, half(x))
"""
UNIT = """\
#include "sum.cuh"
__global__ void kernel(float *x, int n) {
\tint i = undeclared + threadIdx.x;
    x[i] = 1;
}
"""


def of_python(text: str = KERNEL) -> Texts:
    names = {"/tmp/kerncap-edit-1/3/kernel.py": "kernel.py"}
    return texts_of({"kernel.py": text.encode()}, {"kernel.py": Path("copy/kernel.py")}, names, "kernel.py")


def of_unit() -> Texts:
    files = {"app/kernel.cu": UNIT.encode(), "app/sum.cuh": b"#pragma once\nflot f;\n"}
    places = {name: Path("copy") / name for name in files}
    names = {
        "source/app/kernel.cu": "app/kernel.cu",
        "source/app/sum.cuh": "app/sum.cuh",
        "prog.cu": "app/kernel.cu",
    }
    return texts_of(files, places, names, "app/kernel.cu")


def test_a_syntax_error() -> None:
    text = KERNEL.replace("i = tl.arange", "i = = tl.arange")
    log = (
        "Traceback (most recent call last):\n"
        '  File "/tmp/kerncap-edit-1/3/kernel.py", line 12\n'
        "    i = = tl.arange(0, BLOCK)\n"
        "        ^\n"
        "SyntaxError: invalid syntax\n"
    )
    [found] = diagnose(of_python(text), "kernel.py can't be imported", log)
    assert (found.file, found.line, found.column) == ("copy/kernel.py", 12, 9)
    assert found.message == "SyntaxError: invalid syntax"
    assert diagnostic(found) == [
        "copy/kernel.py:12:9: SyntaxError: invalid syntax",
        "  10 | @triton.jit",
        "  11 | def kernel(x_ptr, n, BLOCK: tl.constexpr):",
        "  12 |     i = = tl.arange(0, BLOCK)",
        "     |         ^",
    ]


def test_a_traceback_through_other_files_ends_in_the_users() -> None:
    log = (
        "Traceback (most recent call last):\n"
        '  File "/tmp/kerncap-edit-1/3/kernel.py", line 13, in kernel\n'
        "    x = tl.load(x_ptr + i, mask=i < n)\n"
        "        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        '  File "/usr/lib/triton/interpreter.py", line 400, in load\n'
        "    raise TypeError\n"
        "TypeError: no mask\n"
    )
    [found] = diagnose(of_python(), "the kernel raised", log)
    assert (found.line, found.column, found.message) == (13, 9, "TypeError: no mask")


def test_triton_counts_from_the_function() -> None:
    """The innermost error comes first: the helper's, not the call of it."""
    log = (
        "triton.compiler.errors.CompilationError: at 2:11:\n"
        "def half(x):\n"
        "    return tl.halve(x)\n"
        "           ^\n"
        "AttributeError(\"module 'triton.language' has no attribute 'halve'\")\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "triton.compiler.errors.CompilationError: at 4:24:\n"
        "def kernel(x_ptr, n, BLOCK: tl.constexpr):\n"
        "    i = tl.arange(0, BLOCK)\n"
        "    x = tl.load(x_ptr + i, mask=i < n)\n"
        "    tl.store(x_ptr + i, half(x))\n"
        "                        ^\n"
    )
    [found] = diagnose(of_python(), "kernel.py does not compile", log)
    assert (found.line, found.column) == (7, 12)
    assert "has no attribute 'halve'" in found.message


def test_nvcc_and_nvrtc() -> None:
    log = (
        'source/app/kernel.cu(3): error: identifier "undeclared" is undefined\n'
        "   int i = undeclared + threadIdx.x;\n"
        "           ^\n\n"
        'source/app/sum.cuh(2): error #20: identifier "flot" is undefined\n'
        "  flot f;\n"
        "  ^\n\n"
        "/usr/local/cuda/include/cuda.h(7): error: not the user's\n"
        "prog.cu(4): warning #177-D: never used\n"
        '2 errors detected in the compilation of "source/app/kernel.cu".\n'
    )
    first, second = diagnose(of_unit(), "nvcc does not compile the candidate", log)
    assert (first.file, first.line, first.column) == ("copy/app/kernel.cu", 3, 10)
    assert "undeclared" in first.message
    assert diagnostic(first)[-1] == "    | \t        ^", "a tab stays one"
    assert (second.file, second.line, second.column) == ("copy/app/sum.cuh", 2, 1)
    [nvrtc] = diagnose(of_unit(), "", 'prog.cu(3): error: expected a ";"\n')
    assert (nvrtc.file, nvrtc.line, nvrtc.column) == ("copy/app/kernel.cu", 3, None)


def test_ptx_and_mlir() -> None:
    files = {"kernel.ptx": b".version 8.0\n.target sm_90\n  bogus;\n"}
    texts = texts_of(files, {"kernel.ptx": Path("copy/kernel.ptx")}, {}, "kernel.ptx")
    [found] = diagnose(
        texts, "", "ptxas application ptx input, line 3; fatal   : Parsing error near 'bogus'\n"
    )
    assert (found.file, found.line) == ("copy/kernel.ptx", 3) and "bogus" in found.message
    files = {"kernel.ttir": b"module {\n  tt.funk\n}\n"}
    names = {"/tmp/x/3/kernel.ttir": "kernel.ttir"}
    texts = texts_of(files, {"kernel.ttir": Path("copy/kernel.ttir")}, names, "kernel.ttir")
    [found] = diagnose(texts, "", "/tmp/x/3/kernel.ttir:2:3: error: unknown op 'tt.funk'\n")
    assert (found.line, found.column) == (2, 3)


def test_a_place_elsewhere_is_nobodys() -> None:
    log = 'Traceback (most recent call last):\n  File "/usr/lib/other.py", line 1, in f\nOSError: gone\n'
    assert diagnose(of_python(), "x", log, "no place at all", "") == []


def test_a_line_beyond_the_end_shows_the_last() -> None:
    log = 'Traceback (most recent call last):\n  File "/tmp/kerncap-edit-1/3/kernel.py", line 99\nE: x\n'
    [found] = diagnose(of_python(), "x", log)
    assert found.line == KERNEL.count("\n") + 1
