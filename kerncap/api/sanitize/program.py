"""Run a program, and check every Triton launch that it makes."""

from __future__ import annotations

import json
import os
import secrets
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from kerncap import child, env, scratch
from kerncap.capture.target import Target, TargetResult, block_signals_in_this_thread
from kerncap.errors import BackendUnavailable
from kerncap.replay.choose_engine import probe
from kerncap.sanitizer.findings import HostRead, LaunchReport, Program
from kerncap.sanitizer.live.judged_once import Engine, Judge
from kerncap.sanitizer.live.target_socket import LiveServer
from kerncap.sanitizer.options import Options
from kerncap.sanitizer.sources.hook_messages import Session

SESSION_FILE = "sanitize.json"


@dataclass(frozen=True)
class LiveOptions:
    """``target``: what to compile for (``"cuda:90"``, ``"hip:gfx942"``); None: the GPU here, or cuda:90."""

    analysis: Options = field(default_factory=Options)
    target: str | None = None
    every_configuration: bool = True  # of an autotuner; False: the one that runs
    fresh: bool = True  # fill what `torch.empty` gives, so that reads of unwritten memory are seen
    stdout_to_stderr: bool = False


@dataclass(frozen=True)
class SanitizeResult:
    """``target_status`` is the target's own exit status; ``notes`` are for people."""

    reports: tuple[LaunchReport, ...]
    target_status: int = 0
    notes: tuple[str, ...] = ()
    host_reads: tuple[HostRead, ...] = ()
    needs_bytes: int = 0  # see `Program`

    @property
    def program(self) -> Program:
        return Program(self.target_status, self.host_reads, self.needs_bytes)


def sanitize_command(
    command: Sequence[str],
    options: LiveOptions | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    engine: Engine | None = None,
) -> SanitizeResult:
    """Run ``command`` with its output untouched, and judge the launches of all its Python processes.

    Launches on a GPU run as they would. Launches on CPU tensors are carried out by kerncap: no GPU and no
    environment variable is needed. What goes wrong in the analysis is a note in that launch's report.
    Raises BackendUnavailable if the hook is not installed.
    """
    options = options or LiveOptions()
    current = dict(os.environ if environment is None else environment)
    command, said = _with_torch(command, current)
    made = scratch.folder("sanitize", Path(_short_folder()))
    folder = made.path
    judge = Judge(options.analysis, engine)
    try:
        token = secrets.token_hex(16)
        server = LiveServer(folder, token, judge, block_signals_in_this_thread)
        try:
            session = folder / SESSION_FILE
            _write(session, _session(options, server.path, token))
            composed = env.compose_target_environment(current, session, ("triton",))
            started = Target.start(command, composed, options.stdout_to_stderr)
            target = started if isinstance(started, TargetResult) else started.wait()
        finally:
            server.finish()
    finally:
        made.remove()
    reports = tuple(judge.reports)
    notes = (*said, *_notes(reports, target, server))
    return SanitizeResult(reports, target.status, notes, tuple(judge.host_reads), judge.needs_bytes)


def _with_torch(command: Sequence[str], environment: Mapping[str, str]) -> tuple[Sequence[str], list[str]]:
    """``python`` is the interpreter beside kerncap if that has torch and PATH's has none; and what to say."""
    if command[0] not in ("python", "python3") or find_spec("torch") is None:
        return command, []
    found = child.find(command[0], environment.get("PATH"))
    if found is not None and _may_have_torch(found):
        return command, []
    lacking = f"{found} has no torch" if found else f"there is no {command[0]} on PATH"
    return [sys.executable, *command[1:]], [f"{lacking}: {sys.executable} runs the program, which has it"]


def _may_have_torch(python: str) -> bool:
    if os.path.abspath(python) == os.path.abspath(sys.executable):
        return True
    try:
        return "torch" not in probe(python).missing
    except BackendUnavailable:  # the program runs as the user said
        return True


def _notes(reports: tuple[LaunchReport, ...], target: TargetResult, server: LiveServer) -> list[str]:
    notes = [target.error] if target.error else []
    notes += dict.fromkeys(server.notes)
    if not reports and not target.error:
        notes.append("the program launched no Triton kernel, or not in a Python that kerncap's hook reaches")
    return notes


def _session(options: LiveOptions, socket: str, token: str) -> Session:
    return Session(
        socket=socket,
        token=token,
        target=options.target,
        every_configuration=options.every_configuration,
        fresh=options.fresh and "uninit" in options.analysis.checks,
        allocations=options.analysis.bounds == "allocation",
    )


def _write(path: Path, session: Session) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(vars(session), file)


def _short_folder() -> str:
    """A socket's path holds 108 bytes."""
    folder = tempfile.gettempdir()
    return folder if len(os.fsencode(folder)) <= 60 else "/tmp"
