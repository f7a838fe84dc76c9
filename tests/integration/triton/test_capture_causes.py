"""Nothing captured has its cause; a listing shows what there is."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine
from tests.parameters import first_of

ADD = Path(__file__).parent / "targets" / "capture_add.py"


@first_of(
    ("arguments", "cause"),
    [
        (["-k", "^ad$"], "-k '^ad$' matches none of 2 kernels; nearest: add"),
        (["-k", "conv"], "-k 'conv' matches none of 2 kernels: add, scale"),
        (["--where", "m > 3"], r"--where filtered out all 4 launches that it saw (where: no name m)"),
        (["-k", "add", "--where", "x.ndim == 2"], "--where filtered out all 3 launches"),
        (["-k", "add", "--launch", "3"], "no kernel that matched was launched that often (the most is 3"),
        (["-k", "add", "--max-size", "1KiB"], "more than --max-size 1 KiB: x"),
        (["--when", "nonfinite"], "none of 4 launches showed a non-finite value"),
    ],
)
def test_the_cause(kerncap: CommandLine, arguments: list[str], cause: str) -> None:
    done = kerncap("capture", *arguments, "--no-self-check", "--", sys.executable, ADD)
    assert done.status == 1
    assert cause in done.stderr
    assert not (kerncap.folder / "kerncap-out").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "cause"),
    [
        (["true"], "no Python process was hooked: the program starts no Python"),
        ([sys.executable, "-I", ADD], "`-I` makes Python ignore PYTHONPATH"),
        ([sys.executable, "-c", "print(1)"], "no Triton in the program: one Python process ran, and none"),
        (
            [sys.executable, "-c", "import triton"],
            "no Triton kernel was launched, though one Python process imported Triton",
        ),
    ],
)
def test_the_cause_without_any_launch(kerncap: CommandLine, command: list[str | Path], cause: str) -> None:
    done = kerncap("capture", "--json", "--", *command)
    assert done.status == 1 and re.search(cause, done.document["reason"]), done.document["reason"]


def test_where_selects_and_counts_ordinals_after_it(kerncap: CommandLine) -> None:
    done = kerncap(
        "capture", "--json", "-k", "add", "--where", "n >= 2000 and x.shape[0] == n and grid[0] > 1",
        "--launch", "1", "--no-self-check", "--", sys.executable, ADD,
    )  # fmt: skip
    [path] = done.document["captured"]
    assert 'n": ' not in path  # a folder, not a document
    manifest = (Path(path) / "manifest.json").read_text()
    assert re.search(r'"name": "n".{0,80}"value": "3000"', manifest, re.DOTALL)


@pytest.mark.long
def test_without_a_selector_the_rest_comes_with_commands(kerncap: CommandLine) -> None:
    target = kerncap.folder / "many.py"
    kernels = "".join(f"@triton.jit\ndef k{n}(x):\n    tl.store(x, {n})\n\n" for n in range(12))
    calls = "".join(f"k{n}[(1,)](x)\n" for n in range(12))
    target.write_text(
        f"import torch, triton\nimport triton.language as tl\n{kernels}x = torch.zeros(4)\n{calls}"
    )
    done = kerncap("capture", "--no-self-check", "--", sys.executable, target)
    assert done.status == 0
    assert done.stderr.count("kerncap: captured k") == 10
    rows = [line for line in done.stderr.splitlines() if line.startswith("k1") and "limit" in line]
    assert len(rows) == 2
    ready = shlex.split(rows[0][rows[0].index("kerncap capture") :])
    assert ready[:4] == ["kerncap", "capture", "-k", "^k10$"]
    again = kerncap(*ready[1:2], "--no-self-check", *ready[2:])
    assert "captured k10 " in again.stderr


@pytest.mark.long
def test_list_counts_and_times_and_captures_nothing(kerncap: CommandLine) -> None:
    done = kerncap("list", "--json", "--", sys.executable, ADD)
    assert done.status == 0
    document = done.document
    rows = {row["name"]: row for row in document["kernels"]}
    assert set(rows) == {"add", "scale"}
    assert (rows["add"]["launches"], rows["scale"]["launches"]) == (3, 1)
    assert document["kernels"][0]["name"] == "add", "the most expensive first"
    assert rows["add"]["time_ns"] > rows["scale"]["time_ns"] > 0
    assert sum(row["share"] for row in document["kernels"]) == pytest.approx(1)
    assert list(kerncap.folder.iterdir()) == []
    assert rows["scale"]["command"] == f"kerncap capture -k '^scale$' -- {sys.executable} {ADD}"


@pytest.mark.long
def test_list_passes_output_and_status_through(kerncap: CommandLine) -> None:
    script = "import sys; from capture_add import main; main([64]); sys.exit(5)"
    done = kerncap("list", "--", sys.executable, "-c", script, env={"PYTHONPATH": str(ADD.parent)})
    assert done.status == 5 and done.stdout == "sum 4032.0\n"
    row = re.search(r"^(\d) +add +1 +1 ", done.stderr, re.MULTILINE)
    assert row and re.search(rf"^{row[1]} +kerncap capture -k '\^add\$' -- ", done.stderr, re.MULTILINE)


@pytest.mark.long
def test_without_values_nothing_is_said_to_fail(kerncap: CommandLine) -> None:
    done = kerncap("capture", "-k", "add", "--no-values", "--", sys.executable, ADD)
    assert done.status == 0
    assert "[self-check: skipped: captured with --no-values" in done.stderr
    assert "next: kerncap inspect " in done.stderr


def test_a_target_that_empties_the_output_folder(kerncap: CommandLine) -> None:
    target = kerncap.folder / "wipes.py"
    target.write_text("import shutil\nshutil.rmtree('out')\n")
    done = kerncap("capture", "-o", "out", "--", sys.executable, target)
    assert done.status == 1
    assert "nothing captured: the session in out was deleted while the program ran" in done.stderr


EXPANDED = """import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def double(g, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(g + i, mask=i < n) * 2, mask=i < n)


behind = np.arange(1, 301, dtype=np.float32)
g = torch.from_numpy(behind[:1]).expand(300)  # one element, as the gradient of a sum
double[(3,)](g, torch.zeros(300), 300, BLOCK=128)
"""


def test_verify_is_next_after_a_failed_self_check_and_has_the_cause(kerncap: CommandLine) -> None:
    (kerncap.folder / "expanded.py").write_text(EXPANDED)
    done = kerncap("capture", "--", sys.executable, kerncap.folder / "expanded.py")
    # What lies behind the element in the replay is other memory, or none at all.
    assert re.search(r"\[self-check: fail: (out: |the kernel died with SIGSEGV)", done.stderr), done.stderr
    [verify] = re.findall(r"next: kerncap (verify kerncap-out/\S+)", done.stderr)
    judged = kerncap(*verify.split())
    assert judged.status == 1
    assert (
        "sanitizer: oob: load of 4 bytes at g + 1 (byte 4): just past the end"
        in judged.stdout.splitlines()[-1]
    )
