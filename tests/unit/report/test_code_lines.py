"""Lines of the source for addresses of the code, in `inspect --at` and in a report."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from kerncap.api.report import report
from kerncap.cli.inspect import command
from kerncap.errors import UsageError
from tests.unit.replay.native import Native
from tests.unit.source.native.conftest import image

# Rows 16 bytes apart, the first two of one line; the code has 128 bytes.
CUBIN = image(["step"], ["/src"], [("k.cu", 1), ("h.cuh", 1)], [[(1, 5), (1, 5), (2, 9)]])
NO_LINES = image(["step"], ["/src"], [("k.cu", 1)], [])


def sealed(code: bytes, folder: Path) -> Path:
    made = Native("step", code={"cubin": code})
    return made.array(np.zeros(4, dtype=np.float32)).seal(folder)


def test_inspect_says_the_line_of_an_offset(tmp_path: Path) -> None:
    path = str(sealed(CUBIN, tmp_path))
    words = ["--at", "0", "--at", "0x1f", "--at", "32", "--at", "0x80", path]
    shown = CliRunner().invoke(command, words, standalone_mode=False).stdout
    lines = re.search(r"^Lines\n((?:  .*\n)+)", shown, re.MULTILINE)
    assert lines is not None
    assert lines[1].split() == [
        "+0x0", "/src/k.cu:5", "+0x1f", "/src/k.cu:5", "+0x20", "/src/h.cuh:9",
        "+0x80", "no", "line", "of", "the", "kernel's", "source",
    ]  # fmt: skip
    document = json.loads(CliRunner().invoke(command, ["--json", *words], standalone_mode=False).stdout)
    assert document["places"][1:3] == [
        {"offset": 31, "file": "/src/k.cu", "line": 5},
        {"offset": 32, "file": "/src/h.cuh", "line": 9},
    ]
    assert document["places"][3] == {"offset": 128, "file": None, "line": None}


def test_without_the_option_no_image_is_read(tmp_path: Path) -> None:
    document = CliRunner().invoke(
        command, ["--json", str(sealed(b"no image", tmp_path))], standalone_mode=False
    )
    assert "places" not in json.loads(document.stdout)


@pytest.mark.parametrize(
    ("code", "message"),
    [(NO_LINES, "compile the program with -lineinfo"), (CUBIN[:-100], "the lines of its code can't be read")],
)
def test_what_has_no_lines_says_so(tmp_path: Path, code: bytes, message: str) -> None:
    result = CliRunner().invoke(command, ["--at", "0", str(sealed(code, tmp_path))], standalone_mode=False)
    assert isinstance(result.exception, UsageError) and message in str(result.exception)
    assert "\n" not in str(result.exception)


@pytest.mark.parametrize("offset", ["-1", "x", "0x1000000000000", ""])
def test_an_offset_is_a_number_of_bytes(tmp_path: Path, offset: str) -> None:
    result = CliRunner().invoke(command, [f"--at={offset}", str(tmp_path)])
    assert result.exit_code == 2 and "is not a number of bytes" in result.output


def test_a_report_lists_the_lines_of_the_code(tmp_path: Path) -> None:
    page = report(sealed(CUBIN, tmp_path), tmp_path / "page.html").path.read_text()
    assert re.search(r"\+0x000000 +32 bytes +/src/k\.cu:5", page)
    assert re.search(r"\+0x000020 +96 bytes +/src/h\.cuh:9", page)
    page = report(sealed(CUBIN[:-100], tmp_path / "other"), tmp_path / "page.html").path.read_text()
    assert "no ELF image that can be shown" in page
    damaged = bytearray(CUBIN)
    damaged[64 + 4] = 9  # the line program comes first after the header: its version
    page = report(sealed(bytes(damaged), tmp_path / "third"), tmp_path / "page.html").path.read_text()
    assert "its lines of the source can't be shown: a line program of DWARF version 9" in page.replace(
        "\\u0027", "'"
    )
