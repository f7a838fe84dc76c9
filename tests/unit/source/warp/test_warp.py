"""Warp's kernels: their generated CUDA C++ in its kernel cache, and the Python that they were written in."""

from __future__ import annotations

import os
import re
import shutil
import struct
from pathlib import Path

import pytest

from kerncap.capture import languages, native_arguments
from kerncap.capture.kernel_spellings import short_name
from kerncap.capture.languages import FoundSource, SourceRequest
from kerncap.capture.payloads import LaunchRecord, convert
from kerncap.format import schema
from tests.unit.capture.recorded import native_payload

HERE = Path(__file__).parent
[GENERATED] = (HERE / "cache").glob("*/*.cu")
FORWARD, BACKWARD = re.findall(r"__global__ void (\w+)\(", GENERATED.read_text())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache" / "1.19.0" / GENERATED.parent.name
    shutil.copytree(GENERATED.parent, folder)
    monkeypatch.setenv("WARP_CACHE_PATH", str(tmp_path / "cache"))
    return folder


def found(kernel: str = FORWARD, **more: object) -> FoundSource:
    return languages.find(SourceRequest(kernel, **{"cwd": HERE, "arch": "sm_90", **more}))  # type: ignore[arg-type]


def test_names() -> None:
    assert short_name(FORWARD, FORWARD) == "advance" and short_name(BACKWARD, "") == "advance_backward"
    assert short_name("advance_cuda_kernel_forward", "") == "advance", "a module whose hash is stripped"
    assert short_name("cuda_kernel_forward", "") == "cuda_kernel_forward"


def test_the_generated_code_is_the_source(cache: Path) -> None:
    source = found()
    assert source.missing is None and source.language == "cuda" and source.entry == FORWARD
    files = {file.path: file for file in source.files}
    assert source.file is not None
    assert files[source.file].data == GENERATED.read_bytes()
    assert files[source.file].original == str(cache / GENERATED.name)
    [origin] = source.origins
    assert FORWARD in GENERATED.read_text().splitlines()[origin.original_line - 1]
    build = source.build
    assert build is not None and (build.tool, build.unit) == ("nvrtc", f"source/{source.file}")
    assert {"--std=c++17", "--fmad=true", "-DNDEBUG"} <= set(build.options)
    assert any("neither fast_math nor fuse_fp" in note for note in source.notes)


def test_the_python_function_is_named_and_stored(cache: Path) -> None:
    source = found()
    lines = (HERE / "sim.py").read_text().splitlines()
    assert source.kernel_file == str(HERE / "sim.py") and source.kernel_line is not None
    assert lines[source.kernel_line - 1].startswith("def advance(")
    assert {file.original for file in source.files} >= {str(HERE / "sim.py")}
    elsewhere = found(cwd=Path("/"))
    assert elsewhere.kernel_file == str(cache / GENERATED.name) and len(elsewhere.files) == 1


def test_headers_of_the_installed_package_come_with_it(cache: Path, tmp_path: Path) -> None:
    packages = tmp_path / "site-packages"
    (packages / "warp" / "native").mkdir(parents=True)
    (packages / "warp" / "native" / "builtin.h").write_text('#include "vec.h"\n')
    (packages / "warp" / "native" / "vec.h").write_text("// vectors\n")
    source = found(python_stack=((str(packages / "warp" / "_src" / "context.py"), 9, "launch"),))
    assert {Path(file.original).name for file in source.files} >= {"builtin.h", "vec.h"}
    assert source.build is not None
    assert [Path(each.path).name for each in source.build.include_dirs] == ["native"]
    assert source.build.include_dirs[0].stored is not None


def test_the_newest_of_two_with_the_kernel(cache: Path) -> None:
    older = cache.with_name("wp_sim_0000000") / "wp_sim_0000000.cu"
    shutil.copytree(cache, older.parent)
    (older.parent / GENERATED.name).rename(older)
    os.utime(older, (1, 1))
    assert found().files[0].original == str(cache / GENERATED.name)
    os.utime(older)
    os.utime(cache / GENERATED.name, (1, 1))
    assert found().files[0].original == str(older)


def test_parameters_are_those_of_the_generated_code(cache: Path) -> None:
    names = languages.parameters(FORWARD, FORWARD, found().parameters)
    assert names == [
        ("dim", "wp::launch_bounds_t<1>"),
        ("gain", "float"),
        ("xs", "wp::array_t<float>"),
        ("bodies", "wp::array_t<Body_676aa1ba>"),
        ("n", "int"),
    ]
    assert languages.parameters(FORWARD, FORWARD) is None


def test_without_the_cache_there_is_a_reason(cache: Path) -> None:
    shutil.rmtree(cache)
    source = found()
    assert source.file is None and source.missing is not None and "--source-dir" in source.missing
    assert found(source_dirs=(HERE / "cache",)).file is not None


def test_an_array_by_value_is_a_view_of_its_data(cache: Path) -> None:
    payload = native_payload(0)
    base = payload["regions"][0]["base"]
    array = struct.pack("<QQ4i4iii", base, 0, 16, 0, 0, 0, 4, 0, 0, 0, 1, 0) + bytes(8)
    bounds = struct.pack("<IIQQ", 16, 0, 16, 1)
    values = [bounds, struct.pack("<f", 0.5) + bytes(4), array[:64], array[:64], struct.pack("<i", 16)]
    layout, at = [], 0
    for size, value in zip((24, 4, 64, 64, 4), values, strict=True):
        layout.append([at, size])
        at += len(value)
    payload["kernel"] = {"name": FORWARD, "qualified_name": FORWARD, "mangled": FORWARD}
    payload["parameters"] = {"bytes": b"".join(values).hex(), "layout": layout}
    launch = convert(payload, LaunchRecord, "launch")
    arguments, views = native_arguments.describe(launch, declared=found().parameters)
    assert [argument.name for argument in arguments] == ["dim", "gain", "xs", "bodies", "n"]
    assert arguments[1].value == schema.FloatValue(value=(0.5).hex())
    assert arguments[4].value == schema.IntValue(value="16")
    [view] = views  # of structs there is no element type
    assert (view.name, view.dtype, view.region, view.offset) == ("xs", "float32", 0, 0)
