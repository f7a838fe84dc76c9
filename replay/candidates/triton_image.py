"""A Triton kernel's source made into an image by a confined Python that has Triton; no GPU is needed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from kerncap.errors import BackendUnavailable, KerncapError
from kerncap.regular_file import read_regular
from kerncap.replay.choose_engine import python_to_compile
from kerncap.replay.outcome import CandidateError, ConfinedError
from kerncap.replay.worker import protocol, typed_json
from kerncap.replay.worker.protocol import MADE_FILE, VARIATION_FILE, Failure, Place, TritonImage, Variation
from kerncap.replay.worker.typed_json import MAX_LINE_BYTES, Unreadable
from kerncap.replay.worker_environment import compilers_environment
from kerncap.replay.worker_process import Program

_NEEDED = ("torch", "triton", "numpy")
_TAIL = 2000


@dataclass(frozen=True)
class Made:
    """An image, and what its compiler says of it."""

    path: Path
    said: TritonImage


def compile_triton(
    job: Path,
    source: Path,
    arch: str,
    out: Path,
    python: str,
    limit_s: float,
    program: Program,
    variation: Variation | None = None,
) -> Made:
    """Compile ``source`` for the launch in ``job`` and ``arch`` ("gfx942", "sm_90") into folder ``out``.

    ``program`` starts it, by ``python`` or, if that is kerncap's own, another one that has Triton. Raises
    CandidateError with what is wrong with the source, BackendUnavailable if no Python has Triton or it does
    not end.
    """
    chosen = python_to_compile(_NEEDED, "Triton's compiler", python)
    words = ("code_object", *map(str, (job.absolute(), source.absolute())), arch, str(out.absolute()))
    if variation is not None:
        (out / VARIATION_FILE).write_bytes(typed_json.line(variation))
    started = program(chosen, words, compilers_environment(), out.absolute() / "log", source)
    try:
        status = started.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise CandidateError(f"{source.name} did not compile within {limit_s:g} s") from None
    finally:
        started.end()
    return _made(source, out, status)


def _made(source: Path, out: Path, status: int) -> Made:
    """What is in the folder, where a stranger's code could write: anything, or nothing."""
    made, problem = None, ""
    try:
        made = protocol.read_result(TritonImage, read_regular(out / MADE_FILE, MAX_LINE_BYTES))
    except (Unreadable, KerncapError) as error:
        problem = str(error)
    if isinstance(made, Failure):
        kind = ConfinedError if made.kind == "refused" else CandidateError
        raise kind(made.message, made.detail[-20_000:], **vars(made.place or Place()))
    if status or made is None:
        said = (out / "log").read_text(errors="replace").strip()[-_TAIL:]
        why = f"it ended with status {status} on {source.name}: {said or problem}"
        raise BackendUnavailable("Triton's compiler", why)
    return Made(out / f"kernel.{made.stage}", made)
