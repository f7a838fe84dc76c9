"""numba-cuda-mlir's kernels: names, parameters, source. The PTX beside this file is of version 0.6.0."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kerncap.capture import languages
from kerncap.capture.languages import SourceRequest

HERE = Path(__file__).parent
PTX = (HERE / "axpy.ptx").read_text()
NAME = re.findall(r"\.entry (\w+)\(", PTX)[0]


def test_the_name_is_the_function_with_its_types() -> None:
    name = languages.parse_name(NAME)
    assert (name.base, name.readable) == ("axpy", "axpy(float32, float32[::1], float32[::1])")


@pytest.mark.parametrize(
    "mangled", ["_Z4axpyf", "_Z4axpyf5ArrayIfLi1EE", "_Z1kPfS_i", "_Z4axpy5ArrayIfLi1E1C7mutable"]
)
def test_a_cpp_function_is_not_taken_for_one(mangled: str) -> None:
    assert "[" not in languages.parse_name(mangled).readable
    assert languages.find(SourceRequest(mangled, cwd=HERE, argv=("python", "kernels.py"))).language != "numba"


def test_parameters_are_those_of_the_image() -> None:
    found = languages.parameters(NAME, NAME, [("a", None), ("x", None), ("y", None)])
    assert found is not None
    declared = [4 if width == ".f32" else 8 for width in re.findall(rf"\.param (\.\w+) {NAME}_param", PTX)]
    assert [4 if type_ == "float" else 8 for _, type_ in found] == declared
    assert list(found)[:6] == [
        ("a", "float"), ("x.allocated", "void*"), ("x", "float*"), ("x.offset", "long long"),
        ("x.shape[0]", "long long"), ("x.strides[0]", "long long"),
    ]  # fmt: skip


def test_the_kernel_is_cut_out_with_what_it_uses() -> None:
    stack = ((str(HERE / "kernels.py"), 20, "<module>"),)
    found = languages.find(SourceRequest(NAME, python_stack=stack, arch="sm_90"))
    assert (found.language, found.entry, found.kernel_line, found.missing) == ("numba", "axpy", 16, None)
    text = found.files[0].data.decode()
    assert "GAIN = 1.25" in text and "def amplified" in text and "np" not in text
    assert found.build is not None and found.build.tool == "numba-cuda-mlir"
