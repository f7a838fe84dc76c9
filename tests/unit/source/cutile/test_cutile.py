"""cuTile's kernels: their names, parameters, sources; the cubins beside this file are of cuda-tile 1.7.0."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kerncap.capture import images, languages
from kerncap.capture.kernel_spellings import short_name, spellings
from kerncap.capture.languages import SourceRequest
from kerncap.replay.candidates import symbols

HERE = Path(__file__).parent
CUBINS = {path.stem: path.read_bytes() for path in HERE.glob("*.cubin")}
NAMES = {stem: symbols.kernels_of_cubin(data)[0] for stem, data in CUBINS.items()}
TEXT = (HERE / "kernels.py").read_text()
CUT_OUT = (
    "import cuda.tile as ct\nGAIN = 3.0\n\n\n"
    + TEXT[TEXT.index("def amplified") : TEXT.index("\n\nclass Rows")]
)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    shutil.copy(HERE / "kernels.py", tmp_path)
    return tmp_path


def test_the_name_is_the_function_with_its_types() -> None:
    readable = {stem: languages.parse_name(name).readable for stem, name in NAMES.items()}
    assert readable == {
        "scaled_add": "scaled_add(float32, float32[:], float32[:], float32[:], 256)",
        "flagged": "flagged((float32, float32[:,:]), list[float16[:,:]], bool)",
        "shifted": "shifted(float32[:])",
    }
    assert {short_name(name, name) for name in NAMES.values()} == set(NAMES)
    assert readable["shifted"] in spellings(NAMES["shifted"], NAMES["shifted"])


@pytest.mark.parametrize(
    ("mangled", "readable"),
    [
        (
            "my_Kernel_Kt2_A3bf16_3v8l0_4t1_5i16_p16g0w_A2f8m3fn_3l0_g0iu_Si64",
            "my_Kernel(bfloat16[:,:,:], float8_e4m3fn[:,:], int64)",
        ),
        ("k_Kt1_A1f32_1t1_p16_Si32_I_256_B1_F3fe0000000000000", "k(float32[:], int32, -256, True, 0.5)"),
        ("k_Kt1", "k()"),
        ("k_Kt1_A1f32_1t1_Zz", "k(…)"),
        ("k_Kt1_A1q9", "k(…)"),
    ],
)
def test_names_that_its_compiler_may_make(mangled: str, readable: str) -> None:
    assert languages.parse_name(mangled).readable == readable


@pytest.mark.parametrize("mangled", ["_Z1k_Kt1i", "gemm_K", "gemm_Kernel", "gemm_Kt1x", "a_Kx1_A1f32"])
def test_names_of_others(mangled: str) -> None:
    assert languages.parse_name(mangled).readable == ""
    found = languages.find(SourceRequest(mangled))
    assert found.missing is None or "Python file" not in found.missing


@pytest.mark.parametrize("kernel", NAMES)
def test_parameters_are_those_of_the_image(kernel: str) -> None:
    widths = {
        "bool": 1, "__half": 2, "int": 4, "float": 4, "long long": 8,
    }  # fmt: skip
    found = languages.parameters(NAMES[kernel], NAMES[kernel])
    assert found is not None
    sizes = [8 if str(type_).endswith("*") else widths[str(type_)] for _, type_ in found]
    assert sizes == [size for _, size in images.Cubin(CUBINS[kernel]).layout(NAMES[kernel]) or ()]


def test_parameters_have_the_names_of_the_source(app: Path) -> None:
    declared = languages.find(SourceRequest(NAMES["scaled_add"], cwd=app, argv=("python", "kernels.py")))
    found = languages.parameters(NAMES["scaled_add"], "", declared.parameters)
    assert found is not None
    assert list(found)[:4] == [
        ("alpha", "float"), ("x", "float*"), ("x.shape[0]", "int"), ("x.strides[0]", "int"),
    ]  # fmt: skip
    assert [name for name, _ in found][-3:] == ["out", "out.shape[0]", "out.strides[0]"]


@pytest.mark.parametrize("by", ["line table", "stack", "script"])
def test_the_kernel_is_cut_out_with_what_it_uses(app: Path, by: str) -> None:
    moved = CUBINS["scaled_add"].replace(b"/app\0", b"././\0")  # a name as long that is here
    request = {
        "line table": SourceRequest(NAMES["scaled_add"], cubin=moved, cwd=app),
        "stack": SourceRequest(NAMES["scaled_add"], python_stack=((str(app / "kernels.py"), 4, "main"),)),
        "script": SourceRequest(NAMES["scaled_add"], cwd=app, argv=("python", "-u", "kernels.py")),
    }[by]
    found = languages.find(request)
    assert (found.language, found.file, found.entry) == ("python-dsl", "kernel.py", "scaled_add")
    assert found.files[0].data.decode() == CUT_OUT
    assert (found.kernel_file, found.kernel_line, found.missing) == (str(app / "kernels.py"), 15, None)
    assert found.build is not None and found.build.tool == "cutile"


def test_a_method_is_kept_in_its_class(app: Path) -> None:
    found = languages.find(SourceRequest(NAMES["flagged"], cwd=app, argv=("python", "kernels.py")))
    assert found.entry == "Rows.flagged" and found.build is not None
    assert "class Rows:" in found.files[0].data.decode()


def test_what_a_closure_caught_is_not_in_the_file(app: Path) -> None:
    found = languages.find(SourceRequest(NAMES["shifted"], cwd=app, argv=("python", "kernels.py")))
    assert (found.file, found.build) == ("original/kernels.py", None)
    assert found.missing == "no rebuild: shifted uses shift of factory: the value is not in the file"


def test_of_two_functions_of_a_name_the_lines_tell(app: Path) -> None:
    path = app / "kernels.py"
    path.write_text(path.read_text() + "\n\ndef scaled_add(x):\n    return x\n")
    moved = CUBINS["scaled_add"].replace(b"/app\0", b"././\0")
    assert languages.find(SourceRequest(NAMES["scaled_add"], cubin=moved, cwd=app)).kernel_line == 15
    found = languages.find(SourceRequest(NAMES["scaled_add"], cwd=app, argv=("python", "kernels.py")))
    assert (
        found.file is None and found.missing is not None and "no Python file with scaled_add" in found.missing
    )
