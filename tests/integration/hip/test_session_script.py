"""tools/amd_session.sh: what each step said, as a table; a step that went wrong is its status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native.building import ROOT

from .conftest import Bench

LINK = """\
#!/bin/bash
# hipcc, which links with the ROCm of the emulated GPU.
export HIP_PLATFORM=amd
for word in "$@"; do [[ $word == -c || $word == --version ]] && exec {hipcc} "$@"; done
made=${{@: -1}}
{hipcc} "${{@:1:$#-2}}" -c -o "$made.o"
g++ "$made.o" -o "$made" -Wl,--allow-shlib-undefined -L{libraries} -l:libamdhip64.so.6
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def session(folder: Path, *steps: str, **variables: str) -> tuple[int, dict[str, str], Path]:
    """The exit status, the result by the name of the step, and where the table is."""
    found = f"{folder}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": found, "OUT": str(folder / "out"), **variables}
    script = [str(ROOT / "tools/amd_session.sh"), *steps]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False, timeout=600)
    table = folder / "out" / "table.md"
    lines = [line.split(" | ") for line in table.read_text().splitlines() if line.startswith("| ")]
    return done.returncode, {cells[0].strip("| "): cells[1] for cells in lines[1:]}, table


def test_what_went_wrong_is_in_the_table_and_the_status(tmp_path: Path) -> None:
    fails = '[ "$2" = --self-test ] && { echo "Result: FAIL (1 | 2)"; exit 1; }\necho "$HOME/x: fine"\n'
    program(tmp_path / "bin" / "kerncap", f"#!/bin/sh\n{fails}")
    status, rows, table = session(tmp_path, "doctor", "self-test", HOME="/home/somebody")
    assert status == 1 and rows == {"doctor": "pass", "self-test": "**FAIL**, status 1"}
    text = table.read_text()
    assert r"| Result: FAIL (1 \| 2) |" in text and "| ~/x: fine |" in text and "somebody" not in text
    assert session(tmp_path, "doctor")[0] == 0


@pytest.mark.long
def test_a_program_of_hipcc_on_the_emulated_gpu(bench: Bench, tmp_path: Path) -> None:
    rig = bench.rig
    program(tmp_path / "hipcc", LINK.format(hipcc=rig.hipcc, libraries=rig.library_dir))
    status, rows, table = session(
        tmp_path, "doctor", "hip", "triton", ARCH="gfx90a", LAUNCHER=" ".join(rig.run_prefix),
        HIPCC=str(tmp_path / "hipcc"), KERNCAP_AMD_EMULATOR=str(rig.folder),
    )  # fmt: skip
    assert status == 0, table.read_text()
    what = ("compile", "list", "capture", "replay", "unedited candidate", "wrong candidate fails")
    wanted = dict.fromkeys(("doctor", *(f"hip: {each}" for each in what)), "pass")
    assert {name: rows[name] for name in wanted} == wanted
