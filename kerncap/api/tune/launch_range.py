"""`tune RANGE --candidate`: the fastest right configuration of a module that replaces launches of a range."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import replace
from pathlib import Path

from kerncap import scratch, whole_files
from kerncap.answer import Answer
from kerncap.api.range_candidate import kept_candidate, opened_candidate, verify_candidate
from kerncap.api.tune.range_bench import RangeBench, SearchedModule, SearchedSource
from kerncap.api.tune.tune_result import ShapeInfo, TuneResult
from kerncap.api.tune.wishes import EMULATED, TuneOptions, Watcher, legal_of, wishes_of
from kerncap.api.verify.verify_result import VerifyOptions, VerifyResult
from kerncap.errors import UsageError
from kerncap.replay.pool import Pool
from kerncap.replay.tuning import choice as choosing
from kerncap.replay.tuning import point
from kerncap.replay.tuning.choice import Choice
from kerncap.replay.tuning.devices import Devices
from kerncap.replay.tuning.journal import Journal, identity
from kerncap.replay.tuning.samplers import make
from kerncap.replay.tuning.search import Search
from kerncap.replay.tuning.trial_launch import BenchOptions
from kerncap.replay.tuning.writeback import Patch, diff
from kerncap.replay.verdict_words import Tolerance


def tune_range(path: Path, options: TuneOptions, candidate: Path, watcher: Watcher) -> TuneResult:
    """Search the space of ``candidate``, a module or a source, on the range at ``path``.

    Each configuration is judged by what the replaced launches left, timed against them in a row, and the
    fastest is verified. Raises as `tune`, and UsageError for a candidate that is not right as it is.
    """
    wishes, intermediates = wishes_of(options), options.intermediates
    _check(options)
    judged = VerifyOptions(
        candidate=candidate, engine=options.engine, device=options.device, python=options.python,
        timeout_s=options.timeout_s, rtol=options.rtol, atol=options.atol, trust=options.trust,
        hostile=options.hostile,
    )  # fmt: skip
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(Pool())
        copy = stack.enter_context(kept_candidate(judged))
        assert copy is not None
        # A module's copy lies with those of the modules that it imports.
        folder = copy.path.parent
        if copy.path == candidate:
            folder = Path(stack.enter_context(scratch.temporary("tune")))
        as_it_is = verify_candidate(path, judged, intermediates, pool)
        if as_it_is.answer is not Answer.YES:
            raise UsageError(
                f"{candidate}: as it is, verify says {as_it_is.answer.value}: {as_it_is.verdict.summary}; "
                "tune searches around a candidate that is right"
            )
        judged = replace(judged, candidate=copy.path)
        opened = stack.enter_context(opened_candidate(path, judged, intermediates, pool))
        assert not isinstance(opened, VerifyResult)
        is_source = opened.candidate.text is not None
        searched = (SearchedSource if is_source else SearchedModule)(opened.whole, opened.candidate)
        space = searched.space(wishes, opened.engine.choice.memory != "host")
        kernels = ", ".join(dict.fromkeys(each.manifest.kernel.name for each in searched.launches))
        legal = legal_of(space, str(candidate), kernels)
        sampler = make(options.sampler, space, legal, options.trials)
        digest = hashlib.sha256(
            f"{opened.whole.manifest_sha256} {intermediates}".encode() + copy.path.read_bytes()
        ).hexdigest()
        bench = RangeBench(
            digest, searched, opened.engine, opened.measured,
            BenchOptions(
                options.engine, options.device, options.python, options.timeout_s,
                Tolerance(options.rtol, options.atol), hostile=options.hostile,
            ),
        )  # fmt: skip
        executor = Devices(bench, sent=watcher.sent)
        stack.callback(executor.close)
        watcher.executor(executor)
        facts = executor.facts()
        journal_path = path.resolve().parent / f"{candidate.stem}.tune.jsonl"
        journal = Journal(journal_path, identity([digest], facts), options.resume)
        stack.callback(journal.close)
        watcher.started(space, legal, facts)
        search = Search(
            space, sampler, executor, [digest], options.limits(facts["compiled"]), journal, watcher.ended
        )
        found = search.run()
        choice = choosing.choose(found, {digest: {}}, ())
        notes = [*opened.notes, *space.notes, *found.notes]
        if opened.engine.choice.emulator:
            notes.append(EMULATED)
        patch = Patch("")
        if choice.best:
            before, after = copy.path.read_text(encoding="utf-8"), searched.edited(choice.best[0].point)
            tuned = folder / f"tuned_{candidate.name}"
            tuned.write_text(after, encoding="utf-8")
            result = verify_candidate(path, replace(judged, candidate=tuned), intermediates, pool)
            best = point.text(choice.best[0].point)
            notes.append(f"verify says {result.answer.value} of {best}: {result.verdict.summary}")
            if result.answer is Answer.YES:
                patch = Patch(diff(before, after, str(candidate)), str(candidate))
            else:
                choice = Choice(notes=choice.notes)
        patch_path = None
        if options.apply and patch.text:
            patch_path = journal.path.with_suffix("").with_suffix(".tune.patch")
            whole_files.write(patch_path, patch.text)
        shape = ShapeInfo(digest, str(path), {}, float(facts["original_ms"][digest]), {})
        return TuneResult(
            kernel=kernels,
            facts={name: facts[name] for name in ("device", "engine", "triton", "torch", "workers")},
            shapes=[shape], parameters=space.parameters, pinned=space.pinned, legal=legal,
            sampler=sampler.name, found=found, choice=choice, notes=[*notes, *choice.notes],
            patch=patch if options.apply else Patch(""), patch_path=patch_path, journal=journal.path,
        )  # fmt: skip


def _check(options: TuneOptions) -> None:
    for given, option in ((options.scheduler, "--scheduler"), ((options.workers or 1) > 1, "--workers")):
        if given:
            raise UsageError(f"{option}: a range is tuned on one device, by one worker; leave it out")
