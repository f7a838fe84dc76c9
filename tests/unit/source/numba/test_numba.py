"""Numba's kernels: their names and parameters, and the Python that they were written in."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from kerncap.capture import languages
from kerncap.capture.kernel_spellings import short_name, spellings
from kerncap.capture.languages import SourceRequest
from kerncap.format import numba_names

HERE = Path(__file__).parent
PTX = {name: (HERE / f"{name}.ptx").read_text() for name in ("axpy", "roots", "shifted")}
NAMES = {name: re.findall(r"\.entry (\w+)", text)[0] for name, text in PTX.items()}
READABLE = {
    "axpy": "kernels.axpy(float32, float32[::1], float32[::1])",
    "roots": "kernels.Rows.roots(float64[:,:], (float64, float64[::1]), int32, boolean)",
    "shifted": "kernels.factory.<locals>.shifted(complex64[:])",
}
TEXT = (HERE / "kernels.py").read_text()
CUT_OUT = (
    "from numba import cuda, float32\nSCALE = 3.0\nTILE = 64\n\n\n"
    + TEXT[TEXT.index("@cuda.jit(device=True)") : TEXT.index("\n\nclass Rows")]
)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    shutil.copyfile(HERE / "kernels.py", tmp_path / "kernels.py")
    return tmp_path


@pytest.mark.parametrize("kernel", PTX)
def test_names_are_readable(kernel: str) -> None:
    mangled = NAMES[kernel]
    assert str(numba_names.parse(mangled)) == READABLE[kernel]
    assert short_name(mangled, mangled) == kernel
    assert {mangled, READABLE[kernel], kernel} <= set(spellings(mangled, mangled))


@pytest.mark.parametrize(
    "mangled",
    ["", "_Z", "_ZN", "_Z4addsPf", "_ZN1n1kB5cxx11EPi", "_ZN1n1kB2v1B3abcEPi", "_ZN9999999k", "add_kernel"],
)
def test_names_of_others_are_left_to_them(mangled: str) -> None:
    assert numba_names.parse(mangled) is None


@pytest.mark.parametrize("end", range(0, len(NAMES["roots"]), 7))
def test_a_damaged_name_raises_nothing(end: int) -> None:
    found = numba_names.parse(NAMES["roots"][:end])
    assert found is None or found.path == ("kernels", "Rows", "roots")


def test_types_that_are_not_known_leave_the_parameters_untyped() -> None:
    tags = "B2v1B29cw51cXTLSUwv1sDUaKthqaNgoK_3d"
    name = numba_names.parse(f"_ZN3mod1f{tags}E5ArrayI6RecordILi457EELi1E1C7mutable9unalignedEi10float32_2a")
    assert str(name) == "mod.f(Record[457][::1], int32, float32*)"
    assert name is not None and name.types is not None and numba_names.parameters(name) is None
    deep = numba_names.parse(f"_ZN3mod1f{tags}E" + "5TupleI" * 5000 + "E" * 5000)
    assert deep is not None and deep.types is None


@pytest.mark.parametrize("kernel", PTX)
def test_there_are_as_many_parameters_as_the_ptx_has(kernel: str) -> None:
    sizes = {"f32": 4, "f64": 8, "u64": 8, "u32": 4, "u8": 1, "b64": 8, "b32": 4, "b8": 1}
    head = PTX[kernel].split(".entry", 1)[1].split(")", 1)[0]
    declared = [sizes[found] for found in re.findall(r"\.param \.(\w+)", head)]
    found = languages.parameters(NAMES[kernel], "")
    assert found is not None
    widths = {"float": 4, "double": 8, "int": 4, "bool": 1, "long long": 8}
    assert [8 if str(type_).endswith("*") else widths[str(type_)] for _, type_ in found] == declared


def test_parameters_have_the_names_of_the_source() -> None:
    found = languages.parameters(NAMES["axpy"], "", [("a", None), ("x", None), ("y", None)])
    assert found is not None
    assert found[:3] == [("a", "float"), ("x.meminfo", "void*"), ("x.parent", "void*")]
    assert found[5:8] == [("x", "float*"), ("x.shape[0]", "long long"), ("x.strides[0]", "long long")]


@pytest.mark.parametrize("by", ["line table", "stack", "module", "source dir"])
def test_the_kernel_is_cut_out_with_what_it_uses(app: Path, by: str) -> None:
    request = {
        "line table": SourceRequest(
            NAMES["axpy"], ptx=PTX["axpy"].replace("kernels.py", str(app / "kernels.py"))
        ),
        "stack": SourceRequest(NAMES["axpy"], python_stack=((str(app / "kernels.py"), 40, "<module>"),)),
        "module": SourceRequest(NAMES["axpy"], cwd=app, argv=("python", "train.py")),
        "source dir": SourceRequest(NAMES["axpy"], cwd=Path("/"), source_dirs=(app,)),
    }[by]
    found = languages.find(request)
    assert (found.language, found.file, found.entry) == ("numba", "kernel.py", "axpy")
    assert found.files[0].data.decode() == CUT_OUT
    assert (found.kernel_file, found.kernel_line) == (str(app / "kernels.py"), 19)
    assert found.parameters == (("a", None), ("x", None), ("y", None)) and found.missing is None
    [whole] = found.files[1:]
    assert (whole.path, whole.data) == ("original/kernels.py", (app / "kernels.py").read_bytes())
    lines, original = CUT_OUT.splitlines(), (app / "kernels.py").read_text().splitlines()
    for origin in found.origins:
        same = slice(origin.original_line - 1, origin.original_line - 1 + origin.lines)
        assert lines[origin.line - 1 : origin.line - 1 + origin.lines] == original[same], origin
    assert found.build is not None and found.build.tool == "numba"


def test_a_method_is_kept_in_its_class(app: Path) -> None:
    found = languages.find(SourceRequest(NAMES["roots"], cwd=app, argv=("python",)))
    assert found.entry == "Rows.roots" and found.build is not None
    text = found.files[0].data.decode()
    assert (
        text.startswith("import math\nfrom numba import cuda, float32\n\n\nclass Rows:\n")
        and "np" not in text
    )


def test_what_a_closure_caught_is_not_in_the_file(app: Path) -> None:
    found = languages.find(SourceRequest(NAMES["shifted"], cwd=app, argv=("python",)))
    assert (found.file, found.build, found.kernel_line) == ("original/kernels.py", None, 38)
    assert found.missing == "no rebuild: shifted uses shift of factory: the value is not in the file"


def test_a_script_is_the_module_main(app: Path) -> None:
    mangled = NAMES["axpy"].replace("7kernels", "8__main__")
    (app / "kernels.py").rename(app / "train.py")
    found = languages.find(SourceRequest(mangled, cwd=app, argv=("python", "-u", "train.py", "x.py")))
    assert (found.kernel_file, found.entry) == (str(app / "train.py"), "axpy")


def test_of_two_definitions_the_lines_tell(app: Path) -> None:
    path = app / "kernels.py"
    again = "\n\n@cuda.jit\ndef axpy(a, x, y):\n    y[0] = 0\n"
    path.write_text(path.read_text() + again)
    by_name = languages.find(SourceRequest(NAMES["axpy"], cwd=app))
    assert "y[0] = 0" in by_name.files[0].data.decode(), "the last one is the name's, as Python has it"
    ptx = PTX["axpy"].replace("kernels.py", str(path))
    assert "y[0] = 0" not in languages.find(SourceRequest(NAMES["axpy"], ptx=ptx)).files[0].data.decode()


@pytest.mark.parametrize("text", [None, "def axpy(:", "axpy = 1\n", "\0"])
def test_without_the_function_there_is_a_reason(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "kernels.py").write_text(text)
    found = languages.find(SourceRequest(NAMES["axpy"], cwd=tmp_path, ptx=PTX["axpy"]))
    assert (found.language, found.file) == ("ptx", "kernel.ptx")
    assert found.missing is not None and "kernels.axpy was found" in found.missing


def test_a_definition_under_a_condition_brings_the_condition(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(
        "from numba import cuda\nFAST = True\nif FAST:\n    @cuda.jit\n    def axpy(a, x, y):\n"
        "        y[0] = a\nelse:\n    axpy = None\nfactory = axpy\n"
    )
    found = languages.find(SourceRequest(NAMES["axpy"], cwd=tmp_path))
    assert found.entry == "axpy" and found.kernel_line == 5
    text = found.files[0].data.decode()
    assert text.startswith("from numba import cuda\nFAST = True\nif FAST:\n") and "factory" not in text


def test_lines_are_counted_as_the_parser_does(tmp_path: Path) -> None:
    text = "from numba import cuda\nNAME = 'a\u2028b'\n\x0c\n@cuda.jit\ndef axpy(a, x, y):\n    y[0] = a\n"
    (tmp_path / "kernels.py").write_text(text)
    data = languages.find(SourceRequest(NAMES["axpy"], cwd=tmp_path)).files[0].data
    assert data.decode() == "from numba import cuda\n\n\n@cuda.jit\ndef axpy(a, x, y):\n    y[0] = a\n"


def test_a_local_kernel_that_catches_nothing_can_be_rebuilt(tmp_path: Path) -> None:
    mangled = NAMES["shifted"]
    (tmp_path / "kernels.py").write_text(
        "from numba import cuda\nSHIFT = 3\ndef factory():\n    @cuda.jit\n    def shifted(x):\n"
        "        x[0] = SHIFT\n\n    return shifted\n"
    )
    found = languages.find(SourceRequest(mangled, cwd=tmp_path))
    assert found.build is not None and found.files[0].data.decode() == (
        "from numba import cuda\nSHIFT = 3\n\n\n@cuda.jit\ndef shifted(x):\n    x[0] = SHIFT\n"
    )
