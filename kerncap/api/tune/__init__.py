"""Tune: the fastest right configuration of a kernel, over one reproducer or a set of its shapes."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kerncap import whole_files
from kerncap.api.replay import check_numbers
from kerncap.api.tune.tune_result import ShapeInfo, TuneResult
from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format import Reproducer
from kerncap.replay import trust
from kerncap.replay.choose_engine import Choice as Engine
from kerncap.replay.choose_engine import choose, probe
from kerncap.replay.pool import Asked, Pool
from kerncap.replay.tuning import choice as choosing
from kerncap.replay.tuning import writeback
from kerncap.replay.tuning.bench import Bench
from kerncap.replay.tuning.constraints import Legal
from kerncap.replay.tuning.devices import Devices
from kerncap.replay.tuning.executor import Executor, Sent
from kerncap.replay.tuning.journal import Journal, identity
from kerncap.replay.tuning.point import Point, Scalar
from kerncap.replay.tuning.samplers import NAMES, make
from kerncap.replay.tuning.search import Found, Limits, Search
from kerncap.replay.tuning.space import LaunchSpace, Space, Wishes, build
from kerncap.replay.tuning.space_file import SpaceFile, read
from kerncap.replay.tuning.trial import Trial
from kerncap.replay.tuning.trial_launch import BenchOptions
from kerncap.replay.verdict_words import Tolerance
from kerncap.time_limits import LAUNCH_S

_TRIALS = 100
_LOCAL_WORKERS = 2  # without a device: two launches at a time are no trouble to each other's times


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """What `kerncap tune` takes. ``pin`` and ``bound`` as on the command line: NAME=V, NAME=LO:HI."""

    space: str | None = None
    trials: int = _TRIALS
    time_s: float | None = None
    patience: int = 60
    sampler: str = "auto"
    pin: tuple[str, ...] = ()
    bound: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    scheduler: str | None = None
    workers: int | None = None
    resume: bool = False
    apply: bool = False
    engine: str = "auto"
    device: str = "auto"
    python: str | None = None
    timeout_s: float = LAUNCH_S
    rtol: float | None = None
    atol: float | None = None
    trust: bool = False
    hostile: bool = False


@dataclass
class Watcher:
    """Told what goes on: the space once, each job that a worker was given, trials as they end."""

    started: Callable[[Space, Legal, Mapping[str, Any]], None] = field(default=lambda *_: None)
    sent: Sent = field(default=lambda *_: None)
    ended: Callable[[list[Trial]], None] = field(default=lambda *_: None)
    executor: Callable[[Executor], None] = field(default=lambda *_: None)


def tune(
    paths: Sequence[Path], options: TuneOptions = TuneOptions(), watcher: Watcher | None = None
) -> TuneResult:
    """Search the space of the reproducers' kernel; they are of one kernel and source.

    Raises FormatError, UsageError, BackendUnavailable or ReplayError; finding nothing better is no exception.
    """
    watcher = watcher or Watcher()
    if not paths:
        raise UsageError("tune needs at least one reproducer")
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
        if where.memory == "hip":
            why = "not on an AMD GPU in this version; --engine interpreter searches on the host"
            raise BackendUnavailable("tune", why)
        if where.launcher == "binary":
            raise UsageError("tune compiles a Triton kernel's source: leave --engine out, or use jit")
        spaces = [LaunchSpace(each) for each in reproducers.values()]
        space = build(spaces, wishes, where.launcher != "interpreter")
        if not space.parameters:
            reasons = "; ".join(f"{name}: {why}" for name, why in list(space.pinned.items())[:6])
            raise UsageError(
                f"{first.path}: {first.manifest.kernel.name} has nothing to tune "
                f"({reasons or 'no parameter'}); --space names parameters and values"
            )
        legal = space.legal()
        if legal.size == 0:
            raise UsageError(
                "the constraints leave no configuration: --forbid, --bound or --space exclude all"
            )
        sampler = make(options.sampler, space, legal, options.trials)
        expected = min(options.trials, legal.size)
        executor = _executor(reproducers, options, where, space, watcher.sent, pool, expected)
        stack.callback(executor.close)
        watcher.executor(executor)
        facts = executor.facts()
        journal = Journal(_journal_path(first), identity(list(reproducers), facts), options.resume)
        stack.callback(journal.close)
        watcher.started(space, legal, facts)
        limits = Limits(options.trials, options.time_s, options.patience, 25 if facts["compiled"] else 3)
        search = Search(space, sampler, executor, list(reproducers), limits, journal, watcher.ended)
        found = search.run()
        facts = {**facts, "workers": executor.facts()["workers"]}
        notes = [
            *space.notes,
            *found.notes,
            *executor.notes(),
            *(_of_hostile(facts.get("unconfined", [])) if options.hostile else []),
            *([journal.problem] if journal.problem else []),
        ]
        return _result(reproducers, spaces, space, legal, found, facts, sampler.name, notes, options, journal)


def _of_hostile(unconfined: Sequence[str]) -> list[str]:
    """What was done about a source that attacks its judge, and what this system lacks for it."""
    done = (
        "the source's Python ran confined, and never where the results are; finalists were judged as "
        "verify judges candidates"
    )
    missing = f"the kernel of this system lacks {' and '.join(unconfined)}: what ran could do more"
    return [done, missing] if unconfined else [done]


def wishes_of(options: TuneOptions) -> Wishes:
    """The options' wishes. Raises UsageError for one that can't be read."""
    if options.sampler not in NAMES:
        raise UsageError(f"--sampler {options.sampler}: expected one of {', '.join(NAMES)}")
    if options.trials < 1:
        raise UsageError(f"--trials {options.trials}: expected at least 1")
    check_numbers(options.timeout_s, options.rtol, options.atol)
    if options.time_s is not None and not options.time_s >= 0:
        raise UsageError(f"--time {options.time_s:g}: expected a number of seconds")
    bounds: dict[str, tuple[int, int]] = {}
    for text in options.bound:
        match = re.fullmatch(r"([A-Za-z_]\w*)=(\d{1,9}):(\d{1,9})", text)
        if match is None or int(match[2]) > int(match[3]):
            raise UsageError(f"--bound {text}: expected NAME=LO:HI, two numbers in order")
        if match[1] in bounds:
            raise UsageError(f"--bound {text}: {match[1]} has other bounds already; give them once")
        bounds[match[1]] = (int(match[2]), int(match[3]))
    pins: dict[str, Scalar] = {}
    for text in options.pin:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or not value:
            raise UsageError(f"--pin {text}: expected NAME=VALUE")
        if name in pins:
            raise UsageError(f"--pin {text}: {name} is pinned already; pin it once")
        pins[name] = _value(value)
    file = read(options.space) if options.space is not None else SpaceFile()
    return Wishes(file, pins, bounds, options.forbid)


def _value(text: str) -> Scalar:
    known: dict[str, Scalar] = {"true": True, "false": False, "none": None}
    if text.lower() in known:
        return known[text.lower()]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


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
    here = Bench(paths, bench, where, space.listed, pool)
    if _on_one_device(options):
        return Devices(here, sent=sent)
    return Devices(
        here,
        lambda: _other_devices(where, options),
        lambda device: Bench(paths, replace(bench, device=device), beside=here),
        expected,
        at_once=options.workers is not None,
        sent=sent,
    )


def _on_one_device(options: TuneOptions) -> bool:
    return options.workers == 1 or (options.workers is None and options.device.startswith("cuda"))


def _other_devices(where: Engine, options: TuneOptions) -> list[str]:
    """Of this machine, one for each further worker; without a wish, each that there is."""
    if where.memory != "cuda":
        count = options.workers or min(_LOCAL_WORKERS, os.cpu_count() or 1)
        return [options.device] * (count - 1)
    others: list[str] = []
    if options.device == "auto":
        devices = range(probe(where.python).cuda_devices)
        others = [f"cuda:{ordinal}" for ordinal in devices if ordinal != where.device]
    if options.workers is None:
        return others
    some = itertools.cycle(others or [f"cuda:{where.device}"])
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
    facts: Mapping[str, Any],
    sampler: str,
    notes: list[str],
    options: TuneOptions,
    journal: Journal,
) -> TuneResult:
    by_digest = dict(zip(reproducers, spaces, strict=True))
    tuned = spaces[0].manifest.autotune
    scalars = {digest: each.scalars for digest, each in by_digest.items()}
    choice = choosing.choose(found, scalars, tuned.key if tuned is not None else ())
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
