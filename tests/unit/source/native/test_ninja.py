"""`build.ninja` as PyTorch's extensions and CMake write it."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kerncap.capture.languages import SourceRequest, find, is_known
from kerncap.capture.source.native import ninja

TORCH = r"""ninja_required_version = 1.3
cxx = c++
nvcc = /usr/local/cuda/bin/nvcc
# a comment
cuda_cflags = -DTORCH_EXTENSION_NAME=mine -isystem {folder}/torch/include -I{folder}/inc $
    -std=c++17 --compiler-options '-fPIC' --expt-relaxed-constexpr
cuda_post_cflags = -gencode=arch=compute_90,code=sm_90 -lineinfo

rule cuda_compile
  depfile = $out.d
  deps = gcc
  command = $nvcc --generate-dependencies-with-compile --dependency-output $out.d $cuda_cflags $
      -c $in -o $out $cuda_post_cflags

rule link
  command = $cxx $in -o $out

build cuda.cuda.o: cuda_compile {folder}/my$ kernels.cu | other.h || later
build mine.so: link cuda.cuda.o
default mine.so
"""


def test_a_torch_extension(tmp_path: Path) -> None:
    torch = tmp_path / "torch" / "include"
    (torch / "ATen").mkdir(parents=True)
    (torch / "ATen" / "ATen.h").write_text('#include "more.h"\n')
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "mine.h").write_text("")
    (tmp_path / "my kernels.cu").write_text(
        '#include <ATen/ATen.h>\n#include "mine.h"\nextern "C" __global__ void k(int *x) { }\n'
    )
    (tmp_path / "build.ninja").write_text(TORCH.replace("{folder}", str(tmp_path)))
    request = SourceRequest("k", mapped_from=str(tmp_path / "mine.so"))
    assert is_known(request)
    found = find(request)
    assert {file.path for file in found.files} == {"my kernels.cu", "inc/mine.h"}
    assert found.build is not None
    assert found.build.options == (
        "-DTORCH_EXTENSION_NAME=mine", "-std=c++17", "--expt-relaxed-constexpr", "-lineinfo",
    )  # fmt: skip
    assert found.build.external == ("ATen/ATen.h",)
    assert [folder.stored for folder in found.build.include_dirs] == [None, "source/inc"]
    assert not any("leaves out" in note for note in found.notes)


CMAKE = """include CMakeFiles/rules.ninja
build CMakeFiles/app.dir/src/k.cu.o: CUDA_COMPILER__app_unscanned_Release ../src/k.cu || order
  DEFINES = -DVALUE=4
  FLAGS = -O3 -DNDEBUG
  INCLUDES = -I../include
"""
RULES = """rule CUDA_COMPILER__app_unscanned_Release
  command = cd /x && ${LAUNCHER}/usr/bin/nvcc -forward-unknown-to-host-compiler $DEFINES $INCLUDES $FLAGS $
      -x cu -c $in -o $out
"""


def test_cmake(tmp_path: Path) -> None:
    (tmp_path / "build" / "CMakeFiles").mkdir(parents=True)
    (tmp_path / "build" / "build.ninja").write_text(CMAKE)
    (tmp_path / "build" / "CMakeFiles" / "rules.ninja").write_text(RULES)
    ((source, words),) = ninja.compilations(str(tmp_path / "build" / "build.ninja"))
    assert source == str(tmp_path / "src" / "k.cu")
    assert words[:2] == ("/usr/bin/nvcc", "-forward-unknown-to-host-compiler")
    assert {"-DVALUE=4", "-I../include", "-O3", "-DNDEBUG"} <= set(words)


@given(st.text(alphabet="build rule:=$\n |include.ujcommand{}", max_size=120))
def test_any_text_is_read(text: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "build.ninja"
        path.write_text(text)
        list(ninja.compilations(str(path)))


def test_a_file_that_includes_itself_ends(tmp_path: Path) -> None:
    path = tmp_path / "build.ninja"
    path.write_text("include build.ninja\na = $b\nb = $a\nrule r\n  command = $a\nbuild x: r k.cu\n")
    assert list(ninja.compilations(str(path))) == []
