"""A Triton kernel's source made into an image by a confined Python that has Triton; no GPU is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncap import child
from kerncap.errors import BackendUnavailable
from kerncap.replay.choose import python_with
from kerncap.replay.outcome import CandidateError

_BOOTSTRAP = Path(__file__).parents[1] / "worker" / "bootstrap.py"
_NEEDED = ("torch", "triton", "numpy")
_TAIL = 2000
# What would change the compiler, or watch it.
_LEFT_OUT = ("TRITON_INTERPRET", "KERNCAP_SESSION", "LD_PRELOAD", "HSA_TOOLS_LIB")


@dataclass(frozen=True)
class Image:
    """``launch``: what of the launch follows from the compiled kernel.

    Of a code object its LDS and its workgroup; of a cubin its metadata, and the signature of its parameters.
    """

    path: Path
    launch: dict[str, Any]
    num_stages: int | None


def compile_triton(
    job: Path,
    source: Path,
    arch: str,
    out: Path,
    python: str,
    limit_s: float,
    request: dict[str, Any] | None = None,
) -> Image:
    """Compile ``source`` for the launch in ``job`` and ``arch`` ("gfx942", "cuda:90") into folder ``out``.

    ``request`` is another configuration (``config``) or other values of numbers (``scalars``). ``python`` or,
    where that is kerncap's own, another one that has Triton. Raises CandidateError with what is wrong with
    the source, BackendUnavailable where no Python has Triton or it does not end.
    """
    found = python_with(_NEEDED, "Triton's compiler", None if python == sys.executable else python)
    words = ("code_object", *map(str, (job.absolute(), source.absolute())), arch, str(out.absolute()))
    command = child.python(found.python, _BOOTSTRAP, *words)
    environment = {key: value for key, value in os.environ.items() if key not in _LEFT_OUT}
    if request is not None:
        (out / "request.json").write_text(json.dumps(request))
    with (out / "log").open("wb") as log:
        started = child.Child(command, stdout=log, stderr=log, env=environment, cwd=out)
        try:
            status = started.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise CandidateError(f"{source.name} did not compile within {limit_s:g} s") from None
        finally:
            started.end()
    return _made(source, out, status)


def _made(source: Path, out: Path, status: int) -> Image:
    if (out / "error.json").is_file():
        error = json.loads((out / "error.json").read_text())
        place = {name: error["place"].get(name) for name in ("file", "line", "column")}
        raise CandidateError(f"{error['message']}", error["detail"][-20_000:], **place)
    if status or not (out / "facts.json").is_file():
        said = (out / "log").read_text(errors="replace").strip()[-_TAIL:]
        why = f"it ended with status {status} on {source.name}: {said}"
        raise BackendUnavailable("Triton's compiler", why)
    facts = json.loads((out / "facts.json").read_text())
    if "metadata" in facts:
        compiled: dict[str, Any] = {
            "metadata": dict(facts["metadata"]),
            "signature": dict(facts["signature"]),
        }
        return Image(out / "kernel.cubin", compiled, None)
    launch = {"shared_bytes": facts["shared_bytes"], "block": facts["block"], "dispatch": None}
    stages = facts["num_stages"]
    return Image(out / "kernel.hsaco", launch, int(stages) if stages is not None else None)
