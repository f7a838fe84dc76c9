"""`blame`: the stage of a kernel's compilation that brings a difference in.

The source in Triton's interpreter, its TTIR and TTGIR evaluated, its PTX at each level of ptxas and the
captured image on a GPU: each is run on the captured memory. The first stage whose output differs from the one
before is named, and the MLIR pass in it. What can't be run here is said, and no stage is taken for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kerncap.api.blame.blame_result import Blame, Guilty, Run, Stage
from kerncap.api.blame.bug_report import write_report
from kerncap.api.blame.cuda_chain import CudaChain
from kerncap.api.blame.triton_chain import Chain
from kerncap.api.candidate_file import refuse_inside
from kerncap.api.candidate_settings import SettingError, settings_of
from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format import Reproducer
from kerncap.printable import visible
from kerncap.regular_file import read_regular_text
from kerncap.replay import trust
from kerncap.time_limits import LAUNCH_S

__all__ = ["Blame", "BlameOptions", "Guilty", "Run", "Stage", "blame"]

_MAX_SOURCE_BYTES = 16 << 20
_WHY = ": the stages of its compilation are made of its source. That"


@dataclass(frozen=True, kw_only=True)
class BlameOptions:
    """``candidate``: a source in place of the captured one. ``pythons``: each with a Triton of its own, in
    order; none: that of a replay. ``device``: the GPU of the last stages. ``exact``: any bit that an
    evaluated stage changes counts, not only what rounding does not explain. ``output``: a new folder for a
    bug report.
    """

    candidate: Path | None = None
    pythons: Sequence[str] = ()
    device: str = "auto"
    exact: bool = False
    trust: bool = False
    timeout_s: float = LAUNCH_S
    output: Path | None = None


def blame(path: Path | str, options: BlameOptions = BlameOptions()) -> Blame:
    """Run the stages of the launch in the reproducer at ``path``, for each Python that is asked for.

    Raises FormatError, UsageError, and BackendUnavailable for a kernel that is not Triton's or whose contents
    were not captured. A stage that fails or differs is no exception.
    """
    path = Path(path)
    with Reproducer.open(path) as reproducer:
        manifest = reproducer.manifest
        language = manifest.kernel.language
        if language not in ("triton", "cuda"):
            raise BackendUnavailable("blame", f"{path} is a {language} kernel, not Triton's or CUDA's")
        if manifest.why_no_result:
            raise BackendUnavailable("blame", f"{path}: {manifest.why_no_result}")
        trust.require(reproducer, options.trust, _WHY)
        text = _source(reproducer, options.candidate)
        runs = [_run(reproducer, text, python, options) for python in (options.pythons or (None,))]
        found = Blame(path, manifest.kernel.name, options.candidate, runs, _notes(reproducer))
    if options.output is not None:
        found.folder = write_report(found, options.output)
    return found


def _run(reproducer: Reproducer, text: str, python: str | None, options: BlameOptions) -> Run:
    if reproducer.manifest.kernel.language == "triton":
        return Chain(reproducer, text, python, options).run()
    return CudaChain(reproducer, text, python, options).run()


def _source(reproducer: Reproducer, candidate: Path | None) -> str:
    if candidate is None:
        text = reproducer.source_text()
        if text is None:
            raise BackendUnavailable("blame", f"{reproducer.path} has no source")
        return text
    refuse_inside("--candidate", candidate)
    text = read_regular_text(candidate, _MAX_SOURCE_BYTES)
    if reproducer.manifest.kernel.language != "triton":
        return text
    try:
        config, _ = settings_of(text)
    except SettingError as error:
        raise UsageError(f"{visible(candidate)}, line {error.line}: {error}") from error
    if config is not None:
        raise UsageError(f"{visible(candidate)}: sets another configuration; blame takes the captured one")
    return text


def _notes(reproducer: Reproducer) -> list[str]:
    notes = []
    if any(view.dtype in ("int64", "uint64") for view in reproducer.manifest.views):
        notes.append("64-bit integers beyond 2^53 are compared rounded")
    if reproducer.manifest.oracle.kind != "trusted":
        notes.append(f"the application's result is not trusted: {reproducer.manifest.oracle.kind}")
    return notes
