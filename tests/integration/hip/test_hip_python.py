"""An unchanged client of hip-python, which uses dlsym: what it gave to HIPRTC is the source."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from kerncap.format import Reproducer
from tests.native.building import ROOT

from .conftest import Bench

SAMPLE = ROOT / "samples" / "hip_python_axpy"


@pytest.fixture(scope="module")
def reproducer(shared_bench: Bench) -> Path:
    pytest.importorskip("hip", reason="hip-python is not installed")
    run = shared_bench.capture("-k", "axpy", "-o", "out-hip", program=(sys.executable, SAMPLE / "run.py"))
    assert "agree with numpy" in run.plain.stdout, run.plain.stderr
    return run.path


def test_its_program_and_header_are_the_source(reproducer: Path) -> None:
    with Reproducer.open(reproducer) as opened:
        source, arguments = opened.manifest.source, opened.manifest.arguments
        text = opened.source_text()
    assert source is not None and source.build is not None and text is not None
    build = source.build
    assert (source.language, source.entry, build.tool, build.arch) == ("hip", "axpy", "hiprtc", "gfx90a")
    assert build.options == ("-O3",) and build.name_expressions == ("axpy<float>",)
    assert build.headers == {"gain.h": "source/headers/gain.h"}
    assert "a * amplified(x[i])" in text
    assert [argument.signature for argument in arguments] == ["float", "float const*", "float*", "int"]


def test_hiprtc_compiles_where_no_hipcc_is(shared_bench: Bench, reproducer: Path, tmp_path: Path) -> None:
    shutil.copytree(reproducer / "source", tmp_path / "mine")
    edited = tmp_path / "mine" / "axpy.hip"
    text = edited.read_text()
    nowhere = {"HIPCC": "/none"}
    for old, new, verdict in (
        ("a * amplified(x[i])", "amplified(x[i]) * a", "pass"),
        ("amplified(x[i])", "amplified(x[j])", "fail"),
    ):
        edited.write_text(text.replace(old, new))
        document = shared_bench.judge(reproducer, "--candidate", edited, extra=nowhere)
        assert document["result"] == verdict, document
    said = document["reasons"][0]
    assert said.startswith("HIPRTC of hip-python ") and "axpy.hip:7:" in said and "comgr" not in said


@pytest.mark.long
def test_the_verdict_follows_an_edit(shared_bench: Bench, reproducer: Path, tmp_path: Path) -> None:
    shutil.copytree(reproducer / "source", tmp_path / "mine")
    assert shared_bench.judge(reproducer, "--candidate", SAMPLE / "wrong.hip")["result"] == "fail"
    header = tmp_path / "mine" / "headers" / "gain.h"
    header.write_text(header.read_text().replace("1.25", "1.5"))
    assert shared_bench.judge(reproducer, "--candidate", header)["result"] == "fail"
