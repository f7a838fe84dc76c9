"""What a recipe may hold: nothing that reaches a file, a plugin, another program or a shell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.format.build_options import is_accepted, is_plain_path, split_accepted


@pytest.mark.parametrize(
    "option",
    ["-DA", "-DA=1", '-DNAME="a b"', "-DF(x)=x+1", "-UNDEBUG", "-std=c++17", "--std=c++20", "-G", "-lineinfo",
     "--use_fast_math", "-fmad=false", "-maxrregcount=64", "--expt-relaxed-constexpr", "--extended-lambda",
     "-Xptxas=-O3,--maxrregcount=32", "--ptxas-options=-v", "-include=source/a/b.h"],
)  # fmt: skip
def test_what_changes_the_code_may_stay(option: str) -> None:
    assert is_accepted("nvcc", option) and is_accepted("nvrtc", option)


@pytest.mark.parametrize(
    "option",
    ["-o/x", "-ccbin=/bin/sh", "--compiler-bindir=/x", "-Xcompiler=-fplugin=/x.so", "-Xcompiler=-B/x",
     "-Xptxas=-o,/x", "-Xptxas=--output-file=/x", "--options-file=/x", "-I/x", "-include=/etc/passwd",
     "-DX=$(id)", "-DX=`id`", "-DX=a\\", "-DX=a\nb", "-D", "-DX Y", "--keep", "-dir=/x", "--time=/x",
     "-Xlinker=/x",
     "--run",
     "-lib", "@/x", "x.cu", "", "-gencode=arch=compute_90,code=sm_90", "--dryrun", "-M", "-MF=/x"],
)  # fmt: skip
def test_what_reaches_further_may_not(option: str) -> None:
    assert not is_accepted("nvcc", option) and not is_accepted("nvrtc", option)


@pytest.mark.parametrize(
    "option",
    ["-DA=1", "-UNDEBUG", "-std=c++17", "-O3", "-Ofast", "-O", "-g", "-gline-tables-only", "-ffast-math",
     "-fno-signed-zeros", "-ffp-contract=fast", "-munsafe-fp-atomics", "-mcode-object-version=5",
     "-mno-cumode", "-mllvm=-amdgpu-early-inline-all=true", "--gpu-max-threads-per-block=256", "-Wall",
     "-Wno-unused-value",
     "-fgpu-default-stream=per-thread", "-include=source/a/b.h"],
)  # fmt: skip
def test_what_changes_hip_code_may_stay(option: str) -> None:
    assert is_accepted("hipcc", option) and is_accepted("hiprtc", option)


@pytest.mark.parametrize(
    "option",
    ["-o/x", "-ox", "-fplugin=x.so", "-fpass-plugin=x.so", "-Xclang", "-Xclang=-load", "-mllvm=-load=x.so",
     "-mllvm=-o=x", "-B/x", "-I/x", "-include=/etc/passwd", "--rocm-path=/x", "-Wl,-x", "-Wp,-MD,x",
     "-Wa,x", "-save-temps",
     "--offload-arch=gfx90a", "-ivfsoverlay=x", "-DX=$(id)", "-DX=`id`", "@x", "x.hip", "", "-specs=x",
     "-fuse-ld=x", "--config=x", "-fcrash-diagnostics-dir=x", "-fprofile-generate=x", "-c", "-E",
     "-emit-llvm"],
)  # fmt: skip
def test_what_reaches_further_in_clang_may_not(option: str) -> None:
    assert not is_accepted("hipcc", option) and not is_accepted("hiprtc", option)


def test_the_tools_differ() -> None:
    assert split_accepted("nvcc", ["-default-device", "-O2", "-DA"]) == (("-O2", "-DA"), ("-default-device",))
    assert split_accepted("nvrtc", ["-default-device", "-O2", "-DA"]) == (
        ("-default-device", "-DA"),
        ("-O2",),
    )


@given(st.text(max_size=60))
def test_no_accepted_option_holds_what_a_shell_reads(text: str) -> None:
    for tool in ("nvcc", "nvrtc", "hipcc"):
        for option in (text, f"-D{text}", f"-DA={text}", f"-Xptxas={text}", f"-include=source/{text}",
                       f"-mllvm=-amdgpu-{text}", f"-W{text}"):  # fmt: skip
            if is_accepted(tool, option):
                assert not set(option) & set("$`\\\n\r\0")
                assert option.startswith("-")


@pytest.mark.parametrize(
    ("path", "plain"),
    [("/home/u/a b/x.cu", True), ("src/a+b.cu", True), ("a$(id).cu", False), ("a`id`.cu", False),
     ("-x.cu", False), ('a".cu', False), ("a\\.cu", False), ("", False), ("a\n.cu", False)],
)  # fmt: skip
def test_paths_that_a_compiler_may_be_given(path: str, plain: bool) -> None:
    assert is_plain_path(path) == plain
