"""The documents of `kerncap capture`, `seal` and `arm`; keys are only ever added."""

from __future__ import annotations

from typing import Any

from kerncap.capture.outcome import ArmResult, CaptureResult, KernelSummary
from kerncap.capture.seal import SealedLaunch
from kerncap.capture.target import signal_name
from kerncap.report.capture_text import fault_command
from kerncap.report.documents import capture as documents


def capture_document(result: CaptureResult) -> dict[str, Any]:
    """The document of ``kerncap capture --json``."""
    return documents.CaptureDocument(
        captured=tuple(str(sealed.path) for sealed in result.captured),
        reproducers=tuple(_reproducer(sealed) for sealed in result.captured),
        reason=result.reason,
        target_status=result.target.status,
        target_signal=signal_name(result.target.signal) if result.target.signal else None,
        kernels=tuple(seen_kernel(kernel) for kernel in result.kernels),
        failed=tuple(result.failed),
        notes=tuple(result.notes),
        last_launches=tuple(
            documents.LastLaunch(kernel=each.kernel, grid=each.grid, block=each.block, stream=each.stream)
            for each in (result.last.launches if result.last is not None else ())
        ),
        fault_command=fault_command(result),
        self_checks={str(path): check for path, check in result.self_checks.items()},
        launches=result.launches,
        overhead_ns=result.overhead_ns,
        session=str(result.kept_session) if result.kept_session is not None else None,
    ).as_dict()


def _reproducer(sealed: SealedLaunch) -> documents.CapturedLaunch:
    return documents.CapturedLaunch(
        path=str(sealed.path),
        kernel=sealed.kernel,
        qualified_name=sealed.qualified_name,
        launch=sealed.ordinal,
        launches=sealed.launches,
        grid=sealed.grid,
        pid=sealed.pid,
        rank=sealed.rank,
        local_rank=sealed.local_rank,
        range=sealed.range,
        generation=sealed.generation,
        oracle=sealed.oracle,
        size_bytes=sealed.regions_bytes,
        disk_bytes=sealed.disk_bytes,
    )


def seen_kernel(kernel: KernelSummary) -> documents.SeenKernel:
    """One kernel's counts."""
    counts, seen = kernel.counts, kernel.seen
    return documents.SeenKernel(
        name=kernel.name,
        qualified_name=kernel.qualified_name,
        mangled=seen.mangled if seen is not None else None,
        file=seen.file if seen is not None else None,
        line=seen.line if seen is not None else None,
        launches=counts.launches,
        matched=counts.matched,
        captured=counts.captured,
        filtered=counts.filtered,
        configs=counts.configs,
        time_ns=counts.time_ns,
        bytes=counts.bytes,
    )


def arm_document(result: ArmResult) -> dict[str, Any]:
    """The document of ``kerncap arm --json``."""
    return documents.ArmDocument(
        session=str(result.session),
        generation=result.generation,
        waited=result.waited,
        captured=tuple(str(each.path) for each in result.captured),
        reproducers=tuple(result.captured),
        failed=tuple(result.failed),
        reason=result.reason,
    ).as_dict()
