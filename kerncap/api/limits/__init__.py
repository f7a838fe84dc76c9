"""``replay --limits``: how far a launch is from what its device can do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kerncap.api.compiled_ttir import compile_source
from kerncap.api.limits.counting import count
from kerncap.api.replay import ReplayOptions, load_candidate, opened, without_values, write_set
from kerncap.errors import BackendUnavailable, KerncapError, ReplayError, UsageError
from kerncap.format import Reproducer
from kerncap.log import one_line
from kerncap.replay.byte_effects import Measured, load
from kerncap.replay.choose_engine import Choice, choose
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.limits import ceilings, ncu, published
from kerncap.replay.limits.binding_floor import LimitReport, Times, bounds
from kerncap.replay.limits.ceilings import Ceilings
from kerncap.replay.limits.counters import counted_by_ncu, shares
from kerncap.replay.limits.launch_work import SECTOR_BYTES, Traffic, Work
from kerncap.replay.limits.named_ceilings import named
from kerncap.replay.limits.ncu_csv import KernelRow
from kerncap.replay.repeated_runs import dirtied, follows_itself
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.protocol import Timings
from kerncap.sanitizer.sources.reproducer import launch_from_reproducer, target_of

__all__ = ["LimitReport", "limits"]

_TIMED_RUNS = 20
COUNTERS = ("auto", "ncu", "none")


def limits(
    path: Path,
    options: ReplayOptions = ReplayOptions(),  # noqa: B008  (frozen)
    *,
    ceilings_of: str | None = None,
    measure_again: bool = False,
    counters: str = "auto",
) -> LimitReport:
    """What the launch, or a candidate for it, needs of the device, and how much of that it gets.

    ``ceilings_of``: a file of ceilings or a device's name, in place of this device's, which are measured or,
    of an AMD GPU, published. ``measure_again``: do not take kept ones. ``counters``: ``ncu`` counts with
    Nsight Compute, ``none`` does not, ``auto`` does if it is installed and allowed.

    Without a device, bytes and operations of a Triton launch are counted all the same; nothing is run then.
    Raises FormatError, UsageError, BackendUnavailable or ReplayError.
    """
    if counters not in COUNTERS:
        raise UsageError(f"counters {counters}: expected one of {', '.join(COUNTERS)}")
    given = named(ceilings_of) if ceilings_of is not None else None
    with Reproducer.open(path) as reproducer:
        choice, why = _device(reproducer, options)
        captured_on = reproducer.manifest.device
    if captured_on.kind == "hip":
        if measure_again:
            raise UsageError("--measure-again: only NVIDIA GPUs are measured; leave it out")
        if counters == "ncu":
            raise UsageError("--counters ncu: ncu counts on NVIDIA GPUs; leave it out")
        given, counters = given or published.of(captured_on.name), "none"
    if choice is None:
        if options.candidate is not None:
            raise BackendUnavailable("the limits of a candidate", f"it has to be compiled and timed: {why}")
        return _counted_only(path, options, given, why)
    return _on_device(path, options, choice, given, measure_again, counters)


def _device(reproducer: Reproducer, options: ReplayOptions) -> tuple[Choice | None, str]:
    """The engine on a device, or why there is none."""
    try:
        choice = choose(reproducer.manifest, options.engine, options.device, options.python)
    except BackendUnavailable as error:
        return None, error.reason
    return (choice, "") if choice.memory in ("cuda", "hip") else (None, "no GPU was chosen")


# --- with no device ----------------------------------------------------------------------------------


def _counted_only(path: Path, options: ReplayOptions, given: Ceilings | None, why: str) -> LimitReport:
    with Reproducer.open(path) as reproducer:
        work, notes = _count(reproducer, options, load(reproducer), None)
        kernel = reproducer.manifest.kernel.name
    notes.insert(0, f"not timed: {why}")
    if given is None:
        notes.append("the ceilings are missing: name a device with --ceilings FILE|NAME")
    return LimitReport(
        path, kernel, "none", given.device if given else "no device", Times(), work, work, None, given,
        bounds(work, given), {}, tuple(notes),
    )  # fmt: skip


# --- on a device -------------------------------------------------------------------------------------


def _on_device(
    path: Path, options: ReplayOptions, choice: Choice, given: Ceilings | None, again: bool, counters: str
) -> LimitReport:
    with opened(path, options) as (reproducer, engine, _):
        which = CANDIDATE if options.candidate else ORIGINAL
        if (refused := load_candidate(engine, options.candidate)) is not None:
            raise ReplayError(f"{options.candidate}: {one_line(refused.summary)}")
        if reproducer.manifest.oracle.kind in ("fault", "timeout"):
            raise ReplayError(
                f"{path}: the launch ended with a {reproducer.manifest.oracle.kind}: it has no time"
            )
        measured = None if without_values(engine) else write_set(reproducer, engine)
        ttir = _ttir_of(engine, which)
        work, notes = _count(reproducer, options, measured, ttir)
        times = _times(engine, which, measured)
        kernel, device = reproducer.manifest.kernel.name, engine.facts.device
    row = None
    if counters != "none":
        row, note = _profiled(path, choice, options, required=counters == "ncu")
        notes += [note] if note else []
    counted = counted_by_ncu(row, work) if row is not None else None
    of_device, note = (given, "") if given else _ceilings(choice, again)
    notes += [note] if note else []
    judged = counted or work
    return LimitReport(
        path, kernel, choice.name, device, times, judged, work, counted, of_device,
        bounds(judged, of_device), shares(row) if row is not None else {}, tuple(notes),
    )  # fmt: skip


def _ceilings(choice: Choice, again: bool) -> tuple[Ceilings | None, str]:
    if choice.memory == "hip":
        return None, "the ceilings are missing: none are published for this device; name one with --ceilings"
    try:
        return ceilings.of_device(choice.python, choice.device, again), ""
    except BackendUnavailable as error:
        return None, f"the ceilings are missing: {error.reason}"


def _profiled(
    path: Path, choice: Choice, options: ReplayOptions, required: bool
) -> tuple[KernelRow | None, str]:
    """ncu's numbers if it is installed and allowed, or why not."""
    if not required and ncu.find() is None:
        return None, ""
    if options.candidate is not None and options.candidate.suffix not in (".py", ".cubin", ".ptx"):
        return None, "not counted by ncu: it is given the candidate's source or image as it is"
    try:
        with Reproducer.open(path) as reproducer:
            return ncu.profile(reproducer, choice, ncu.COUNTER_REQUESTS, source=options.candidate).row, ""
    except (BackendUnavailable, ReplayError) as error:
        if required:
            raise
        return None, f"not counted by ncu: {one_line(str(error))}"


def _times(engine: Engine, which: str, measured: Measured | None) -> Times:
    """Warm and cold medians, and that of timed runs if those are unavailable."""
    written = sorted(measured.written) if measured is not None else []
    found = Timings(None, None)
    try:
        ranges = dirtied(measured) if measured is not None else []
        again = measured is not None and follows_itself(measured)
        found = engine.timings(which, ranges, written, again)
    except KerncapError:
        pass
    median = None
    if not found.warm_ms or not found.cold_ms:
        try:
            times = sorted(engine.time(which, 3, _TIMED_RUNS, written))
            median = times[len(times) // 2]
        except KerncapError:
            pass
    return Times(found.warm_ms, found.cold_ms, median)


# --- the work ----------------------------------------------------------------------------------------


def _ttir_of(engine: Engine, which: str) -> str | None:
    """What a candidate was compiled to, if the engine knows."""
    if which == ORIGINAL:
        return None
    stage = engine.compiled(which).stages.get("ttir")
    try:
        return Path(stage).read_text(encoding="utf-8") if stage is not None else None
    except OSError:
        return None


def _count(
    reproducer: Reproducer, options: ReplayOptions, measured: Measured | None, ttir: str | None
) -> tuple[Work, list[str]]:
    """Bytes and operations from TTIR; of what has none, bounds from the closure and the write set."""
    notes: list[str] = []
    if reproducer.manifest.kernel.language == "triton":
        if options.candidate is not None and ttir is None:
            notes.append("the candidate's TTIR is not known: bytes and operations are the original's")
        try:
            target = None
            if ttir is None and reproducer.code("ttir") is None:
                target = target_of(reproducer.manifest.device)
                ttir = compile_source(
                    reproducer,
                    target,
                    "it has no TTIR to count from",
                    trusted=options.trust,
                    python=options.python,
                )
                notes.append(f"counted from TTIR that was compiled from the source for {target}")
            work = count(launch_from_reproducer(reproducer, ttir, target))
        except BackendUnavailable as error:
            notes.append(f"not counted from TTIR: {error.reason}")
        else:
            return _with_write_set(work, measured, notes), notes
    work = _from_closure(reproducer, measured)
    if work.read is None:
        raise BackendUnavailable("the limits", f"{reproducer.path}: nothing to count from")
    return work, notes


def _with_write_set(work: Work, measured: Measured | None, notes: list[str]) -> Work:
    """The written bytes as they were measured, if TTIR alone does not tell them."""
    if measured is None or work.written is None:
        return work
    seen = measured.written_bytes
    if work.exact:
        if seen > work.written.unique_bytes:
            notes.append(
                f"the write set was measured to be {seen:,} bytes, TTIR writes {work.written.unique_bytes:,}"
            )
        return work
    sectors = min(-(-seen // SECTOR_BYTES) * SECTOR_BYTES, work.written.sector_bytes)
    return replace(work, written=replace(work.written, unique_bytes=seen, sector_bytes=sectors))


def _from_closure(reproducer: Reproducer, measured: Measured | None) -> Work:
    """All that the launch may reach counts as read: an upper bound."""
    manifest = reproducer.manifest
    reached = sum(region.size for region in manifest.regions)
    written = measured.written_bytes if measured is not None else None
    if written is not None and measured is not None:
        # What is written and not input need not be read.
        output = sum(bitmap.count(measured.output(region)) for region in measured.written)
        reached = max(0, reached - output)
    notes = [
        "bytes read are an upper bound, all that the launch may reach; operations are not known without ncu"
    ]
    if written is None:
        notes.append("its written bytes were not measured")
    grid = manifest.launch.grid
    return Work(
        source="closure",
        read=Traffic(reached, 0, reached, -(-reached // SECTOR_BYTES) * SECTOR_BYTES),
        written=None
        if written is None
        else Traffic(written, 0, written, -(-written // SECTOR_BYTES) * SECTOR_BYTES),
        operations={},
        exact=False,
        contents=True,
        programs=grid[0] * grid[1] * grid[2],
        notes=tuple(notes),
    )
