"""A target under capture, run so that its own status and streams can be told from kerncap's."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kerncap.format import Reproducer

# The program's status and streams, whatever becomes of the rest; kept where no disk of the test's fills up.
KEEPER = '"$@" >"$KEPT/stdout" 2>"$KEPT/stderr"; echo $? >"$KEPT/status"'
_ADDRESS = re.compile(r"0x[0-9a-f]+")  # differ from run to run
STATUSES = (0, 1, 2, 3, 4, 5)  # docs/reference/cli.md; 70 is an internal error


@dataclass(frozen=True)
class Target:
    """A program of one kind: Triton's, a CUDA or a HIP one."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ended:
    """How a target ended."""

    status: str
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Run:
    """One run of kerncap around a target."""

    ended: Ended | None  # None: it was not started
    status: int
    said: str
    captured: list[Path] = field(default_factory=list)


def _environment(target: Target, kept: Path, extra: Mapping[str, str]) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AMD_GPU_")}
    return {**environment, **target.environment, "KEPT": str(kept), **extra}


def _limit(file_bytes: int | None) -> None:
    if file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))


def _ended(kept: Path) -> Ended | None:
    if not (kept / "status").exists():
        return None
    return Ended(*(_ADDRESS.sub("0x", (kept / name).read_text()) for name in ("status", "stdout", "stderr")))


def plain(target: Target, kept: Path, file_bytes: int | None = None) -> Ended:
    """The target without kerncap."""
    kept.mkdir(parents=True)
    command = ["sh", "-c", KEEPER, "sh", *target.command]
    subprocess.run(
        command, env=_environment(target, kept, {}), check=False, timeout=300, stdin=subprocess.DEVNULL,
        preexec_fn=lambda: _limit(file_bytes),
    )  # fmt: skip
    ended = _ended(kept)
    assert ended is not None
    return ended


def captured(
    target: Target,
    output: Path,
    kept: Path,
    *options: str,
    file_bytes: int | None = None,
    inner: tuple[str, ...] = (),
    extra: Mapping[str, str] | None = None,
) -> Run:
    """The target under `kerncap capture`, whose output folder is ``output``.

    ``file_bytes`` limits every file, of kerncap and of the target; ``inner`` stands before the program.
    """
    kept.mkdir(parents=True)
    command = [
        sys.executable, "-m", "kerncap", "capture", "-o", str(output), "--no-self-check", *target.options,
        *options, "--", "sh", "-c", KEEPER, "sh", *inner, *target.command,
    ]  # fmt: skip
    done = subprocess.run(
        command,
        env=_environment(target, kept, extra or {}),
        cwd=kept,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: _limit(file_bytes),
    )
    found = [path.parent for path in output.glob("*/manifest.json")] if output.is_dir() else []
    return Run(_ended(kept), done.returncode, done.stdout + done.stderr, found)


def check(run: Run, expected: Ended, output: Path) -> str:
    """The promises of a capture on a bad disk; a word for what became of it."""
    assert run.status in STATUSES and "Traceback" not in run.said, (run.status, run.said)
    left = sorted(path.name for path in output.iterdir()) if output.is_dir() else []
    if run.ended is None:  # before anything was started
        assert run.status == 2 and "output folder" in run.said, (run.status, run.said)
        assert left == [], left
        return "refused"
    assert run.ended == expected, (run.ended, run.said)
    if expected.status != "0\n":  # the limit is too narrow for the program itself
        return "ended by its own"
    for path in run.captured:
        with Reproducer.open(path) as reproducer:
            reproducer.verify()
    rest = set(left) - {path.name for path in run.captured}
    for name in rest:
        said = f"kerncap seal {output / name}" in run.said
        assert name.startswith(".kerncap-session-") and said, (name, run.said)
    if run.captured:
        return "captured"
    assert run.status == 1 and run.said.count("nothing captured: ") == 1, (run.status, run.said)
    reason = next(line for line in run.said.splitlines() if "nothing captured: " in line)
    words = ("no space", "No space", "too large", "limit on file", "disk", "could be recorded", "can't be")
    assert any(word in reason for word in words), run.said
    return "kept" if rest else "failed"
