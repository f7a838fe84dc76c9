"""One launch in a worker that nobody talks to: what a tool that holds the process is given to run.

All requests are in a file, the replies come to another; the worker ends when it has answered.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kerncap import child
from kerncap.errors import BackendUnavailable, ReplayError
from kerncap.replay.choose import Choice
from kerncap.replay.staging import Job

_BOOTSTRAP = Path(__file__).parents[1] / "worker" / "bootstrap.py"


def command(
    job: Job, choice: Choice, file: Path, limit_s: float, compiled: dict[str, Any] | None = None
) -> list[str]:
    """The program that restores ``job``'s memory and launches ``file`` once.

    ``compiled`` is what is known of an image that was made of a candidate.
    """
    requests = job.folder / "requests"
    load = {"op": "load", "which": "original", "path": str(file), "limit_s": limit_s, "stages": "stages"}
    asked: list[dict[str, Any]] = [
        {"op": "open"},
        load if compiled is None else {**load, "launch": compiled},
        {"op": "restore", "state": "pre"},
        {"op": "launch", "which": "original", "limit_s": limit_s},
    ]
    requests.write_text("".join(json.dumps(one) + "\n" for one in asked))
    _replies(job).unlink(missing_ok=True)
    words = ("once", str(job.path), str(requests), str(_replies(job)))
    return child.python(choice.python, _BOOTSTRAP, *words)


def own_file(job: Job, choice: Choice) -> Path:
    """The captured kernel, as the engine of ``choice`` takes it."""
    content = job.content
    if choice.launcher == "native":
        return job.folder / str(content["images"][0])
    return job.folder / str(content["code"]["cubin"] if choice.launcher == "binary" else content["source"])


def output(tool: str, command: Sequence[str], folder: Path, limit_s: float) -> str:
    """Both streams of a child, which may fail: what it printed says why.

    Raises BackendUnavailable where it does not start, ReplayError where it does not end in time.
    """
    left_out = ("TRITON_INTERPRET", "KERNCAP_SESSION")
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    try:
        started = child.Child(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder,
            env={**environment, "LC_ALL": "C"},
        )  # fmt: skip
    except OSError as error:
        raise BackendUnavailable(tool, f"{command[0]} can't be started: {error.strerror}") from error
    try:
        said, _ = started.communicate(timeout=limit_s)
    except BaseException as error:
        started.kill_all()
        started.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise ReplayError(f"it did not end within {limit_s:g} s") from None
        raise
    return said.decode(errors="replace")


def problem(job: Job, tool: str) -> str:
    """Why the launch did not end well under ``tool``, as the worker answered; empty where it says nothing."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        for line in _replies(job).read_text(errors="replace").splitlines():
            reply = json.loads(line)
            outcome = reply.get("outcome", {})
            if "refused" in reply:
                return f"the replay worker did not start under {tool}: {reply['refused']}"
            if reply.get("ok") is False or outcome.get("status", "ok") != "ok":
                said = reply.get("message") or outcome.get("message")
                return f"the launch did not end well under {tool}: {said}"
    return ""


def ended(job: Job) -> bool:
    """Whether the worker answered for the launch, whatever it said."""
    with contextlib.suppress(OSError, ValueError):
        return any("outcome" in json.loads(line) for line in _replies(job).read_text().splitlines())
    return False


def _replies(job: Job) -> Path:
    return job.folder / "replies"
