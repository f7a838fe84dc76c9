"""The launches that a proof is about: a reproducer's own, or with a source in place of its kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kerncap.api.compiled_ttir import Instead, compile_source
from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format import Reproducer, schema
from kerncap.replay import trust, worker_process
from kerncap.replay.candidates.errors import BuildError
from kerncap.replay.outcome import Config, Scalar
from kerncap.replay.worker_process import Program

if TYPE_CHECKING:
    from kerncap.sanitizer.launch import Launch

_WHY = "a proof reads TTIR"


def check_language(reproducer: Reproducer) -> None:
    """Raises UsageError for a kernel that is of neither Triton nor CUDA."""
    language = reproducer.manifest.kernel.language
    if language not in ("triton", "cuda"):
        raise UsageError(f"{reproducer.path}: a {language} kernel; a proof reads kernels of Triton and CUDA")


def captured(
    reproducer: Reproducer,
    *,
    trusted: bool = False,
    python: str | None = None,
    program: Program = worker_process.program,
) -> Launch:
    """The launch as it was captured; its source is compiled if there is no TTIR, and for CUDA.

    Raises KerncapError.
    """
    if reproducer.manifest.kernel.language == "cuda":
        return cuda_launch(reproducer, None, trusted=trusted, python=python)
    from kerncap.sanitizer.sources.reproducer import launch_from_reproducer, target_of

    target, text = target_of(reproducer.manifest.device), None
    if reproducer.code("ttir") is None:
        text = compile_source(reproducer, target, _WHY, trusted=trusted, python=python, program=program)
    return launch_from_reproducer(reproducer, text, target)


def ttir_of_source(
    reproducer: Reproducer,
    text: str,
    name: str,
    config: Config | None,
    *,
    python: str | None = None,
    program: Program = worker_process.program,
) -> str:
    """The TTIR of a source of the user's, which its places call ``name``. Raises KerncapError."""
    from kerncap.sanitizer.sources.reproducer import target_of

    wanted: Mapping[str, Scalar] = {} if config is None else config.arguments
    roles = {argument.name: argument.role for argument in reproducer.manifest.arguments}
    for one in wanted:
        if roles.get(one) != "constexpr":
            raise BackendUnavailable("proof", f"{name} sets {one}, which is not a constexpr of the launch")

    def change(argument: schema.Argument) -> schema.Argument:
        if argument.name not in wanted:
            return argument
        return msgspec.structs.replace(argument, value=schema.scalar_value(wanted[argument.name]))

    target = target_of(reproducer.manifest.device)
    instead = Instead(text, name, change)
    return compile_source(reproducer, target, _WHY, python=python, instead=instead, program=program)


def with_ttir(reproducer: Reproducer, ttir: str, config: Config | None) -> Launch:
    """The launch with TTIR of a source, as `ttir_of_source` gives it. Raises KerncapError."""
    from kerncap.sanitizer.sources.reproducer import launch_from_reproducer, target_of

    launch = launch_from_reproducer(reproducer, ttir, target_of(reproducer.manifest.device))
    return launch if config is None or config.grid is None else replace(launch, grid=config.grid)


def cuda_launch(
    reproducer: Reproducer,
    candidate: Path | None,
    *,
    trusted: bool = False,
    python: str | None = None,
    hostile: bool = False,
) -> Launch:
    """A CUDA launch with the PTX of a candidate, or of its own source; without one, with the captured PTX.

    Raises KerncapError.
    """
    from kerncap.replay.candidates.to_ptx import Ptx, has_unit, ptx_of
    from kerncap.sanitizer.sources.ptx_reproducer import NoParameters, ptx_launch

    is_source = candidate is None or candidate.suffix != ".ptx"
    if is_source and has_unit(reproducer):
        trust.require(reproducer, trusted, ": a proof compiles its source. That")
    try:
        made = ptx_of(reproducer, candidate, python, hostile=hostile)
    except (BuildError, BackendUnavailable) as error:
        held = _captured_ptx(reproducer) if candidate is None else None
        if held is None:
            raise BackendUnavailable("proof", str(error)) from error
        made = Ptx(held, reproducer.manifest.kernel.mangled or reproducer.manifest.kernel.name, "the capture")
    try:
        return ptx_launch(reproducer, made.text, made.entry, made.maker)
    except NoParameters as reason:
        raise BackendUnavailable("proof", f"{reproducer.path}: {reason}") from reason


def _captured_ptx(reproducer: Reproducer) -> str | None:
    from kerncap.capture.images.choose import choose
    from kerncap.capture.images.problem import ImageProblem

    kernel = reproducer.manifest.kernel
    for stage in ("ptx", "fatbin"):
        data = reproducer.code(stage)
        if data is None:
            continue
        try:
            found = choose(data, reproducer.manifest.device.arch, kernel.mangled or kernel.name).ptx
        except ImageProblem:
            continue
        if found is not None:
            return found.decode("utf-8", "replace")
    return None
