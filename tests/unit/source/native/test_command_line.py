"""Command lines of nvcc, NVRTC and build systems, taken apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerncap.capture.source.native.command_line import parse

HERE = Path("/project/dir")


@pytest.mark.parametrize(
    ("words", "folders"),
    [
        (["-I", "a"], [("/project/dir/a", "angle")]),
        (["-Ia"], [("/project/dir/a", "angle")]),
        (["-I=a"], [("/project/dir/a", "angle")]),
        (["--include-path=/a,b"], [("/a", "angle"), ("/project/dir/b", "angle")]),
        (["-isystem", "/s", "-isystem/t"], [("/s", "system"), ("/t", "system")]),
        (["-iquote", "../q"], [("/project/q", "quote")]),
        (["-Ia", "-I", "a"], [("/project/dir/a", "angle")]),
    ],
)
def test_include_folders(words: list[str], folders: list[tuple[str, str]]) -> None:
    parsed = parse("nvcc", words, HERE)
    assert list(parsed.folders) == folders
    assert parsed.options == () and parsed.left_out == ()


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["-D", "A=1", "-DB", "--define-macro=C", "-U", "D"], ("-DA=1", "-DB", "-DC", "-UD")),
        (["-std", "c++17", "-O", "3"], ("-std=c++17", "-O3")),
        (["-maxrregcount", "32", "-Xptxas", "-v"], ("-maxrregcount=32", "-Xptxas=-v")),
        (["-Xcompiler", "-fPIC", "-Xcompiler=-DX=1"], ("-Xcompiler=-DX=1",)),
        (["-o", "x.o", "-c", "x.cu", "-MD", "-MF", "x.d", "-G"], ("-G",)),
    ],
)
def test_options_have_one_spelling(words: list[str], options: tuple[str, ...]) -> None:
    assert parse("nvcc", words, HERE).options == options


def test_architectures_are_taken_out_and_known() -> None:
    words = ["-gencode", "arch=compute_80,code=sm_80", "-gencode=arch=compute_90a,code=[sm_90a,compute_90a]",
             "-arch", "sm_75"]  # fmt: skip
    parsed = parse("nvcc", words, HERE)
    assert parsed.architectures == ("sm_80", "sm_90a", "sm_75")
    assert parsed.options == ()


def test_what_a_rebuild_leaves_out_is_said() -> None:
    parsed = parse("nvcc", ["--frobnicate", "-fPIC", "-Wall", "-DX=$(id)", "-rdc=true"], HERE)
    assert parsed.left_out == ("--frobnicate", "-DX=$(id)")
    assert parsed.relocatable


def test_forced_headers_and_response_files(tmp_path: Path) -> None:
    (tmp_path / "a.rsp").write_text("-Ix -DA=1\n-include 'y z.h'")
    parsed = parse("nvcc", ["@a.rsp", "--options-file", "none.rsp"], tmp_path)
    assert parsed.folders == ((str(tmp_path / "x"), "angle"),)
    assert (parsed.options, parsed.forced) == (("-DA=1",), ("y z.h",))
