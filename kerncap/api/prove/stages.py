"""Whether Triton's passes keep a kernel the same function: its TTIR before them against its TTGIR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap.api.compiled_stages import CompiledStages, State, change_between, compile_stages
from kerncap.errors import BackendUnavailable
from kerncap.format import Reproducer
from kerncap.replay import trust

if TYPE_CHECKING:
    from kerncap.sanitizer.equality.proof import Proof
    from kerncap.sanitizer.launch import Launch

_WHY = ": the stages of its compilation are made of its source. That"
BEFORE = "TTIR before its passes"


@dataclass(frozen=True)
class Stages:
    """``reached``: the last text that could be compared, in words. ``unread``: the passes after it, first of
    all the one that brings in what is not modelled. ``guilty``: the pass that changes the function."""

    first: Launch
    second: Launch
    proof: Proof
    reached: str
    unread: tuple[str, ...] = ()
    guilty: tuple[str, ...] = ()


def prove_stages(reproducer: Reproducer, *, trusted: bool = False, python: str | None = None) -> Stages:
    """Raises UsageError for a stranger's reproducer, BackendUnavailable for what does not compile."""
    from kerncap.sanitizer.sources.reproducer import target_of

    trust.require(reproducer, trusted, _WHY)
    text = reproducer.source_text()
    if reproducer.manifest.kernel.language != "triton" or text is None:
        raise BackendUnavailable("proof", f"{reproducer.path} has no source of a Triton kernel")
    target = target_of(reproducer.manifest.device)
    return of_stages(reproducer, target, compile_stages(reproducer, target, text, python))


def of_stages(reproducer: Reproducer, target: str, compiled: CompiledStages) -> Stages:
    from kerncap.sanitizer.equality import kernel_runs, proof
    from kerncap.sanitizer.sources.reproducer import launch_from_reproducer

    for stage in ("source", "ttir", "ttgir"):
        if stage not in compiled.texts:
            why = compiled.error or f"this Triton makes no {stage} for {target}"
            raise BackendUnavailable("proof", f"{reproducer.path}: {why}")

    def launch(text: str) -> Launch:
        return launch_from_reproducer(reproducer, text, target)

    passes = [*compiled.states["ttir"], *compiled.states["ttgir"]]
    texts = [*(one.text for one in passes), compiled.texts["ttgir"]]
    last = _last_read(texts)
    first, second = launch(compiled.texts["source"]), launch(texts[last])
    right = kernel_runs.kernel_of(first)
    found = proof.prove(right, kernel_runs.kernel_of(second))

    def is_wrong(text: str) -> bool | None:
        if text == texts[last]:
            return found.equal is False
        equal = proof.prove(right, kernel_runs.kernel_of(launch(text))).equal
        return None if equal is None else not equal

    guilty = change_between(passes[:last], texts[last], is_wrong) if found.equal is False else None
    return Stages(
        first,
        second,
        found,
        "TTGIR" if last == len(passes) else f"what {passes[last].passed} is given",
        _names(passes[last:]),
        guilty.passes if guilty is not None else (),
    )


def _names(states: Sequence[State]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.passed for one in states))


def _last_read(texts: Sequence[str]) -> int:
    """The last text of which all operations have a meaning."""
    from kerncap.sanitizer.ttir import TtirError
    from kerncap.sanitizer.ttir.tensors_only import left, tensors_only

    for number in reversed(range(len(texts))):
        try:
            if not left(tensors_only(texts[number])):
                return number
        except (TtirError, StopIteration):
            continue
    return 0
