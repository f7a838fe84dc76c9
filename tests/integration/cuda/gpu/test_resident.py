"""On a GPU: workers that are forks, engines that are kept between verdicts, and `verify --resident`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerncap.api.verify import VerifyOptions, verify
from kerncap.replay.pool import Pool
from tests.integration.conftest import CommandLine

from .captured import ROOT, Captured, build, capture

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]
SAMPLE = ROOT / "samples" / "vector_add" / "run.py"
LIGHT = ("smoke", "oracle")


@pytest.fixture(scope="module")
def native(kerncap_of_module: CommandLine) -> Path:
    found: Captured = capture(
        kerncap_of_module, build("several.cu"), options=("-k", "kc_add", "--launch", "0:1")
    )
    return found.one("kc_add")


@pytest.fixture(scope="module")
def triton(kerncap_of_module: CommandLine) -> Path:
    options = ("-k", "^add_kernel$", "--launch", "0:1", "-o", "triton", "--no-self-check")
    done = kerncap_of_module("capture", *options, "--", sys.executable, SAMPLE, timeout=400)
    assert done.status == 0, done.stderr
    [path] = (path for path in (kerncap_of_module.folder / "triton").iterdir() if path.name[0] != ".")
    return path


@pytest.fixture
def candidate(triton: Path, tmp_path: Path) -> Path:
    path = tmp_path / "candidate.py"
    path.write_text(next((triton / "source").glob("*.py")).read_text())
    return path


@pytest.fixture
def pool() -> Iterator[Pool]:
    with Pool(keep=2, apart=True) as found:
        yield found


def options(**given: Any) -> VerifyOptions:
    """The commands that captured have another folder of what is trusted."""
    return VerifyOptions(trust=True, **given)


def kept(pool: Pool) -> int:
    *_, (_, engine) = pool._kept.values()
    worker = engine.connection._worker
    assert worker is not None
    return worker._process.pid


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def parents(pool: Pool) -> set[int]:
    """A fork's, and this process: it starts a worker itself if captured memory has no room in a fork."""
    return {os.getpid(), *(each.pid for each in pool._nurseries.values())}


def test_a_native_worker_is_a_fork_and_is_kept(native: Path, pool: Pool) -> None:
    first = verify(native, options(), pool)
    pid = kept(pool)
    assert first.passed and first.memory == "cuda"
    assert parent_of(pid) in parents(pool)
    again = verify(native, options(), pool)
    assert again.as_dict() == first.as_dict() and kept(pool) == pid


def test_a_triton_worker_is_a_fork_and_is_kept(triton: Path, pool: Pool) -> None:
    first = verify(triton, options(), pool)
    pid = kept(pool)
    assert first.passed and first.engine == "jit"
    assert parent_of(pid) in parents(pool)
    assert verify(triton, options(), pool).passed and kept(pool) == pid


def test_a_candidate_is_compiled_elsewhere_and_the_worker_kept(
    triton: Path, candidate: Path, pool: Pool
) -> None:
    plain = verify(triton, options(candidate=candidate))
    first = verify(triton, options(candidate=candidate), pool)
    assert plain.passed and first.passed, (plain.verdict, first.verdict)
    pid = kept(pool)
    text = candidate.read_text()
    candidate.write_text(text.replace("x + y", "x - y"))
    wrong = verify(triton, options(candidate=candidate), pool)
    assert text != candidate.read_text() and wrong.answer.value == "fail", wrong.verdict
    assert verify(triton, options(), pool).passed and kept(pool) == pid


def test_python_of_a_candidate_that_needs_files_is_judged_as_ever(
    triton: Path, candidate: Path, tmp_path: Path, pool: Pool
) -> None:
    data = tmp_path / "elsewhere" / "data.txt"
    data.parent.mkdir()
    data.write_text("1")
    candidate.write_text(f"{candidate.read_text()}\nopen({os.fspath(data)!r}).read()\n")
    assert verify(triton, options(candidate=candidate, stages=LIGHT), pool).passed
    assert not pool._kept  # its Python ran in the worker


def test_a_hostile_verdict_leaves_no_worker(triton: Path, candidate: Path, pool: Pool) -> None:
    assert verify(triton, options(), pool).passed
    pid = kept(pool)
    attacked = options(candidate=candidate, hostile=True, stages=LIGHT)
    assert verify(triton, attacked, pool).passed
    assert kept(pool) == pid and len(pool._kept) == 1


def test_commands_by_resident_say_what_plain_ones_say(
    kerncap_of_module: CommandLine, native: Path, triton: Path, tmp_path: Path
) -> None:
    environment = {"XDG_RUNTIME_DIR": str(tmp_path)}
    try:
        for path in (native, triton):
            alone = kerncap_of_module("verify", path)
            for _ in range(2):
                done = kerncap_of_module("verify", "--resident", path, env=environment)
                assert (done.status, done.stdout, done.stderr) == (0, alone.stdout, alone.stderr)
        both = kerncap_of_module("verify", "--resident", native, triton, env=environment)
        assert both.result_line == "Result: PASS (2 reproducers: 2 passed)"
    finally:
        stopped = kerncap_of_module("verify", "--stop", env=environment)
    assert stopped.stdout.startswith("ended: process ")
