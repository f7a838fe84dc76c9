"""The TTIR of a Triton candidate and of the captured kernel, compiled once for all that read it.

Each is compiled in a thread; what `candidate` and `captured` give waits for it, and raises KerncapError,
OSError or UnicodeDecodeError. They are called by the thread that judges.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kerncap.api.prove import proof_launches
from kerncap.api.verify.verify_result import Case, VerifyOptions
from kerncap.format import Reproducer
from kerncap.replay.engine import CANDIDATE, Engine

if TYPE_CHECKING:
    from kerncap.sanitizer.launch import Launch

T = TypeVar("T")


def applies(case: Case) -> bool:
    """Whether the candidate is Triton source, for a Triton kernel."""
    candidate = case.options.candidate
    triton = case.reproducer.manifest.kernel.language == "triton"
    return triton and candidate is not None and candidate.suffix == ".py"


def candidate(case: Case) -> Callable[[], str]:
    """The candidate's TTIR."""
    if case.ttir is None:
        case.ttir = _begun(partial(_compiled, case.reproducer, case.options, case.engine))
    return case.ttir


def captured(case: Case) -> Callable[[], Launch]:
    """The captured launch, with TTIR."""
    if case.captured is None:
        python, program = case.engine.choice.python, case.engine.program
        case.captured = _begun(
            partial(proof_launches.captured, case.reproducer, python=python, program=program)
        )
    return case.captured


def launch(case: Case) -> Launch:
    """The launch with the candidate's TTIR, which is waited for."""
    return proof_launches.with_ttir(case.reproducer, candidate(case)(), case.engine.config(CANDIDATE))


def _begun(made: Callable[[], T]) -> Callable[[], T]:
    threads = ThreadPoolExecutor(1)
    found = threads.submit(made)
    threads.shutdown(wait=False)
    return found.result


def _compiled(reproducer: Reproducer, options: VerifyOptions, engine: Engine) -> str:
    assert options.candidate is not None
    return proof_launches.ttir_of_source(
        reproducer,
        options.candidate.read_text(encoding="utf-8"),
        options.candidate.name,
        engine.config(CANDIDATE),
        python=engine.choice.python,
        program=engine.program,
    )
