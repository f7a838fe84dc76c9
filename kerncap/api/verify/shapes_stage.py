"""The shapes stage: the candidate on launches that were not captured, the captured kernel as the reference.

Other values, also of numbers that are passed; other sizes, within the captured memory; rows that are padded,
and tensors that begin one element later, in memory of their own. Where the captured kernel itself fails, the
variant is left out, and that is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kerncap.answer import Answer
from kerncap.api.verify.derived_launch import Layout, NotDerivable, derive
from kerncap.api.verify.other_sizes import Size, halves, sizes, untried_integers
from kerncap.api.verify.own_engine import candidate_verdict, engine_of, original_agrees
from kerncap.api.verify.padded_rows import padded
from kerncap.api.verify.verify_result import Case, StageResult
from kerncap.errors import KerncapError
from kerncap.replay import other_contents
from kerncap.replay.boundary_values import REMEDY
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import CANDIDATE, ORIGINAL
from kerncap.replay.judge_requests import readable_views
from kerncap.replay.memory_names import view_name
from kerncap.replay.other_contents import BEFORE, Differential
from kerncap.replay.other_scalars import decoded, described, other_integers, smaller_floats
from kerncap.replay.outcome import Config
from kerncap.replay.wider_values import nonfinite_of_capture

_SEEDS = (2, 4)


@dataclass
class _Variants(Differential):
    """``nonfinite``: how many NaN and infinities the captured kernel may store; None for any number."""

    nonfinite: int | None = None

    def _problem(self) -> str:
        if self.nonfinite is None:
            return ""
        return "it gives NaN or infinities" * (self._stored_nonfinite() > self.nonfinite)

    def _stored_nonfinite(self) -> int:
        """Of poison that is left nothing counts."""
        engine = self.engine
        stored = {region: engine.diff(region, BEFORE) for region in self.measured.written}
        views = [v for v, view in enumerate(engine.manifest.views) if view.region in stored]
        return sum(stats.nonfinite for stats in engine.nonfinite(views, stored))


@dataclass(frozen=True)
class _Relaid:
    """A layout to try, and what it is called."""

    layout: Layout
    name: str


def stage(case: Case) -> StageResult:
    """Hold the candidate against the captured kernel on all variants that there are."""
    if case.which != CANDIDATE:
        return StageResult.skipped("shapes", "there is no candidate: the captured kernel is the reference")
    if case.measured is None:
        return StageResult.skipped("shapes", "the captured kernel fails here")
    found = StageResult("shapes")
    open_: list[str] = []  # why something is not decided
    for seed in _SEEDS:
        _add(
            found,
            open_,
            other_contents.on_other_values(case.engine, case.measured, case.options.tolerance, seed),
        )
    if case.engine.choice.compiles:
        _add(found, open_, on_other_numbers(case, case.measured))
        for size in sizes(case.engine.manifest):
            _add(found, open_, _of_size(case, case.measured, size))
        if not any(True for _ in sizes(case.engine.manifest)):
            found.not_shown.append("other sizes: no integer argument is the size of a tensor")
        if found.reasons:
            found.not_shown.append("other layouts: it fails already")
        else:
            for layouts in _layouts(case):
                why = ""
                for relaid in layouts:
                    if not (why := _relaid(case, relaid, found, open_)):
                        break
                found.not_shown += [why] if why else []
    else:
        found.not_shown.append(
            f"other sizes and layouts: the {case.engine.choice.name} engine runs what was compiled for these"
        )
    found.shown, found.not_shown = list(dict.fromkeys(found.shown)), list(dict.fromkeys(found.not_shown))
    return found.undecided(*open_) if open_ else found.judged()


def _add(found: StageResult, open_: list[str], what: other_contents.Shown) -> None:
    open_ += what.open
    found.reasons += what.reasons
    found.shown += what.shown
    found.not_shown += what.not_shown


def on_other_numbers(case: Case, measured: Measured) -> other_contents.Shown:
    """Both kernels with other values of the floats that are passed: a factor, an epsilon."""
    return _with_numbers(case, measured, smaller_floats(case.engine.manifest))


def on_free_integers(case: Case, measured: Measured, free: frozenset[str]) -> other_contents.Shown:
    """Both kernels with other integers that are passed and steer nothing (a seed); the others are named.

    There may be one such number only in the application, so a difference decides nothing.
    """
    manifest = case.engine.manifest
    if not case.engine.choice.compiles:
        return other_contents.Shown()
    untried = untried_integers(manifest, all_sizes="shapes" in case.options.stages)
    free &= frozenset(untried)
    found = _with_numbers(case, measured, other_integers(manifest, free))
    found.open, found.reasons = found.open + found.reasons, []
    found.remedy = REMEDY
    if kept := [name for name in untried if name not in free]:
        found.not_shown.append(f"other values of {', '.join(kept)}")
    return found


def _with_numbers(case: Case, measured: Measured, scalars: dict[str, str]) -> other_contents.Shown:
    engine = case.engine
    if not scalars:
        return other_contents.Shown()
    what = described(engine.manifest, scalars)
    names = []
    for which in (ORIGINAL, CANDIDATE):
        try:
            names.append(engine.variant(which, scalars))
        except KerncapError as error:
            reason = f"{what}: {str(error).splitlines()[0]}"
            if which == ORIGINAL:
                return other_contents.Shown(not_shown=[reason])
            return other_contents.Shown(reasons=[f"with {reason}"])
    return _compared(case, measured, what, names, Config(decoded(engine.manifest, scalars)))


def _compared(
    case: Case, measured: Measured, what: str, names: list[str], numbers: Config, nonfinite: int | None = None
) -> other_contents.Shown:
    """Two loaded variants, the captured kernel's first, on the captured contents; they are unloaded then."""
    original, candidate = names
    tolerance = case.options.tolerance
    differential = _Variants(
        case.engine,
        measured,
        tolerance,
        what,
        [],
        original=original,
        candidate=candidate,
        nonfinite=nonfinite,
    )
    shown = differential.judge()
    shown.contents, shown.numbers = [], [numbers] * bool(shown.shown)  # contents are those of the capture
    for name in names:
        case.engine.unload(name)
    return shown


def _of_size(case: Case, measured: Measured, size: Size) -> other_contents.Shown:
    """Both kernels with smaller sizes in the captured memory: every access stays inside it."""
    engine = case.engine
    config = Config(arguments=dict(size.arguments), grid=size.grid)
    names = []
    for which, path in ((ORIGINAL, None), (CANDIDATE, case.options.candidate)):
        name = f"{which} with {size.name}"
        if which == CANDIDATE:
            config = _as_asked(config, engine.config(CANDIDATE))
        try:
            engine.load_configured(name, config, path)
        except KerncapError as error:
            reason = str(error).splitlines()[0]
            if which == ORIGINAL:
                return other_contents.Shown(
                    not_shown=[f"{size.name}: the captured kernel does not load ({reason})"]
                )
            return other_contents.Shown(reasons=[f"with {size.name}: {reason}"])
        names.append(name)
    integers = readable_views(engine.manifest, measured)[1]
    # What was below the size, an index or a length, may not be any more.
    limit = nonfinite_of_capture(engine, measured) if integers else None
    numbers = Config(dict(size.arguments), grid=size.grid)
    shown = _compared(case, measured, f"{size.name}{size.remark}", names, numbers, limit)
    if integers and shown.reasons:
        held = ", ".join(dict.fromkeys(view_name(engine.manifest, view) for view in integers))
        shown.open, shown.reasons = shown.open + shown.reasons, []
        shown.remedy = f"{held} may not fit that size, and a capture of it would decide it"
    return shown


def on_some_numbers(case: Case, measured: Measured) -> other_contents.Shown:
    """Other floats that are passed, for a verdict without the whole stage."""
    if "shapes" in case.options.stages or not case.engine.choice.compiles:
        return other_contents.Shown()
    return on_other_numbers(case, measured)


def begin_some_sizes(case: Case) -> None:
    """Begin to compile what `on_some_sizes` will load."""
    if "shapes" not in case.options.stages and case.engine.choice.torch_free:
        for size in halves(case.engine.manifest):
            config = Config(arguments=dict(size.arguments), grid=size.grid)
            case.engine.begin_configured(config)
            case.engine.begin_configured(config, case.options.candidate)


def on_some_sizes(case: Case, measured: Measured) -> other_contents.Shown:
    """Both kernels with each size at about half, for a verdict that was not asked for the whole stage."""
    found = other_contents.Shown()
    if "shapes" in case.options.stages or not case.engine.choice.compiles:
        return found
    for size in halves(case.engine.manifest):
        shown = _of_size(case, measured, size)
        if shown.open and not found.open:
            found.remedy = shown.remedy
        found.open += shown.open
        found.reasons += shown.reasons
        found.shown += shown.shown
        found.not_shown += shown.not_shown
        found.numbers += shown.numbers
    return found


def _as_asked(config: Config, asked: Config | None) -> Config:
    """A size's configuration, with what the candidate's file asks for beside it."""
    if asked is None:
        return config
    arguments = {**asked.arguments, **config.arguments}
    return Config(arguments, asked.options, config.grid if asked.grid is None else asked.grid)


def _layouts(case: Case) -> Iterator[list[_Relaid]]:
    """Layouts in memory of their own; of each list the first that the captured kernel allows for is tried."""
    manifest = case.reproducer.manifest
    try:
        wider = [padded(manifest, apart) for apart in (True, False)]
    except NotDerivable:
        wider = []  # `derive` says why
    changed = [", ".join(f"{name} = {value}" for name, value in one.arguments.items()) for one in wider]
    yield [
        _Relaid(layout, f"padded rows ({strides}) at other addresses")
        for layout, strides in zip(wider, changed, strict=True)
        if layout.strides
    ]
    yield [_Relaid(Layout(shift=1), "tensors that begin one element later, at other addresses")]


def _relaid(case: Case, relaid: _Relaid, found: StageResult, open_: list[str]) -> str:
    """Judge the candidate in another layout; why that was not done, if it wasn't."""
    try:
        path = derive(case.reproducer, case.folder, relaid.layout)
        with engine_of(case, path) as engine:
            measured, verdict = original_agrees(case, engine)
            if measured is None or not verdict.passed:
                why = verdict.summary
                return f"{relaid.name}: the captured kernel does not allow for it ({why})"
            judged = candidate_verdict(case, engine, measured)
    except NotDerivable as error:
        return f"{relaid.name}: {error}"
    except KerncapError as error:
        return f"{relaid.name}: {str(error).splitlines()[0]}"
    if judged.passed:
        found.shown.append(f"as the captured kernel on {relaid.name}")
    else:
        reasons = found.reasons if judged.answer is Answer.NO else open_
        reasons += [f"on {relaid.name}: {reason}" for reason in judged.reasons]
    return ""
