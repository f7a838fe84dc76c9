"""CuTe DSL's kernels: names, parameters, sources. The files beside this one are what the hook wrote, and the
cubins, for nvidia-cutlass-dsl 4.8.1."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerncap.capture import images, languages, native_arguments
from kerncap.capture.kernel_spellings import short_name, spellings
from kerncap.capture.languages import FoundSource, SourceRequest
from kerncap.replay.candidates import symbols

HERE = Path(__file__).parent
KERNELS = ("scaled_add", "kernel")
CUBINS = {kernel: (HERE / f"{kernel}.cubin").read_bytes() for kernel in KERNELS}
NAMES = {kernel: symbols.kernels_of_cubin(data)[0] for kernel, data in CUBINS.items()}
TEXT = (HERE / "kernels.py").read_text()
CUT_OUT = (
    "import cutlass\nimport cutlass.cute as cute\nGAIN = 3.0\n\n\n"
    + TEXT[TEXT.index("@cute.jit\ndef amplified") : TEXT.index("\n\nclass Pair")]
)


def request_for(
    kernel: str, folder: Path, change: Callable[[Any], None] = lambda call: None
) -> SourceRequest:
    """A session in ``folder`` that compiled the kernel from the file there."""
    call = json.loads((HERE / f"{kernel}.json").read_text().replace("/app/", f"{folder}/"))
    change(call)
    path = folder / "cute-dsl" / f"{hashlib.sha256(NAMES[kernel].encode()).hexdigest()[:32]}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(call))
    return SourceRequest(NAMES[kernel], cubin=CUBINS[kernel], session=folder, arch="sm_90")


@pytest.fixture
def app(tmp_path: Path) -> Path:
    shutil.copy(HERE / "kernels.py", tmp_path)
    return tmp_path


def found_in(folder: Path, kernel: str, change: Callable[[Any], None] = lambda call: None) -> FoundSource:
    return languages.find(request_for(kernel, folder, change))


@pytest.mark.parametrize(
    ("mangled", "base", "readable"),
    [
        (NAMES["scaled_add"], "scaled_add", "scaled_add(f32*, f32*, f32*)"),
        (NAMES["kernel"], "kernel", "kernelsPair.kernel(f16*, f16*)"),
        (
            "kernel_cutlass_kernel___main__Adder_object_at__tensorptrbf16gmemalign16o1_3_0",
            "kernel",
            "Adder.kernel(bf16*)",
        ),
        ("kernel_cutlass_copy_tensor_TiledCopy_x_12", "copy_tensor", "copy_tensor(…)"),
        ("kernel_cutlass_empty_0", "empty", "empty()"),
        ("kernel_cutlass_scaled_add__tensorptrf32gmemo1_0", "scaled_add", "scaled_add(f32*)"),
        ("kernel_cutlass_fill__3", "fill", "fill(…)"),
    ],
)
def test_the_name_is_the_functions(mangled: str, base: str, readable: str) -> None:
    name = languages.parse_name(mangled)
    assert (name.base, name.readable) == (base, readable)
    assert short_name(mangled, mangled) == base and readable in spellings(mangled, mangled)


def test_names_of_others() -> None:
    assert languages.parse_name("kernel_cutlass2").readable == ""
    assert languages.parse_name("_ZN7cutlass6KernelE").readable == ""


def test_the_kernel_is_cut_out_with_what_launches_it(app: Path) -> None:
    found = found_in(app, "scaled_add")
    assert (found.language, found.file, found.entry, found.missing) == (
        "python-dsl", "kernel.py", "scaled_add", None,
    )  # fmt: skip
    files = {file.path: file.data.decode() for file in found.files}
    assert files["kernel.py"] == CUT_OUT and json.loads(files["call.json"])["host"]["name"] == "launch"
    assert (found.kernel_file, found.kernel_line) == (str(app / "kernels.py"), 24)
    assert found.build is not None and (found.build.tool, found.build.arch) == ("cute-dsl", "sm_90a")


def test_a_method_brings_its_class_and_what_the_call_names(app: Path) -> None:
    found = found_in(app, "kernel")
    text = found.files[0].data.decode()
    assert found.entry == "Pair.kernel" and found.build is not None
    assert "class Mode(enum.Enum)" in text and "def product(a, b)" in text and "np" not in text


@pytest.mark.parametrize("kernel", KERNELS)
def test_parameters_are_those_of_the_image(kernel: str, app: Path) -> None:
    found = found_in(app, kernel)
    named = languages.parameters(NAMES[kernel], NAMES[kernel], found.parameters)
    layout = images.Cubin(CUBINS[kernel]).layout(NAMES[kernel])
    assert named is not None and layout is not None and len(named) == len(layout)
    types = {
        "scaled_add": [
            ("x", "cute::Tensor<float>"), ("y", "cute::Tensor<float>"), ("out", "cute::Tensor<float>"),
            ("alpha", "float"),
        ],
        "kernel": [("x", "cute::Tensor<__half>"), ("out", "cute::Tensor<__half>"), ("weight", "int")],
    }  # fmt: skip
    assert list(named) == types[kernel]
    assert native_arguments._ARRAY.fullmatch(str(named[0][1]))


def test_a_call_that_cannot_be_made_again_is_for_reading(app: Path) -> None:
    def unknown(call: Any) -> None:
        call["arguments"][0] = ["x", {"unknown": "Mystery"}]

    found = found_in(app, "scaled_add", unknown)
    assert (found.file, found.build) == ("original/kernels.py", None)
    assert found.missing == "no rebuild: x of launch is Mystery, which kerncap can't pass again"
    assert found.parameters[0] == ("x", "cute::Tensor<float>")


def test_a_function_that_is_gone_is_named(app: Path) -> None:
    (app / "kernels.py").write_text("import cutlass\n")
    assert found_in(app, "scaled_add").missing == f"{app / 'kernels.py'} has no scaled_add any more"


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"kernel": 3}', '{"kernel": "other"}'])
def test_a_damaged_record_is_no_source(app: Path, text: str) -> None:
    request = request_for("scaled_add", app)
    next((app / "cute-dsl").iterdir()).write_text(text)
    assert languages.find(request).file is None
    assert languages.find(SourceRequest(NAMES["scaled_add"])).file is None


def test_a_kernel_with_a_record_is_known(app: Path) -> None:
    request = request_for("scaled_add", app)
    assert languages.is_known(request)
    assert not languages.is_known(SourceRequest(NAMES["kernel"], session=app))
