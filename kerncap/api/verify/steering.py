"""What of a Triton launch's memory steers captured kernel or candidate, from the TTIR of both."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from kerncap.api.prove.proof_launches import captured, with_source
from kerncap.api.verify.verify_result import Case
from kerncap.errors import KerncapError
from kerncap.log import one_line
from kerncap.replay.boundary_values import Steered
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import CANDIDATE
from kerncap.replay.judge_requests import readable_views


def begin(case: Case, measured: Measured) -> Callable[[], Steered]:
    """Begin to compile both sources, in a thread, if they read any integers; what this gives waits for it.

    Where one can't be compiled, the reason is in the result.
    """
    threads = ThreadPoolExecutor(1)
    found = threads.submit(_steered, case, measured)
    threads.shutdown(wait=False)
    return found.result


def _steered(case: Case, measured: Measured) -> Steered:
    manifest, candidate = case.reproducer.manifest, case.options.candidate
    _, integers = readable_views(manifest, measured)
    if not integers:
        return Steered()
    if manifest.kernel.language != "triton" or candidate is None or candidate.suffix != ".py":
        return Steered(why="what they decide is known from Triton's source only")
    from kerncap.sanitizer.sources.reproducer import ManifestMemory
    from kerncap.sanitizer.steers import steers

    python, program = case.engine.choice.python, case.engine.program
    try:
        text = candidate.read_text(encoding="utf-8")
        config = case.engine.config(CANDIDATE)
        first = steers(captured(case.reproducer, python=python, program=program))
        second = steers(
            with_source(case.reproducer, text, candidate.name, config, python=python, program=program)
        )
    except (KerncapError, OSError, UnicodeDecodeError) as error:
        return Steered(why=one_line(str(error).splitlines()[0]))
    if first.storages is None or second.storages is None:
        return Steered(why="they may decide where memory is touched")
    memory = ManifestMemory(manifest)
    storages = first.storages | second.storages
    views = frozenset(n for n, view in enumerate(manifest.views) if memory.index(view) in storages)
    return Steered(views, first.numbers, second.numbers, first.waits or second.waits)
