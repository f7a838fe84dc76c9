"""NVRTC programs: rebuilt with NVRTC, or with nvcc where there is no NVRTC."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kerncap.capture import languages
from kerncap.replay import candidates
from kerncap.replay.candidates import BuildError, symbols, tools
from tests.unit.replay.candidates.conftest import Make

ARCH = "sm_90"
SOURCE = """
#include "given/shape.h"
#include <disk.h>
template <typename T> __global__ void fill(T *x) { x[threadIdx.x] = T(VALUE + SHAPE + ON_DISK); }
"""
MANGLED = "_Z4fillIfEvPT_"


def recorded(folder: Path, **changes: object) -> languages.FoundSource:
    """A program as the shim records it, with a header from memory and one on disk."""
    (folder / "headers").mkdir(parents=True)
    (folder / "headers" / "disk.h").write_text("#define ON_DISK 1\n")
    program = {
        "name": "fill_program",
        "source": SOURCE,
        "headers": {"given/shape.h": "#define SHAPE 7\n"},
        "options": ["-DVALUE=2", "-I", str(folder / "headers"), "--gpu-architecture=compute_90", "-time=/x"],
        "lowered": {"fill<double>": "_Z4fillIdEvPT_", "fill<float>": MANGLED},
        **changes,
    }
    path = folder / "program-0.json"
    path.write_text(json.dumps(program))
    found = languages.find(
        languages.SourceRequest(MANGLED, "void fill<float>(float*)", origin="nvrtc", program=path)
    )
    assert found.missing is None, found.missing
    return found


def test_the_record_becomes_files_and_a_recipe(tmp_path: Path) -> None:
    found = recorded(tmp_path / "session")
    assert {file.path: file.data for file in found.files} == {
        "fill_program.cu": SOURCE.encode(),
        "headers/given/shape.h": b"#define SHAPE 7\n",
        "include/disk.h": b"#define ON_DISK 1\n",
    }
    build = found.build
    assert build is not None
    assert (build.tool, build.unit, build.name) == ("nvrtc", "source/fill_program.cu", "fill_program")
    assert build.options == ("-DVALUE=2",)
    assert build.name_expressions == ("fill<float>", "fill<double>")
    assert build.headers["given/shape.h"] == "source/headers/given/shape.h"
    assert [folder.stored for folder in build.include_dirs] == ["source/include", None]
    assert (found.kernel_file, found.kernel_line) == ("fill_program", 4)


def test_a_c_kernel_has_the_parameters_of_its_source(tmp_path: Path) -> None:
    """Its name says none, as with CuPy's RawKernel."""
    path = tmp_path / "program-0.json"
    text = 'extern "C" __global__ void fill(float *x, const double *y, unsigned long long n) {}'
    path.write_text(json.dumps({"name": "p", "source": text}))
    found = languages.find(languages.SourceRequest("fill", "fill", origin="nvrtc", program=path))
    assert list(languages.parameters("fill", "fill", found.parameters) or ()) == [
        ("x", "float*"), ("y", "double*"), ("n", "unsigned long long"),
    ]  # fmt: skip
    assert languages.parameters("_Z4fillPf", "fill(float*)", found.parameters) == [(None, "float*")]


def test_a_damaged_record_is_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "program-0.json"
    for text in ("", "[]", '{"source": 5}', '{"source": "' + "[" * 100):
        path.write_text(text)
        found = languages.find(languages.SourceRequest("k", program=path))
        assert found.file is None and found.missing is not None and "recorded program" in found.missing


@pytest.mark.usefixtures("nvrtc")
class TestNvrtc:
    def test_a_program_is_rebuilt_with_its_headers_and_name_expression(
        self, tmp_path: Path, make: Make
    ) -> None:
        reproducer = make(recorded(tmp_path / "session"), MANGLED, "void fill<float>(float*)")
        built = candidates.compile_candidate(
            reproducer, reproducer.path / "source/fill_program.cu", ARCH, tmp_path / "made.cubin"
        )
        assert built.tool.startswith("nvrtc ")
        assert MANGLED in symbols.kernels_of_cubin(built.path.read_bytes())

    def test_a_confined_one_reads_the_application_and_nothing_of_others(
        self, tmp_path: Path, make: Make
    ) -> None:
        reproducer = make(recorded(tmp_path / "session"), MANGLED, "void fill<float>(float*)")
        secret, mine = tmp_path / "hidden" / "secret.h", tmp_path / "mine" / "fill_program.cu"
        for file in (secret, mine):
            file.parent.mkdir()
        secret.write_text("#define SECRET 1")
        mine.write_text(SOURCE)
        hidden = (secret.parent, reproducer.path)
        built = candidates.compile_candidate(reproducer, mine, ARCH, tmp_path / "a.cubin", hidden=hidden)
        assert MANGLED in symbols.kernels_of_cubin(built.path.read_bytes())
        mine.write_text(f'#include "{secret}"\n{SOURCE}')
        with pytest.raises(BuildError, match="secret.h"):
            candidates.compile_candidate(reproducer, mine, ARCH, tmp_path / "b.cubin", hidden=hidden)

    def test_edits_of_both_kinds_of_headers_take_effect(self, tmp_path: Path, make: Make) -> None:
        reproducer = make(recorded(tmp_path / "session"), MANGLED, "void fill<float>(float*)")
        made = set()
        for name, text in (
            ("headers/given/shape.h", "#define SHAPE 7\n"),
            ("headers/given/shape.h", "#define SHAPE 100\n"),
            ("include/disk.h", "#define ON_DISK 1000\n"),
        ):
            edited = tmp_path / "edit" / name
            edited.parent.mkdir(parents=True, exist_ok=True)
            edited.write_text(text)
            made.add(candidates.build(reproducer, edited, ARCH, tmp_path / "made.cubin").read_bytes())
        assert len(made) == 3

    def test_the_log_comes_with_the_error(self, tmp_path: Path, make: Make) -> None:
        reproducer = make(recorded(tmp_path / "session"), MANGLED, "void fill<float>(float*)")
        edited = tmp_path / "fill_program.cu"
        edited.write_text(SOURCE.replace("threadIdx.x", "nothing"))
        with pytest.raises(BuildError, match='identifier "nothing" is undefined') as caught:
            candidates.build(reproducer, edited, ARCH, tmp_path / "made.cubin")
        assert "fill_program" in caught.value.detail

    def test_an_architecture_that_it_does_not_know_is_an_error(self, tmp_path: Path, make: Make) -> None:
        reproducer = make(recorded(tmp_path / "session"), MANGLED, "void fill<float>(float*)")
        with pytest.raises(BuildError, match="gpu-architecture"):
            candidates.build(reproducer, reproducer.path / "source/fill_program.cu", "sm_11", tmp_path / "m")

    def test_half_precision_headers_are_found(self, tmp_path: Path, make: Make, nvrtc: tools.Tool) -> None:
        if nvrtc.include is None:
            pytest.skip("no CUDA headers beside libnvrtc")
        text = (
            '#include <cuda_fp16.h>\nextern "C" __global__ void half_one(__half *x) { *x = __half(1.f); }\n'
        )
        found = recorded(tmp_path / "session", source=text, lowered={})
        reproducer = make(found, "half_one")
        edited = tmp_path / "fill_program.cu"
        edited.write_text(text)
        built = candidates.build(reproducer, edited, ARCH, tmp_path / "made.cubin")
        assert symbols.kernels_of_cubin(built.read_bytes()) == ("half_one",)


@pytest.mark.usefixtures("nvcc")
def test_nvcc_is_the_second_way(tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "nvrtc", lambda python=None: "there is no libnvrtc.so")
    reproducer = make(recorded(tmp_path / "session"), MANGLED, "void fill<float>(float*)")
    built = candidates.compile_candidate(
        reproducer, reproducer.path / "source/fill_program.cu", ARCH, tmp_path / "made.cubin"
    )
    assert built.tool.startswith("nvcc ")
    assert MANGLED in symbols.kernels_of_cubin(built.path.read_bytes())
