"""The proof stage: whether a candidate computes the same function as the captured kernel."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from kerncap.api.compiled_ttir import Instead
from kerncap.api.prove.proof_launches import captured, cuda_launch, ttir_of_source, with_ttir
from kerncap.api.prove.proof_words import said
from kerncap.api.verify import numerics_stage
from kerncap.api.verify.verify_result import Case, StageResult
from kerncap.errors import KerncapError
from kerncap.log import one_line
from kerncap.replay.candidates.build import MODULES, SUFFIXES
from kerncap.replay.engine import CANDIDATE
from kerncap.replay.ranges.as_one import MeasuredAsOne, RangeAsOne


def stage(case: Case) -> StageResult:
    candidate = case.options.candidate
    found = StageResult("proof")
    if case.which != CANDIDATE or candidate is None:
        return found.undecided("there is no candidate to compare with the captured kernel")
    if isinstance(case.reproducer, RangeAsOne):
        return _of_several(case, case.reproducer, candidate)
    language = case.reproducer.manifest.kernel.language
    wanted = {"triton": MODULES, "cuda": SUFFIXES}.get(language, frozenset())
    if candidate.suffix not in wanted:
        return found.undecided("it takes a source of Triton, or of CUDA C++")
    from kerncap.sanitizer.equality.kernel_runs import kernel_of
    from kerncap.sanitizer.equality.proof import prove

    python = case.engine.choice.python
    try:
        first = captured(case.reproducer, python=python)
        if language == "cuda":
            second = cuda_launch(case.reproducer, candidate, python=python, hostile=case.options.hostile)
        else:
            text = candidate.read_text(encoding="utf-8")
            config = case.engine.config(CANDIDATE)
            ttir = ttir_of_source(case.reproducer, text, candidate.name, config, python=python)
            second = with_ttir(case.reproducer, ttir, config)
        words = said(prove(kernel_of(first), kernel_of(second)), "the captured kernel", candidate.name)
    except (KerncapError, OSError, UnicodeDecodeError) as error:
        return found.undecided(one_line(str(error).splitlines()[0]))
    found = StageResult("proof", **dataclasses.asdict(words))
    if found.result == "pass" and "numerics" not in case.options.stages:
        _add_rounding(case, found)
    return found


def _of_several(case: Case, whole: RangeAsOne, candidate: Path) -> StageResult:
    """For launches of a range, and the module that replaces them.

    What may be an intermediate is compared; if that is not equal, the rest is.
    """
    found = StageResult("proof")
    if candidate.suffix not in MODULES:
        return found.undecided("of several launches it takes a module of Triton")
    from kerncap.api.prove.range_launches import intermediates, kernels, leaving_out
    from kerncap.sanitizer.equality.proof import prove

    assert isinstance(case.measured, MeasuredAsOne)
    try:
        module = Instead(candidate.read_text(encoding="utf-8"), candidate.name)
        first, second = kernels(whole, module, case.engine.choice.python)
        named, perhaps = intermediates(whole, case.measured)
        for left_out in dict.fromkeys((named, named | perhaps)):
            proof = prove(first, leaving_out(second, left_out, candidate.name))
            if proof.equal:
                break
        words = said(proof, "the captured launches", candidate.name)
    except (KerncapError, OSError, UnicodeDecodeError) as error:
        return found.undecided(one_line(str(error).splitlines()[0]))
    words.not_shown[:0] = [
        f"assumed: nothing after these launches needs {first.names[number]}" for number in sorted(left_out)
    ]
    return StageResult("proof", **dataclasses.asdict(words))


def _add_rounding(case: Case, found: StageResult) -> None:
    """What both kernels are off by on the captured values, which the proof leaves out."""
    measured = numerics_stage.stage(case)
    found.shown += [f"rounding: {line}" for line in measured.shown]
    open_ = dict.fromkeys([*measured.reasons, *measured.not_shown])
    found.not_shown += [f"rounding: {line}" for line in open_]
