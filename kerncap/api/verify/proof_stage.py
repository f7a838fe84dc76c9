"""The proof stage: whether a Triton candidate computes the same function as the captured kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from kerncap.api.verify.derived import derive
from kerncap.api.verify.verify_result import Case, StageResult
from kerncap.errors import BackendUnavailable, KerncapError
from kerncap.format import Reproducer, schema
from kerncap.log import one_line
from kerncap.replay.engine import CANDIDATE
from kerncap.replay.outcome import Config, Scalar

if TYPE_CHECKING:
    from kerncap.sanitizer.equality.proof import Proof
    from kerncap.sanitizer.launch import Launch


def stage(case: Case) -> StageResult:
    candidate = case.options.candidate
    found = StageResult("proof")
    if case.which != CANDIDATE or candidate is None:
        return found.undecided("there is no candidate to compare with the captured kernel")
    if case.reproducer.manifest.kernel.language != "triton" or candidate.suffix != ".py":
        return found.undecided("it takes Triton's source")
    from kerncap.sanitizer.equality.proof import kernel_of, prove

    try:
        text = candidate.read_text(encoding="utf-8")
        first = _launch(case, None, None)
        second = _launch(case, text, case.engine.config(CANDIDATE))
        return said(found, prove(kernel_of(first), kernel_of(second)))
    except (KerncapError, OSError, UnicodeDecodeError) as error:
        return found.undecided(one_line(str(error).splitlines()[0]))


def said(found: StageResult, proof: Proof) -> StageResult:
    """The stage with what a proof says."""
    from kerncap.sanitizer.equality.proof import CONFIDENCE_BITS

    if proof.equal is None:
        return found.undecided(f"not proved: {proof.reason}")
    if proof.witness is not None:
        seen = proof.witness
        return found.failed(
            f"another function: with {seen.inputs} in every tensor, element {seen.element} of {seen.tensor} "
            f"is {seen.second:.9g}, and {seen.first:.9g} by the captured kernel"
        )
    scalars = ", for the floats that are passed" if proof.passed_scalars else ""
    found.shown.append(
        f"PROVED equal over the reals, for all float values{scalars}, at these sizes and these integer "
        f"contents; wrong with probability at most 2^-{CONFIDENCE_BITS} ({proof.elements:,} elements, "
        f"{proof.trials} draws)"
    )
    found.not_shown += [f"assumed: {one}" for one in proof.assumptions]
    return found


def _launch(case: Case, source: str | None, config: Config | None) -> Launch:
    """The captured launch with the TTIR that is in it, or with that of a source. Raises KerncapError."""
    from kerncap.api.compiled_ttir import compile_source
    from kerncap.sanitizer.sources.reproducer import launch_from_reproducer, target_of

    reproducer = case.reproducer
    text = None
    target = target_of(reproducer.manifest.device)
    if source is not None or reproducer.code("ttir") is None:
        source = reproducer.source_text() if source is None else source
        path = derive(reproducer, case.folder, source=source, arguments=_changed(reproducer, config))
        with Reproducer.open(path) as derived:
            text = compile_source(derived, target, "a proof reads TTIR", python=case.engine.choice.python)
    launch = launch_from_reproducer(reproducer, text, target)
    return launch if config is None or config.grid is None else replace(launch, grid=config.grid)


def _changed(
    reproducer: Reproducer, config: Config | None
) -> Callable[[schema.Argument], schema.Argument] | None:
    """What gives a candidate its own constexprs. Raises BackendUnavailable for one that asks for more."""
    wanted: Mapping[str, Scalar] = {} if config is None else config.arguments
    if not wanted:
        return None
    roles = {argument.name: argument.role for argument in reproducer.manifest.arguments}
    for name in wanted:
        if roles.get(name) != "constexpr":
            raise BackendUnavailable(
                "proof", f"the candidate sets {name}, which is no constexpr of the launch"
            )

    def change(argument: schema.Argument) -> schema.Argument:
        if argument.name not in wanted:
            return argument
        return msgspec.structs.replace(argument, value=_value(wanted[argument.name]))

    return change


def _value(value: Scalar) -> schema.Value:
    if value is None:
        return schema.NoneValue()
    if isinstance(value, bool):
        return schema.BoolValue(value=value)
    if isinstance(value, int):
        return schema.IntValue(value=str(value))
    return schema.FloatValue(value=value.hex()) if isinstance(value, float) else schema.StrValue(value=value)
