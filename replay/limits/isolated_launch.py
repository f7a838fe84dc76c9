"""One launch in a worker without a pipe: what a tool that holds the process is given to run.

All requests are in a file, the replies come to another; the worker ends when it has answered.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from kerncap import child
from kerncap.errors import BackendUnavailable, KerncapError, ReplayError
from kerncap.regular_file import read_regular
from kerncap.replay.choose_engine import Choice
from kerncap.replay.staging import Job
from kerncap.replay.worker import protocol, typed_json
from kerncap.replay.worker.protocol import Backend, Ended, Failure, Hello, Image, Variation
from kerncap.replay.worker.typed_json import MAX_LINE_BYTES, Unreadable

_BOOTSTRAP = Path(__file__).parents[1] / "worker" / "bootstrap.py"


def command(job: Job, choice: Choice, file: Path, limit_s: float, image: Image | None = None) -> list[str]:
    """The program that restores ``job``'s memory and launches ``file`` once.

    ``image`` is what is known of one that was made of a candidate. Raises as `Job.add_memory`.
    """
    job.add_memory()
    requests = job.folder / "requests"
    which = "original"
    load = protocol.request(Backend.load, which, str(file), "stages", Variation(), limit_s, image, None)
    launch = protocol.request(Backend.launch, which, limit_s)
    requests.write_bytes(load + protocol.request(Backend.restore, "pre") + launch)
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

    Raises BackendUnavailable if it does not start, ReplayError if it does not end in time.
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
    """Why the launch failed under ``tool``, as the worker answered; empty if it says nothing."""
    hello, answers = _answers(job)
    if hello is not None and hello.refused is not None:
        return f"the replay worker did not start under {tool}: {hello.refused}"
    for answer in answers:
        if isinstance(answer, Failure) or isinstance(answer, Ended) and answer.status != "ok":
            return f"the launch failed under {tool}: {answer.message}"
    return ""


def ended(job: Job) -> bool:
    """Whether the worker answered for the launch, whatever it said."""
    return any(isinstance(answer, Ended) for answer in _answers(job)[1])


def _answers(job: Job) -> tuple[Hello | None, list[object]]:
    """What the worker said, as far as it came, and as far as it can be read."""
    hello: Hello | None = None
    answers: list[object] = []
    operations: list[Callable[..., object]] = [Backend.load, Backend.restore, Backend.launch]
    with contextlib.suppress(KerncapError, Unreadable):
        lines = read_regular(_replies(job), MAX_LINE_BYTES).splitlines()
        hello = typed_json.read(Hello, lines[0]) if lines else None
        for operation, line in zip(operations, lines[1:]):  # noqa: B905
            answers.append(protocol.read_reply(operation, line))
    return hello, answers


def _replies(job: Job) -> Path:
    return job.folder / "replies"
