"""`pytest --kerncap-sanitize` on a suite that somebody else might have."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

SUITE = """
import os
os.environ["TRITON_INTERPRET"] = "1"
import pytest, torch, triton
import triton.language as tl

@triton.jit
def shift(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o + 1, mask=o < n), mask=o < n)

@triton.jit
def puzzling(x, B: tl.constexpr):
    tl.store(x + tl.arange(0, B), 1)

@pytest.fixture
def launched():
    x = torch.arange(64.)
    shift[(2,)](x, x.clone(), 64, B=32)
    yield x

@pytest.mark.parametrize("n", [63, 64, 62, 64])
def test_shift(n):
    x, y = torch.arange(64.), torch.zeros(64)
    shift[(2,)](x, y, n, B=32)
    assert y[:62].equal(x[1:63])

def test_fails_on_its_own():
    x = torch.zeros(64)
    shift[(2,)](x, x.clone(), 64, B=32)
    assert False, "its own reason"

def test_with_a_fixture(launched):
    pass

def test_without_kernels():
    pass

def test_puzzling():
    puzzling[(1,)](torch.zeros(16), B=16)

@pytest.mark.xfail(strict=True)
def test_expected():
    x = torch.zeros(64)
    shift[(2,)](x, x.clone(), 64, B=32)
"""

INI = """
[pytest]
filterwarnings =
    error
    # an editable install of kerncap has a finder that is imported before pytest
    ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_suite.py").write_text(SUITE, encoding="utf-8")
    (folder / "pytest.ini").write_text(INI, encoding="utf-8")
    installed = any(point.value == "kerncap.pytest_plugin" for point in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "kerncap.pytest_plugin"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *options],
        cwd=folder,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )


def failed_tests(finished: subprocess.CompletedProcess[str]) -> list[str]:
    lines = finished.stdout.splitlines()
    return sorted(line.split("::")[1].split(" ")[0] for line in lines if line.startswith("FAILED"))


def test_a_finding_fails_its_test(tmp_path: Path) -> None:
    finished = run(tmp_path, "--kerncap-sanitize")
    assert failed_tests(finished) == [
        "test_fails_on_its_own",
        "test_shift[64_0]",
        "test_shift[64_1]",
        "test_with_a_fixture",
    ], finished.stdout + finished.stderr
    assert "4 passed, 1 xfailed" in finished.stdout
    assert "its own reason" in finished.stdout  # beside the finding
    for function in ("test_shift", "test_fails_on_its_own", "launched"):  # where each launch came from
        assert f" in {function}\n" in finished.stdout
    section = finished.stdout[finished.stdout.index("kerncap sanitize:\nshift[2, 1, 1]") :]
    assert "error[oob]: " in section and "test_suite.py:10:" in section


@pytest.mark.long
def test_only_the_checks_that_are_asked_for_and_a_launch_that_was_not_checked(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import kerncap.sanitizer.engine as engine\n"
        "whole = engine.sanitize\n"
        "def sanitize(launch, *rest):\n"
        "    if launch.kernel == 'puzzling': raise ZeroDivisionError('in the analysis')\n"
        "    return whole(launch, *rest)\n"
        "engine.sanitize = sanitize\n",
        encoding="utf-8",
    )
    chosen = ("-k", "test_shift or test_puzzling", "-W", "default")
    finished = run(tmp_path, "--kerncap-sanitize=race,overflow", *chosen)
    assert finished.returncode == 0, finished.stdout
    assert "kerncap sanitize: launches: 5, findings: 0" in finished.stdout
    assert "SanitizeWarning: puzzling could not be sanitised: ZeroDivisionError" in finished.stdout


@pytest.mark.long
def test_a_finding_that_a_log_has_fails_no_test(tmp_path: Path) -> None:
    run(tmp_path, "--collect-only")  # writes the suite
    log = tmp_path / "known.sarif"
    command = [sys.executable, "-m", "pytest", "-q", "-k", "test_shift", "test_suite.py"]
    subprocess.run(
        [sys.executable, "-m", "kerncap", "sanitize", "--sarif", log, "--", *command],
        cwd=tmp_path, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, capture_output=True, check=False,
    )  # fmt: skip
    known = ("--kerncap-sanitize", f"--kerncap-baseline={log}", "-k", "test_shift")
    finished = run(tmp_path, *known)
    assert finished.returncode == 0 and "findings: 0, undecided: 0, known: 2" in finished.stdout, (
        finished.stdout
    )
    in_a_worker = run(tmp_path, *known, "-n", "1")  # which prints no summary
    assert in_a_worker.returncode == 0 and "4 passed" in in_a_worker.stdout, in_a_worker.stdout
    finished = run(tmp_path, "--kerncap-sanitize", "--kerncap-baseline=test_suite.py")
    assert finished.returncode == 4 and "--kerncap-baseline: test_suite.py: not JSON" in finished.stderr


def test_a_check_that_there_is_not(tmp_path: Path) -> None:
    finished = run(tmp_path, "--kerncap-sanitize=oob,raec")
    assert finished.returncode == 4
    assert "raec is not a check; choose from oob, race," in finished.stderr


def test_without_the_option_it_costs_nothing() -> None:
    code = (
        "import sys, kerncap.pytest_plugin; "
        "print([name for name in ('numpy', 'msgspec', 'torch', 'kerncap.sanitizer') if name in sys.modules])"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert finished.stdout == "[]\n"
