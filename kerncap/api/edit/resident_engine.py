"""A working copy, and one resident engine that judges it as often as it is saved."""

from __future__ import annotations

import dataclasses
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from kerncap import scratch
from kerncap.answer import Answer
from kerncap.api.candidate_settings import SettingError, settings_of
from kerncap.api.edit import plain_source
from kerncap.api.edit.application_files import patch_of
from kerncap.api.edit.diagnostics import Texts, at, diagnose, texts_of
from kerncap.api.edit.edit_result import EditResult
from kerncap.api.edit.paired_timing import time_in_turns
from kerncap.api.edit.passed_saves import History
from kerncap.api.edit.patch import Patch
from kerncap.api.edit.save_watcher import saved_ago_s
from kerncap.api.edit.working_copy import STAGES, WorkingCopy, digest_of, unit_of
from kerncap.api.replay import ReplayOptions, opened, outcome_result, runs_at_all, without_values, write_set
from kerncap.api.reproduced_faults import end_again
from kerncap.errors import BackendUnavailable, KerncapError, ReplayError, UsageError
from kerncap.format import Reproducer
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.judge_requests import stream_problem
from kerncap.replay.outcome import CandidateError
from kerncap.replay.verdict import judge as judge_launch
from kerncap.replay.verdict import judge_again
from kerncap.replay.verdict_words import Verdict, fail
from kerncap.report.documents.edit_and_compare import Diagnostic, WhichKernel


@dataclass(frozen=True, kw_only=True)
class EditOptions:
    """``replay`` is how launches are run (its ``timed_runs``: rounds of timing; None: as many as are cheap).

    ``stage``: "source", or the captured ttir, ttgir, llir, ptx, cubin or hsaco. ``folder``: where the working
    copy is (default: ``./<kernel>-edit``). ``files``: the user's own in its place, the first the candidate.
    """

    replay: ReplayOptions = field(default_factory=ReplayOptions)
    stage: str = "source"
    folder: Path | None = None
    files: tuple[Path, ...] = ()


class EditSession:
    """``with EditSession(reproducer) as session:`` edit `working_copy`, then `judge`, as often as you like.

    Raises what `api.replay` raises when it is opened. A candidate that does not compile, hangs or crashes is
    a result like any other.
    """

    def __init__(self, repro: Path | str, options: EditOptions | None = None) -> None:
        self.options = options or EditOptions()
        self.path = Path(repro)
        self._stack = ExitStack()

    def __enter__(self) -> EditSession:
        if self.options.replay.candidate is not None:
            raise UsageError("--candidate FILE: verified once; use --watch FILE to verify every save")
        for file in self.options.files:
            if not file.is_file():
                raise UsageError(f"{file}: no such file to watch")
        with ExitStack() as stack:
            self.reproducer, self.engine, _ = stack.enter_context(opened(self.path, self.options.replay))
            self.copy = copy_of(self.reproducer, self.options)
            self.history = History(self.copy)
            self._snapshots = Path(stack.enter_context(scratch.temporary("edit")))
            self._measured = self._write_set()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def working_copy(self) -> Path:
        """The file to edit."""
        return self.copy.file

    @property
    def notes(self) -> list[str]:
        """What holds for every verdict: another device than the captured one, a suspect oracle, …"""
        return outcome_result(self.engine, CANDIDATE, "", Verdict(Answer.YES, "")).notes

    def patch(self) -> Patch:
        """The edits as a patch against the application's files."""
        return patch_of(self.reproducer, self.copy)

    def judge(self, which: WhichKernel = CANDIDATE, saved: bool = False) -> EditResult:
        """Build, run, compare and (if it passes) time the working copy as it is, or the original.

        ``saved``: it was a save that asked for it, and the time to the verdict counts from there.
        Raises BackendUnavailable if a compiler is missing here, UsageError for a file of a wrong kind.
        """
        begin = time.monotonic()
        waited_s = min(saved_ago_s(self.copy.watched), 2.0) if saved else 0.0
        files = self.copy.read()
        number = self.history.next_number()
        judged = _Judged(self, which, files, number)
        result = EditResult(number, which, self.copy.file, "build", fail("not judged"))
        result.edited = self.copy.is_edited
        try:
            judged.into(result)
        except (BackendUnavailable, UsageError):
            raise
        except KerncapError as error:  # the next save may do better
            result.verdict = fail(str(error).strip().split("\n")[0], str(error).strip())
        ended = time.monotonic()
        result.save_to_verdict_ms = max(0.0, (waited_s + ended - begin) * 1e3 - (result.compile_ms or 0.0))
        if result.passed:
            self._time(result, ended - begin)
            self._keep(result, files)
        best = self.history.best
        result.best = None if best is None else self.history.document(best)
        return result

    # --- inside ----------------------------------------------------------------------------------------

    @property
    def ends_otherwise(self) -> bool:
        """Whether there is no result to compare: the launch faulted, hung, or has no values."""
        return self.reproducer.manifest.oracle.kind in ("fault", "timeout") or without_values(self.engine)

    @property
    def measured(self) -> Measured | None:
        return self._measured

    def snapshot(self, number: int, files: dict[str, bytes]) -> Path:
        """The file to load: a copy that the next save does not change under a running launch, and that a new
        worker can load again.

        A native unit is read when it is compiled, and at no other time: that one is taken where it is, for
        its compiler may look beside it.
        """
        if self.engine.choice.launcher == "native":
            return self.copy.file
        folder = self._snapshots / str(number)
        folder.mkdir()
        path = folder / self.copy.file.name
        path.write_bytes(files[self.copy.unit.main])
        self._link_neighbours(folder)
        return path

    def _link_neighbours(self, folder: Path) -> None:
        """What a module of the user's own may import from its folder."""
        for each in self.copy.file.parent.iterdir() if self.options.files else ():
            importable = (each if each.suffix == ".py" else each / "__init__.py").is_file()
            if importable and not (folder / each.name).exists():
                (folder / each.name).symlink_to(each.resolve())

    def _write_set(self) -> Measured | None:
        return None if self.ends_otherwise else write_set(self.reproducer, self.engine)

    def _time(self, result: EditResult, run_s: float) -> None:
        if self._measured is None or not self._measured.written_bytes:
            return
        wanted = self.options.replay.timed_runs
        if wanted is None and not result.edited and self.engine.choice.memory == "host":
            return  # the same text twice, at the interpreter's pace
        result.times, why = time_in_turns(self.engine, self._measured, result.which, wanted, run_s)
        if why:
            result.notes.append(why)

    def _keep(self, result: EditResult, files: dict[str, bytes]) -> None:
        if result.which != CANDIDATE or not result.edited:
            return
        ratio = None if result.times is None else result.times.ratio
        result.kept = self.history.where(self.history.keep(result.number, digest_of(files), files, ratio))


@dataclass
class _Judged:
    """One judgement: from the files of a save to a verdict."""

    session: EditSession
    which: str
    files: dict[str, bytes]
    number: int

    def into(self, result: EditResult) -> None:
        engine = self.session.engine
        result.original = engine.compiled(ORIGINAL)
        loaded: Path | None = None
        if self.which == CANDIDATE:
            if self.session.copy.unit.main not in self.files:
                raise ReplayError(f"{self.session.copy.file}: no such file")
            loaded = self.session.snapshot(self.number, self.files)
            if not self._loads(engine, loaded, result):
                return
            result.candidate = engine.compiled(CANDIDATE)
            result.compile_ms = result.candidate.compile_ms
        result.stage = "run"
        result.verdict = self._verdict(engine)
        if result.verdict.views or result.verdict.compared_bytes:
            result.stage = "compare"
        if not result.passed and loaded is not None:
            texts = self._texts(loaded)
            result.diagnostics = diagnose(texts, result.verdict.summary, *result.verdict.notes)

    def _verdict(self, engine: Engine) -> Verdict:
        session, measured = self.session, self.session.measured
        if session.reproducer.manifest.oracle.kind in ("fault", "timeout"):
            return end_again(engine, self.which)
        if measured is None:
            return runs_at_all(engine, self.which)
        verdict = judge_launch(engine, measured, self.which, session.options.replay.tolerance)
        if verdict.passed and self.which == CANDIDATE and self._may_leave_its_stream(engine):
            again = judge_again(engine, measured, CANDIDATE, session.options.replay.tolerance)
            if not again.passed:
                return dataclasses.replace(again, summary=f"when it runs again: {again.summary}")
            engine.restore()
            problem = stream_problem(engine, CANDIDATE, sorted(measured.written))
            if problem:
                failed = fail(f"it does not keep to the stream that it is launched in: {problem}")
                return dataclasses.replace(failed, notes=verdict.notes)
        return verdict

    def _may_leave_its_stream(self, engine: Engine) -> bool:
        """Whether the module is more than kernels: a compiled image has no say in where it is launched.

        Such a one could keep its first result, too.
        """
        main = self.session.copy.unit.main
        text = self.files[main].decode("utf-8", "replace")
        return engine.choice.launcher == "jit" and main.endswith(".py") and not plain_source.is_plain(text)

    def _loads(self, engine: Engine, path: Path, result: EditResult) -> bool:
        begin = time.monotonic()
        asked_at = 0
        try:
            text = self.files[self.session.copy.unit.main].decode("utf-8", "replace")
            config, asked_at = settings_of(text) if path.suffix == ".py" else (None, 0)
            if config is not None:
                engine.load_configured(CANDIDATE, config, path)
            else:
                engine.load_candidate(path)
        except SettingError as error:
            texts = self._texts(path)
            result.verdict = fail(str(error))
            result.diagnostics = [at(texts, texts.main, error.line, None, str(error))]
            return False
        except CandidateError as error:
            result.compile_ms = (time.monotonic() - begin) * 1e3
            texts = self._texts(path)
            result.verdict = fail(self._in_users_words(path, str(error)).strip().split("\n")[0])
            result.diagnostics = self._places(texts, error)
            if asked_at and not result.diagnostics:
                result.diagnostics = [at(texts, texts.main, asked_at, None, "launched as this line asks")]
            if error.detail and not result.diagnostics:
                result.verdict.notes.append(self._in_users_words(path, error.detail))
            return False
        return True

    def _places(self, texts: Texts, error: CandidateError) -> list[Diagnostic]:
        message = str(error).strip().split("\n")[0]
        found = diagnose(texts, message, error.detail, str(error))
        path = texts.find(error.file) if error.file else None
        if error.line is not None and path is not None:
            same = [each for each in found if each.line == error.line]
            if not same:
                found.insert(0, at(texts, path, error.line, error.column, message))
            elif same[0].column is None and error.column is not None:
                found[found.index(same[0])] = dataclasses.replace(same[0], column=error.column)
        return found

    def _texts(self, loaded: Path) -> Texts:
        copy, source = self.session.copy, self.session.reproducer.manifest.source
        names = {str(loaded): copy.unit.main, str(copy.file): copy.unit.main}
        for path, stored in copy.unit.stored.items():
            names[stored] = path
        if source is not None and source.build is not None:
            own = {stored: path for path, stored in copy.unit.stored.items()}
            for name, stored in {**source.build.headers, source.build.name: source.build.unit}.items():
                if name and stored in own:
                    names[name] = own[stored]
        return texts_of(self.files, copy.places, names, copy.unit.main)

    def _in_users_words(self, loaded: Path, text: str) -> str:
        return text.replace(str(loaded), str(self.session.copy.file))


def copy_of(reproducer: Reproducer, options: EditOptions) -> WorkingCopy:
    """The working copy that the options ask for, made or taken up again."""
    stage = options.stage
    if options.files:
        suffix = options.files[0].suffix.lstrip(".")
        suffix = {"co": "hsaco"}.get(suffix, suffix)
        stage = suffix if suffix in STAGES and stage == "source" else stage
        source = reproducer.manifest.source
        if stage != "source" and source is not None and Path(source.file.path).suffix == f".{suffix}":
            stage = "source"  # of PTX that the application had as text
        return WorkingCopy.around(reproducer, unit_of(reproducer, stage), list(options.files))
    return WorkingCopy.open(reproducer, unit_of(reproducer, stage), options.folder)
