"""Tune: the fastest right configuration of a kernel, over one reproducer or a set of its shapes."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kerncap import whole_files
from kerncap.api.tune.safe_choice import safe_choice
from kerncap.api.tune.tune_result import ShapeInfo, TuneResult
from kerncap.api.tune.wishes import EMULATED, TuneOptions, Watcher, legal_of, wishes_of
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.format.folder import is_range
from kerncap.replay import trust
from kerncap.replay.choose_engine import Choice as Engine
from kerncap.replay.choose_engine import choose, probe
from kerncap.replay.pool import Asked, Pool
from kerncap.replay.tuning import writeback
from kerncap.replay.tuning.bench import ReproducerBench
from kerncap.replay.tuning.choice import Choice
from kerncap.replay.tuning.constraints import Legal
from kerncap.replay.tuning.devices import Devices
from kerncap.replay.tuning.executor import Executor, Sent
from kerncap.replay.tuning.journal import Journal, identity
from kerncap.replay.tuning.point import Point, Scalar
from kerncap.replay.tuning.samplers import make
from kerncap.replay.tuning.search import Found, Search
from kerncap.replay.tuning.space import LaunchSpace, Space, build
from kerncap.replay.tuning.trial_launch import BenchOptions
from kerncap.replay.verdict_words import Tolerance

_DEFAULT = TuneOptions()
_LOCAL_WORKERS = 2  # without a device: two launches at a time are no trouble to each other's times


def tune(
    paths: Sequence[Path], options: TuneOptions = _DEFAULT, watcher: Watcher | None = None
) -> TuneResult:
    """Search the space of the reproducers' kernel, which are of one kernel and source, or that of
    ``options.candidate`` on one range.

    Raises FormatError, UsageError, BackendUnavailable or ReplayError; finding nothing better is no exception.
    """
    watcher = watcher or Watcher()
    if not paths:
        raise UsageError("tune needs at least one reproducer")
    if options.candidate is not None or any(map(is_range, paths)):
        return _tune_range(paths, options, watcher)
    wishes = wishes_of(options)
    with contextlib.ExitStack() as stack:
        reproducers: dict[str, Reproducer] = {}
        for path in paths:
            reproducer = stack.enter_context(Reproducer.open(path))
            _check(reproducer)
            trust.require(reproducer, options.trust)
            if reproducer.manifest_sha256 in reproducers:
                raise UsageError(f"{path}: given twice; leave one out")
            reproducers[reproducer.manifest_sha256] = reproducer
        first = next(iter(reproducers.values()))
        pool = _begun(first, options)
        if pool is not None:
            stack.callback(pool.close)
        where = choose(first.manifest, options.engine, options.device, options.python)
        if where.memory == "hip" and options.engine == "auto" and first.manifest.launch.mode != "native":
            # Chosen by itself is the captured code object, which has one configuration.
            options, where = replace(options, engine="jit"), replace(where, source=True)
        if where.launcher == "binary":
            raise UsageError("tune compiles a Triton kernel's source: leave --engine out, or use jit")
        spaces = [LaunchSpace(each) for each in reproducers.values()]
        space = build(spaces, wishes, where.launcher != "interpreter")
        legal = legal_of(space, str(first.path), first.manifest.kernel.name)
        sampler = make(options.sampler, space, legal, options.trials)
        expected = min(options.trials, legal.size)
        executor = _executor(reproducers, options, where, space, watcher.sent, pool, expected)
        stack.callback(executor.close)
        watcher.executor(executor)
        facts = executor.facts()
        journal = Journal(_journal_path(first), identity(list(reproducers), facts), options.resume)
        stack.callback(journal.close)
        watcher.started(space, legal, facts)
        limits = options.limits(facts["compiled"])
        search = Search(space, sampler, executor, list(reproducers), limits, journal, watcher.ended)
        found = search.run()
        facts = {**facts, "workers": executor.facts()["workers"]}
        notes = [
            *space.notes,
            *found.notes,
            *executor.notes(),
            *(_of_hostile(facts.get("unconfined", [])) if options.hostile else []),
            *([EMULATED] if where.emulator else []),
            *([journal.problem] if journal.problem else []),
        ]
        tuned = first.manifest.autotune
        choice = safe_choice(
            found,
            dict(zip(reproducers, spaces, strict=True)),
            tuned.key if tuned is not None else (),
            where.python,
        )
        return _result(
            reproducers, spaces, space, legal, found, choice, facts, sampler.name, notes, options, journal
        )


def _tune_range(paths: Sequence[Path], options: TuneOptions, watcher: Watcher) -> TuneResult:
    from kerncap.api.tune.launch_range import tune_range

    [first, *others] = paths
    if options.candidate is None:
        path = next(filter(is_range, paths))
        raise UsageError(
            f"{path}: a range; --candidate names a module for several of its launches, and "
            f"kerncap slice {path} K makes a reproducer of one"
        )
    if others or not is_range(first):
        raise UsageError("--candidate: for one range; give that, or leave it out")
    return tune_range(first, options, options.candidate, watcher)


def _of_hostile(unconfined: Sequence[str]) -> list[str]:
    """What was done about a source that attacks its judge, and what this system lacks for it."""
    done = (
        "the source's Python ran confined, and never where the results are; finalists were judged as "
        "verify judges candidates"
    )
    missing = f"the kernel of this system lacks {' and '.join(unconfined)}: what ran could do more"
    return [done, missing] if unconfined else [done]


def _check(reproducer: Reproducer) -> None:
    manifest = reproducer.manifest
    if manifest.oracle.kind in ("fault", "timeout"):
        raise UsageError(
            f"{reproducer.path}: the captured launch ended with a {manifest.oracle.kind}: "
            "there is no result to compare configurations with"
        )
    if why := manifest.why_no_result:
        raise UsageError(f"{reproducer.path}: {why}: there is nothing to compare with")


def _begun(first: Reproducer, options: TuneOptions) -> Pool | None:
    """Begun before anything else is looked at, if it is sure that engines will run in this process."""
    if options.scheduler is not None:
        return None
    pool = Pool(lasting=True)
    pool.begin(first.manifest, Asked(engine=options.engine, device=options.device, python=options.python))
    return pool


def _executor(
    reproducers: Mapping[str, Reproducer], options: TuneOptions, where: Engine, space: Space, sent: Sent,
    pool: Pool | None, expected: int,
) -> Executor:  # fmt: skip
    """On this machine, or with a scheduler in its cluster."""
    bench = BenchOptions(
        options.engine,
        options.device,
        options.python,
        options.timeout_s,
        Tolerance(options.rtol, options.atol),
        hostile=options.hostile,
    )
    if options.scheduler is not None:
        from kerncap.replay.tuning.cluster import Cluster
        from kerncap.replay.tuning.shipping import pack

        shipments = [pack(each, trusted=True) for each in reproducers.values()]
        return Cluster(shipments, bench, options.scheduler, options.workers, sent, space.listed)
    paths = {digest: each.path for digest, each in reproducers.items()}
    here = ReproducerBench(paths, bench, where, space.listed, pool)
    if _on_one_device(options):
        return Devices(here, sent=sent)
    return Devices(
        here,
        lambda: _other_devices(where, options),
        lambda device: ReproducerBench(paths, replace(bench, device=device), beside=here),
        expected,
        at_once=options.workers is not None,
        sent=sent,
    )


def _on_one_device(options: TuneOptions) -> bool:
    by_name = options.device.startswith(("cuda", "hip"))
    return options.workers == 1 or (options.workers is None and by_name)


def _other_devices(where: Engine, options: TuneOptions) -> list[str]:
    """Of this machine, one for each further worker; without a wish, each that there is."""
    if where.memory == "host":
        count = options.workers or min(_LOCAL_WORKERS, os.cpu_count() or 1)
        return [options.device] * (count - 1)
    others: list[str] = []
    if options.device == "auto" and where.memory == "cuda":
        devices = range(probe(where.python).cuda_devices)
        others = [f"cuda:{ordinal}" for ordinal in devices if ordinal != where.device]
    if options.workers is None:
        return others
    some = itertools.cycle(others or [f"{where.memory}:{where.device}"])
    return list(itertools.islice(some, options.workers - 1))


def _journal_path(reproducer: Reproducer) -> Path:
    """Beside the reproducers."""
    name = re.sub(r"[^\w.-]", "_", reproducer.manifest.kernel.name)[:80]
    return reproducer.path.resolve().parent / f"{name}.tune.jsonl"


def _result(
    reproducers: Mapping[str, Reproducer],
    spaces: Sequence[LaunchSpace],
    space: Space,
    legal: Legal,
    found: Found,
    choice: Choice,
    facts: Mapping[str, Any],
    sampler: str,
    notes: list[str],
    options: TuneOptions,
    journal: Journal,
) -> TuneResult:
    by_digest = dict(zip(reproducers, spaces, strict=True))
    first = next(iter(reproducers.values()))
    native = first.manifest.launch.mode == "native"
    points: list[Point] = choice.selected
    decorator = writeback.decorator(points, choice.key) if points and not native else ""
    patch = writeback.Patch("")
    if options.apply and points:
        patch = _patch(first, points, choice.key, native)
    shapes = [
        ShapeInfo(digest, str(reproducers[digest].path), _shape(by_digest[digest], by_digest.values()),
                  float(facts["original_ms"][digest]), _captured(by_digest[digest], space))
        for digest in reproducers
    ]  # fmt: skip
    patch_path = None
    if patch.text:
        patch_path = journal.path.with_suffix("").with_suffix(".tune.patch")
        whole_files.write(patch_path, patch.text)
    return TuneResult(
        kernel=first.manifest.kernel.name,
        facts={name: facts[name] for name in ("device", "engine", "triton", "torch", "workers")},
        shapes=shapes, parameters=space.parameters, pinned=space.pinned, legal=legal, sampler=sampler,
        found=found, choice=choice, notes=[*notes, *choice.notes], decorator=decorator, patch=patch,
        patch_path=patch_path, journal=journal.path,
    )  # fmt: skip


def _patch(
    reproducer: Reproducer, points: Sequence[Point], key: Sequence[str], native: bool
) -> writeback.Patch:
    if not native:
        return writeback.triton_patch(reproducer, points, key)
    return writeback.cuda_patch(reproducer, points[0])


def _captured(space: LaunchSpace, whole: Space) -> dict[str, Scalar]:
    return {parameter.name: space.captured(parameter.name) for parameter in whole.parameters}


def _shape(space: LaunchSpace, spaces: Any) -> dict[str, Any]:
    """The scalar arguments that tell a launch from the others of the set; of a single one none."""
    every = list(spaces)
    runtime = [a.name for a in space.manifest.arguments if a.role == "runtime"]
    return {
        name: space.scalars[name]
        for name in runtime
        if name in space.scalars and len({str(each.scalars.get(name)) for each in every}) > 1
    }


__all__ = ["TuneOptions", "Watcher", "tune", "wishes_of"]
