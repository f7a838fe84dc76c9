"""`minimize`: the reproducer of the same launch with no memory but what it needs."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kerncap import child, scratch
from kerncap.api.accessed_bytes import accessed_bytes
from kerncap.api.minimize.delta_debug import Masks, Search
from kerncap.api.minimize.poison_probe import Probe, pointer_words
from kerncap.api.minimize.rewritten_reproducer import rewrite
from kerncap.api.output_place import beside
from kerncap.api.replay import ReplayOptions, opened, replay, without_values, write_set
from kerncap.errors import KerncapError, ReplayError, UsageError
from kerncap.format import Reproducer
from kerncap.replay import trust
from kerncap.replay.byte_effects import Measured, load
from kerncap.replay.engine import Engine
from kerncap.replay.plain_run import OutOfTime
from kerncap.replay.worker.common import bitmap
from kerncap.report.documents.sharing import MinimizeDocument
from kerncap.whole_files import output_folder

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Minimized:
    """What was left out. Bytes are of memory as it is stored; ``path`` is None if nothing could be."""

    path: Path | None
    before_bytes: int
    after_bytes: int
    needed_bytes: int  # of the regions, not zeroed
    closure_bytes: int
    regions_left_out: int
    how: str
    tries: int
    seconds: float
    verified: str  # what the new one's own check says
    complete: bool = True  # False: the time was up before everything was asked

    @property
    def ratio(self) -> float:
        return self.after_bytes / self.before_bytes if self.before_bytes else 1.0

    def as_dict(self) -> dict[str, Any]:
        """The document of ``--json``."""
        path = None if self.path is None else str(self.path)
        return MinimizeDocument(**{**vars(self), "path": path, "ratio": self.ratio}).as_dict()


def minimize(
    path: Path | str,
    output: Path | str | None = None,
    options: ReplayOptions | None = None,
    *,
    keep_failing: str | None = None,
    seconds: float = 300.0,
    progress: Progress = lambda _line: None,
) -> Minimized:
    """Write a reproducer of the launch at ``path`` into ``output`` (its own parent) with zeros for the rest.

    What is needed is found by following each access of a Triton kernel on the captured contents, elsewhere
    (or if that is not exact) by replays under poison: regions, then pages, then lines. With
    ``keep_failing``, a command that gets a reproducer's path as its last word, whatever keeps its exit
    status is left out. The new one is replayed and compared before it is given out; the old one stays.

    Raises UsageError, FormatError, BackendUnavailable; ReplayError if the launch does not reproduce.
    """
    path, options = Path(path), options or ReplayOptions()
    parent = beside(path, output, "") if output is not None else path.resolve().parent
    with output_folder(parent):
        return _minimize(path, parent, options, keep_failing, seconds, progress)


def _minimize(
    path: Path, parent: Path, options: ReplayOptions, keep_failing: str | None, seconds: float,
    progress: Progress,
) -> Minimized:  # fmt: skip
    started = time.monotonic()
    deadline = started + seconds
    if keep_failing is not None:
        return _by_command(path, parent, _words(keep_failing), started, deadline, progress)
    with opened(path, options) as (reproducer, engine, _):
        if reproducer.manifest.oracle.kind in ("fault", "timeout"):
            raise UsageError(
                f"{path}: the launch ended with a {reproducer.manifest.oracle.kind}, so no output says what "
                "it needs: give a command with --keep-failing"
            )
        if without_values(engine):
            raise UsageError(f"{path}: it holds no values or no result, so nothing says what it needs")
        measured = write_set(reproducer, engine)
        free, how, tries, complete = _free(reproducer, engine, measured, options, deadline, progress)
    with Reproducer.open(path) as reproducer:
        return _checked(
            reproducer, parent, free, measured.written, how, tries, started, complete, progress,
            lambda folder: _passes(folder, options),
        )  # fmt: skip


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--keep-failing: {command}: {error}") from error


def _free(
    reproducer: Reproducer, engine: Engine, measured: Measured, options: ReplayOptions, deadline: float,
    progress: Progress,
) -> tuple[Masks, str, int, bool]:  # fmt: skip
    """The bytes that may be anything, how they were found, replays that it took, whether it was finished."""
    sizes = [region.size for region in reproducer.manifest.regions]
    probe = Probe(engine, measured, deadline)
    probe.start()
    left = max(1.0, (deadline - time.monotonic()) / 3)
    accessed, why = accessed_bytes(reproducer, left, trusted=False, python=options.python)  # it just ran
    if accessed is not None:
        progress("every access of the kernel was followed; replays under poison check it")
        free = {
            number: bitmap.span(size, 0, size) & ~accessed.read[number] & ~measured.in_place(number)
            for number, size in enumerate(sizes)
        }
        try:
            if probe.holds_twice(free):
                return free, "the kernel's accesses, followed on the captured contents", 2, True
        except OutOfTime:
            pass
        why = "the result depends on more than its accesses"
    progress(f"replays under poison find the needed bytes: {why}")
    known = {number: measured.poisonable(number) for number in range(len(sizes))}
    fixed = pointer_words(engine)
    for number in range(len(sizes)):
        fixed[number] = fixed.get(number, bitmap.empty(sizes[number])) | measured.in_place(number)
    search = Search(sizes, known, fixed, probe.holds)
    complete = _run(search)
    return search.free, "replays under poison", search.tries, complete


def _run(search: Search) -> bool:
    """Whether it came to its end; what it found until then holds either way."""
    try:
        search.run()
    except OutOfTime:
        return False
    return True


def _checked(
    reproducer: Reproducer, parent: Path, free: Masks, written: Masks, how: str, tries: int, started: float,
    complete: bool, progress: Progress, check: Callable[[Path], str],
) -> Minimized:  # fmt: skip
    """The new reproducer, checked; without idle regions if it holds so, else with them."""
    before = _stored(reproducer)
    known = trust.is_remembered(reproducer)
    reason = ""
    for drop in (True, False):
        note = (
            f"Minimized from {reproducer.manifest_sha256[:16]}: memory that its launch does not need is zero."
        )
        path, gone = rewrite(reproducer, parent, free, written, note, drop)
        if path.resolve() == reproducer.path.resolve():
            raise KerncapError(f"{path}: the minimized reproducer would be the old one")
        with Reproducer.open(path) as new:
            after = _stored(new)
            if known:
                trust.remember(new)
        progress(f"checks {path.name}")
        reason = check(path)
        if reason.startswith("pass"):
            break
        shutil.rmtree(path)
        if not gone:
            raise ReplayError(f"{reproducer.path}: the minimized reproducer does not hold: {reason}")
    sizes = [region.size for region in reproducer.manifest.regions]
    needed = sum(size - bitmap.count(free.get(i, bitmap.empty(size))) for i, size in enumerate(sizes))
    smaller = after < before
    if not smaller:
        shutil.rmtree(path)
    return Minimized(
        path if smaller else None, before, after, needed, sum(sizes), gone, how, tries,
        time.monotonic() - started, reason, complete,
    )  # fmt: skip


def _passes(path: Path, options: ReplayOptions) -> str:
    result = replay(path, replace(options, candidate=None, timed_runs=0))
    return f"{result.answer.value}: {result.verdict.summary}"


def _stored(reproducer: Reproducer) -> int:
    memory = reproducer.manifest.memory
    return memory.stored_bytes + memory.index.size


# --- by a command ------------------------------------------------------------------------------------


def _by_command(
    path: Path, parent: Path, command: list[str], started: float, deadline: float, progress: Progress
) -> Minimized:
    """Whatever keeps the command's exit status, found by running it on one candidate after the other."""
    if not command:
        raise UsageError("--keep-failing: expected a command")
    with Reproducer.open(path) as reproducer, scratch.temporary("minimize", parent, hidden=True) as work:
        wanted = _status(command, path, deadline)
        if wanted == 0:
            raise UsageError(f"--keep-failing: {command[0]} ends with status 0 on {path}; it should fail")
        measured = load(reproducer)
        written = measured.written if measured is not None else {}
        known = trust.is_remembered(reproducer)
        sizes = [region.size for region in reproducer.manifest.regions]

        def keeps(free: Masks) -> bool:
            folder, _ = rewrite(reproducer, Path(work), free, written, "A candidate of minimize.", drop=False)
            try:
                if known:
                    with Reproducer.open(folder) as candidate:
                        trust.remember(candidate)
                return _status(command, folder, deadline) == wanted
            finally:
                shutil.rmtree(folder)

        search = Search(sizes, {}, {}, keeps)
        progress(f"runs {command[0]} on one candidate after the other; it ends with status {wanted}")
        complete = _run(search)

        def check(folder: Path) -> str:
            status = _status(command, folder, deadline + 600)
            return f"pass: status {status}" if status == wanted else f"fail: status {status}, not {wanted}"

        how = f"what keeps {command[0]} at status {wanted}"
        return _checked(
            reproducer, parent, search.free, written, how, search.tries, started, complete, progress, check
        )  # fmt: skip


def _status(command: list[str], path: Path, deadline: float) -> int:
    left = deadline - time.monotonic()
    if left <= 0:
        raise OutOfTime("the needs of the command were not found within the time limit")
    try:
        started = child.Given([*command, str(path)])
    except OSError as error:
        raise UsageError(f"--keep-failing: {command[0]}: {error.strerror or error}") from error
    try:
        return started.wait(left)
    except subprocess.TimeoutExpired:
        raise OutOfTime("the command did not end within the time limit") from None
    finally:
        started.end()
