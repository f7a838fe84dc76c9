"""``profile``: Nsight Compute on the isolated launch, its key sections in words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncap.api.candidate_file import refuse_inside
from kerncap.api.replay import ReplayOptions
from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format import Reproducer
from kerncap.replay import trust
from kerncap.replay.choose_engine import choose
from kerncap.replay.limits import ncu
from kerncap.replay.limits.ncu_claims import Claim, explain
from kerncap.replay.limits.ncu_csv import KernelRow
from kerncap.report.documents import measurements as documents
from kerncap.report.documents.measurements import Evidence, ProfileDocument

CLOCK_CONTROLS = ("none", "base")
_CANDIDATES = (".py", ".cubin", ".ptx")
_HEAD = {
    "time_s": ("gpu__time_duration.sum",),
    "registers": ("launch__registers_per_thread",),
    "shared_bytes": ("launch__shared_mem_per_block",),
    "grid": ("launch__grid_size",),
    "block": ("launch__block_size",),
}


@dataclass(frozen=True)
class ProfileResult:
    """``claims`` in the order of their weight; ``metrics`` all numbers of the report, in base units."""

    kernel: str
    device: str
    ncu: str
    claims: tuple[Claim, ...]
    row: KernelRow
    report: Path | None = None

    @property
    def head(self) -> dict[str, float]:
        """Time and launch, as far as the report has them."""
        found = {key: self.row.value(*names) for key, names in _HEAD.items()}
        return {key: value for key, value in found.items() if value is not None}

    def as_dict(self) -> dict[str, Any]:
        """The document of ``--json``."""
        return ProfileDocument(
            kernel=self.kernel,
            device=self.device,
            ncu=self.ncu,
            head=self.head,
            claims=tuple(
                documents.Claim(
                    topic=claim.topic,
                    severity=claim.severity,
                    text=claim.text,
                    evidence=tuple(Evidence(metric=name, value=value) for name, value in claim.evidence),
                )
                for claim in self.claims
            ),
            metrics=dict(self.row.metrics),
            report=str(self.report) if self.report else None,
        ).as_dict()


def profile(
    path: Path,
    options: ReplayOptions = ReplayOptions(),  # noqa: B008  (frozen)
    *,
    output: Path | None = None,
    clock_control: str = "none",
) -> ProfileResult:
    """Run the launch once under ncu and explain what it counted.

    ``output``: where ncu's own report is kept. Raises UsageError for a reproducer that is not trusted,
    BackendUnavailable without a device, without ncu or without the right to use it, ReplayError if the
    launch does not run under it.
    """
    if clock_control not in CLOCK_CONTROLS:
        raise UsageError(f"--clock-control {clock_control}: expected one of {', '.join(CLOCK_CONTROLS)}")
    if options.candidate is not None:
        if not options.candidate.is_file():
            raise UsageError(f"{options.candidate}: no such candidate file")
        refuse_inside("--candidate", options.candidate)
        if options.candidate.suffix not in _CANDIDATES:
            raise UsageError(
                f"{options.candidate}: profile takes one of {', '.join(_CANDIDATES)} as candidate"
            )
    if output is not None and not output.parent.is_dir():
        raise UsageError(f"{output}: no folder {output.parent}; make it, or name another place")
    with Reproducer.open(path) as reproducer:
        trust.require(reproducer, options.trust)
        choice = choose(reproducer.manifest, options.engine, options.device, options.python)
        if choice.memory != "cuda":
            raise BackendUnavailable(
                ncu.NAME, "it profiles launches on a CUDA device, and none was found here"
            )
        done = ncu.profile(
            reproducer, choice, clock_control=clock_control, output=output, source=options.candidate
        )
    return _result(done.row, done.version, done.report)


def import_report(report: Path) -> ProfileResult:
    """Explain a report that ncu has written. Raises UsageError, BackendUnavailable, ReplayError."""
    if not report.is_file():
        raise UsageError(f"{report}: no such file")
    return _result(ncu.read_report(report), "", report)


def _result(row: KernelRow, version: str, report: Path | None) -> ProfileResult:
    device = row.texts.get("device__attribute_display_name", "") or row.texts.get("Device", "")
    return ProfileResult(row.kernel, device, version, tuple(explain(row)), row, report)
