"""Run a program, capture launches from it, check each one by a replay."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kerncap import env, log, scratch, unexpected_error
from kerncap.capture import armed, languages, listed, lost_records, reasons, timeline, trace_file
from kerncap.capture.collect import Collector, collect_left_behind
from kerncap.capture.join_range import join_ranges
from kerncap.capture.options import CaptureOptions, Run
from kerncap.capture.outcome import CaptureResult, KernelSummary, SelfCheck
from kerncap.capture.payloads import KernelCounts
from kerncap.capture.process_log import ProcessLog
from kerncap.capture.seal import SealedLaunch, Sealer
from kerncap.capture.session_folder import Session
from kerncap.capture.target import Target, TargetResult
from kerncap.errors import CaptureError, KerncapError, UsageError
from kerncap.format.folder import is_range
from kerncap.format.private.command import without_secrets
from kerncap.replay import trust
from kerncap.report.capture_text import dormant_line
from kerncap.whole_files import output_folder

if TYPE_CHECKING:
    from kerncap.replay.pool import Pool

_ALL_SELF_CHECKS = 4  # take this many times the limit of one


def capture(options: CaptureOptions) -> CaptureResult:
    """Run the options' command and seal what it launches and the options choose.

    Raises CaptureError if no session can be made; a target that fails is a result. On
    KeyboardInterrupt while sealing, the session folder stays for `seal_session`.
    """
    languages.load_installed()
    current = dict(os.environ if options.run.environment is None else options.run.environment)
    run = options.run
    output = _resolved(run.output)
    had_output = os.path.exists(output)
    context = {
        "command": [env.hide_home(part) for part in without_secrets(run.command)],
        "environment": env.stored_environment(current),
        "output": str(output),
        "source_dirs": [str(folder.resolve()) for folder in run.source_dirs],
        "time_ns": time.time_ns(),
    }
    try:
        session = Session.create(options, context)
        try:
            return _run_in(session, options, current)
        except BaseException:
            _leave(session)
            raise
    finally:
        if not had_output:
            with contextlib.suppress(OSError):  # it holds something, as it should
                run.output.rmdir()


def _resolved(output: Path) -> Path:
    try:
        return output.resolve()
    except OSError as error:
        raise unexpected_error.about(f"output folder {output}", error, "can't be written") from error
    except RuntimeError as error:  # before Python 3.13 a loop of links
        raise UsageError(f"output folder {output}: {error}; -o chooses another") from error


def seal_session(folder: Path, output: Path | None = None) -> CaptureResult:
    """Seal what a session holds whose kerncap was killed; launches kept in its memory are lost.

    Raises UsageError for no session, CaptureError for one whose target still runs.
    """
    session = Session.reopen(folder)
    command = session.context.get("command")
    environment = session.context.get("environment")
    source_dirs = session.context.get("source_dirs")
    words = tuple(str(part) for part in command) if isinstance(command, list) else ()
    place = output if output is not None else folder.resolve().parent
    sealer = Sealer(
        session,
        place,
        words,
        {str(k): str(v) for k, v in environment.items()} if isinstance(environment, dict) else {},
        keep_raw=True,
        source_dirs=[Path(str(part)) for part in source_dirs] if isinstance(source_dirs, list) else [],
    )
    with output_folder(place):
        collector = collect_left_behind(folder, sealer)
    result = _result(CaptureOptions(Run(words or ("?",))), TargetResult(0), collector)
    result.is_left_behind = True
    if not result.captured:
        result.reason = result.failed[0] if result.failed else "nothing in the session is left to seal"
    if collector.unsealed:
        result.kept_session = folder
    else:
        session.remove()
    return result


def _run_in(session: Session, options: CaptureOptions, current: dict[str, str]) -> CaptureResult:
    run = options.run
    environment = env.compose_target_environment(current, session.folder, run.backends)
    for note in env.shim_notes(current, run.backends):
        log.line(note)
    singles = None
    if options.selection.is_span:  # the launches of a range are joined at the end
        run.output.mkdir(parents=True, exist_ok=True)
        singles = scratch.folder("range", run.output.resolve(), hidden=True)
    sealer = Sealer(
        session,
        singles.path if singles is not None else run.output.resolve(),
        run.command,
        env.stored_environment(current),
        keep_raw=run.keep_session,
        source_dirs=[folder.resolve() for folder in run.source_dirs],
    )
    late = options.selection.last is not None
    collector = Collector(session.folder, sealer, at_the_end=late, say=run.dormant)
    start_ns = time.monotonic_ns()
    started = Target.start(run.command, environment, run.stdout_to_stderr)
    if isinstance(started, TargetResult):
        session.remove()
        return CaptureResult(options, started, reason=started.error)
    if run.dormant:
        log.line(dormant_line(session.folder))
    collector.follow()
    target = started.wait()
    wall_ns = time.monotonic_ns() - start_ns
    alive = collector.finish(target)
    session.say_ended()
    if singles is not None:
        first = options.selection.launches[0] if options.selection.launches is not None else None
        collector.sealed, failed = join_ranges(collector.sealed, first, singles.path, run.output.resolve())
        collector.failed += failed
        singles.remove()
    result = _result(options, target, collector)
    result.wall_ns = wall_ns
    if run.trace:
        logs = collector.processes.values()
        hooked = {name for process in logs for name in collector.hooked_names(process)}
        running = {process.name for process in alive}
        result.traced = trace_file.processes_of(logs, hooked, running)
    elif run.list_only:
        _add_rows(result, collector)
        if run.timeline:
            result.timeline = timeline.collect(collector.processes.values())
    narrower = [sealed for sealed in result.captured if sealed.closure_mode != options.keep.memory]
    if run.memory_was_asked and narrower:
        result.notes.append(
            f"--memory {options.keep.memory}: the Triton hook sees only the storages of the arguments; "
            f"{len(narrower)} of {len(result.captured)} reproducers hold those (closure: args)"
        )
    found = result.kernels if run.list_only else result.captured
    if not session.folder.is_dir():
        gone = f"the session in {run.output} was deleted while the program ran; -o chooses another folder"
        if found:
            result.notes.append(gone)
        else:
            result.reason = gone
    elif not found:
        processes = list(collector.processes.values())
        started_here = reasons.Started.of(session.folder)
        result.reason = reasons.explain_nothing(
            _in_force(options, session.folder), processes, result.kernels, result.failed, started_here
        )
    _end_session(session, options, collector, alive, result)
    if run.self_check:
        check_captured(result, timeout_s=run.self_check_timeout_s)
    return result


def _result(options: CaptureOptions, target: TargetResult, collector: Collector) -> CaptureResult:
    kernels, totals = collector.counts()
    for sealed in collector.sealed:
        trust.remember_captured(sealed.path)
    processes = collector.processes.values()
    seen = {
        name: record
        for process in processes
        for name, record in process.seen.items()
        if record.mangled is None or record.kernel not in collector.hooked_names(process)
    }
    failed = list(collector.failed)
    for process in processes:
        for each in process.failed:
            kernel = f"{each.kernel}: " if each.kernel else ""
            failed.append(log.one_line(kernel + lost_records.with_remedy(each.reason)))
        failed += process.complaints
    return CaptureResult(
        options=options,
        target=target,
        captured=sorted(collector.sealed, key=lambda sealed: -1 if sealed.rank is None else sealed.rank),
        kernels=[
            # A process that was killed may have said SEEN and no COUNTS yet.
            KernelSummary(name, kernels.get(name, KernelCounts()), seen.get(name))
            for name in {**kernels, **seen}
        ],
        failed=failed,
        launches=totals.launches,
        overhead_ns=totals.overhead_ns,
        last=next((process.last for process in processes if process.last is not None), None),
        target_python=_target_python(processes),
    )


def _in_force(options: CaptureOptions, session: Path) -> CaptureOptions:
    """The selection that held at the end: of a dormant session what was armed last."""
    generation = armed.generation_of(session) if options.run.dormant else 0
    if not generation:
        return options
    try:
        selection = armed.session_file_of(session, generation).selection
        return replace(options, selection=selection, run=replace(options.run, dormant=False))
    except CaptureError:  # somebody has been at the session's files
        return options


def _add_rows(result: CaptureResult, collector: Collector) -> None:
    """What a listing has besides the counts; launches and times are then the rows' sums."""
    listing = listed.collect(collector.processes.values(), time.time_ns())
    result.listing = listing
    known = {kernel.qualified_name: kernel for kernel in result.kernels}
    # Two Triton kernels of one name: launches that the hook did not announce are neither's.
    nobodys = {name: KernelSummary(name, KernelCounts()) for name in listing.rows if name not in known}
    result.kernels = [
        replace(
            kernel,
            counts=_as_listed(kernel.counts, listing.rows.get(name, ())),
            rows=listing.rows.get(name, ()),
            stack=listing.stacks.get(name, ()),
        )
        for name, kernel in {**known, **nobodys}.items()
    ]


def _as_listed(counts: KernelCounts, rows: Sequence[listed.Row]) -> KernelCounts:
    if not rows:
        return counts
    launches, time_ns = (
        sum(sums) for sums in zip(*((r.record.launches, r.record.time_ns) for r in rows), strict=True)
    )
    return msgspec.structs.replace(counts, launches=launches, time_ns=time_ns)


def _target_python(processes: Iterable[ProcessLog]) -> str | None:
    """The interpreter of the first process that is a Python: where the user's torch and triton are."""
    for process in processes:
        executable = process.process.executable if process.process is not None else None
        if executable and (not process.is_native or os.path.basename(executable).startswith("python")):
            return executable
    return None


def _end_session(
    session: Session,
    options: CaptureOptions,
    collector: Collector,
    alive: list[ProcessLog],
    result: CaptureResult,
) -> None:
    if alive:
        pids = ", ".join(str(process.pid) for process in alive)
        result.notes.append(f"process {pids} still runs; what it captures from here on stays in the session")
    if alive or collector.unsealed or options.run.keep_session:
        session.close()
        result.kept_session = session.folder
    else:
        session.remove()


def _leave(session: Session) -> None:
    """The session as it is, for `kerncap seal`; removed if nothing was recorded in it."""
    scratch.remove_all()  # the writer may have been stopped in the middle
    if any(path.is_dir() for path in session.folder.glob("*-*")):
        session.close()
        place = shlex.quote(str(session.folder))
        log.line(f"stopped; what was recorded stays in {place} (kerncap seal {place})")
    else:
        session.remove()


def check_captured(*results: CaptureResult, timeout_s: float) -> None:
    """Replay each once; neither many reproducers nor an impatient user lose the report."""
    left: list[tuple[CaptureResult, list[Path]]] = []
    for result in results:
        if result.options.keep.no_values:
            why = "captured with --no-values: there is nothing to compare with"
            _skip([(result, [sealed.path for sealed in result.captured])], why)
        else:
            left += [(result, paths) for paths in _launched_together(result.captured)]
    if left and sys.stderr.isatty():
        log.line(f"self-check of {sum(len(paths) for _, paths in left)} (--no-self-check leaves it out)")
    try:
        from kerncap.replay.pool import Pool
    except ImportError as error:
        _skip(left, f"replay is not installed here: {error}")
        return
    start, most_s = time.monotonic(), _ALL_SELF_CHECKS * timeout_s
    with Pool() as pool:
        while left:
            if time.monotonic() - start > most_s:
                _skip(left, f"the self-checks before it took over {most_s:g} s")
                return
            result, paths = left[0]
            try:
                check = _replayed(paths, result, timeout_s, pool)
            except KeyboardInterrupt:
                _skip(left, "interrupted")
                return
            result.self_checks.update(dict.fromkeys(paths, check))
            left.pop(0)


def _launched_together(captured: Sequence[SealedLaunch]) -> list[list[Path]]:
    """The ranks of a collective launch in one list, each other reproducer in its own."""
    found: dict[str, list[Path]] = {}
    for sealed in captured:
        found.setdefault(sealed.collective or str(sealed.path), []).append(sealed.path)
    return list(found.values())


def _skip(left: Sequence[tuple[CaptureResult, list[Path]]], why: str) -> None:
    for result, paths in left:
        result.self_checks.update(dict.fromkeys(paths, SelfCheck("skipped", why)))


def _replayed(paths: Sequence[Path], result: CaptureResult, timeout_s: float, pool: Pool) -> SelfCheck:
    from kerncap.api.range_replay import self_check_range
    from kerncap.api.verify import self_check
    from kerncap.api.verify.self_check import self_check_together

    try:
        if len(paths) > 1:
            answer, reason = self_check_together(paths, timeout_s)
        else:
            check = self_check_range if is_range(paths[0]) else self_check
            answer, reason = check(paths[0], timeout_s, result.target_python, pool)
    except KerncapError as error:
        return SelfCheck("skipped", log.one_line(error))
    return SelfCheck(answer, reason or "")
