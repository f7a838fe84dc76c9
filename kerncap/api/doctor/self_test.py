"""The self-test: by each way that claims to work, a small launch is run, captured and verified.

Every step is a process of its own, with a time limit: what crashes, hangs or is missing is its result.
Nothing stays behind, and what was captured is trusted by nobody afterwards.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncap import child, scratch
from kerncap.api.doctor.self_test_programs import KERNELS, PROGRAMS
from kerncap.api.doctor.vendors import EMULATOR_VARIABLE
from kerncap.errors import KerncapError
from kerncap.log import one_line
from kerncap.report.documents.doctor import SelfTest, Step, Way

_STEP_TIMEOUT_S = 180.0
_MOST_SAID = 400


class _Failed(KerncapError):
    """A step did not do what it should; the text says why."""


@dataclass(frozen=True)
class _Kit:
    """What the steps of one way share."""

    folder: Path
    program: tuple[str, ...]  # the command that launches the kernel
    kernel: str
    environment: dict[str, str]
    python: str

    def run(self, words: Sequence[str]) -> tuple[int, str, str]:
        """Status, stdout and stderr of a process; a _Failed for one that takes too long."""
        try:
            done = child.run_text(words, cwd=self.folder, env=self.environment, timeout=_STEP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise _Failed(f"no end within {_STEP_TIMEOUT_S:.0f} s") from None
        return done.returncode, done.stdout, done.stderr

    def kerncap(self, *words: str) -> dict[str, Any]:
        """The document of a command; a _Failed with its last line if it gives none."""
        status, out, err = self.run(child.kerncap("kerncap.cli", words[0], "--json", *words[1:]))
        try:
            document = json.loads(out)
        except ValueError:
            raise _Failed(_last_line(err) or f"ended with status {status}") from None
        return dict(document)

    def alone(self) -> None:
        """The program without kerncap: whether the machine runs such a kernel at all."""
        status, _, err = self.run(self.program)
        if status:
            raise _Failed(_last_line(err) or f"ended with status {status}")

    def capture(self) -> None:
        document = self.kerncap(
            "capture", "--no-self-check", "-k", f"^{self.kernel}$", "-o", "out", "--", *self.program
        )
        if document["target_status"]:
            raise _Failed(f"under capture the program ended with status {document['target_status']}")
        if len(document["captured"]) != 1:
            raise _Failed(
                document["reason"] or f"{len(document['captured'])} launches were captured, expected one"
            )

    def replay(self) -> None:
        """Verified, not only run: poison first, then against what the program itself had."""
        [path] = [path for path in (self.folder / "out").iterdir() if not path.name.startswith(".")]
        document = self.kerncap("verify", str(path), "--python", self.python)
        if document.get("result") != "pass":
            raise _Failed(
                "; ".join(map(str, document.get("reasons", ()))) or str(document.get("summary", ""))
            )


def self_test(key: str, way: Way, python: str, emulator: str | None = None) -> SelfTest:
    """Run, capture and verify the program of the way called ``key``; skipped if the way does not work.

    ``python`` runs Triton's programs, ``emulator`` is the folder of an emulated AMD GPU.
    """
    if not way.works:
        return SelfTest(way=way.name, result="skipped", reason=way.reason)
    if key == "triton-hip" and emulator:
        return SelfTest(way=way.name, result="skipped", reason="torch does not know an emulated GPU")
    if key == "hip" and not _is_installed("hip"):
        reason = "hip-python is not installed (doctor's line on it names the version that fits)"
        return SelfTest(way=way.name, result="skipped", reason=reason)
    text, words, changes = PROGRAMS[key]
    prefix = (os.path.join(os.path.abspath(emulator), "run"),) if emulator and key == "hip" else ()
    interpreter = python if key.startswith("triton") else sys.executable
    done: list[Step] = []
    with scratch.temporary("doctor") as name:
        folder = Path(name)
        program = folder / "kerncap_doctor_program.py"
        program.write_text(text)
        if emulator:
            changes = {**changes, EMULATOR_VARIABLE: os.path.abspath(emulator)}
        environment = _environment(folder, changes)
        command = (*prefix, *child.python(interpreter, program, *words))
        kit = _Kit(folder, command, KERNELS[key], environment, python)
        for step, action in (("run", kit.alone), ("capture", kit.capture), ("verify", kit.replay)):
            started = time.monotonic()
            try:
                action()
            except (KerncapError, OSError, KeyError, ValueError) as error:
                reason = one_line(str(error).replace(name, "."), _MOST_SAID)
                return SelfTest(way=way.name, result="fail", step=step, reason=reason, steps=tuple(done))
            done.append(Step(name=step, seconds=round(time.monotonic() - started, 3)))
    return SelfTest(way=way.name, result="pass", steps=tuple(done))


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # one that was ruled out
        return False


def _environment(folder: Path, changes: Mapping[str, str | None]) -> dict[str, str]:
    """The user's own, with caches and configuration in ``folder``: neither is to remember the test."""
    found = {name: value for name, value in os.environ.items() if name != "KERNCAP_SESSION"}
    found |= {"XDG_CONFIG_HOME": str(folder / "config"), "TRITON_CACHE_DIR": str(folder / "cache")}
    for name, value in changes.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = value
    return found


def _last_line(text: str) -> str:
    """The line that says what went wrong: the last one that is not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
