"""`prove`: whether two kernels of Triton or CUDA compute the same function. No kernel is executed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerncap.answer import Answer
from kerncap.api.candidate_file import refuse_inside
from kerncap.api.candidate_settings import SettingError, settings_of
from kerncap.api.diff import opened
from kerncap.api.prove.handed_on import check_handed_on
from kerncap.api.prove.proof_launches import captured, check_language, cuda_launch, ttir_of_source, with_ttir
from kerncap.api.prove.proof_words import ProofWords, of_passes, said
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.printable import visible
from kerncap.regular_file import read_regular_text
from kerncap.replay.candidates.build import MODULES, SUFFIXES
from kerncap.report.documents.prove import ComparedPasses, ProveDocument, SampledLaunch, Witness
from kerncap.result_line import result_line

if TYPE_CHECKING:
    from kerncap.api.prove.stages import Stages
    from kerncap.sanitizer.equality.proof import Proof
    from kerncap.sanitizer.launch import Launch

MAX_SOURCE_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True)
class ProveOptions:
    """``launch``: the reproducer whose launch two sources have.

    ``then``: reproducers of launches that follow b's, as one kernel with it.
    ``same``: arguments of two reproducers that are the same and have other names, the first's first.
    ``left``: the same of tensors of which only what they hold at the end is the same.
    ``stages``: a's TTIR before Triton's passes is compared with what they make of it; there is no b.
    """

    launch: Path | None = None
    then: Sequence[Path] = ()
    same: Mapping[str, str] = field(default_factory=dict)
    left: Mapping[str, str] = field(default_factory=dict)
    stages: bool = False
    trust: bool = False
    python: str | None = None


@dataclass
class ProveResult:
    """``matched``: arguments that are the same under two names; ``labels``: what a and b are called."""

    a: Path
    b: Path | None
    then: tuple[Path, ...]
    launch: Path | None
    labels: tuple[str, str]
    kernels: tuple[str, str]
    proof: Proof
    words: ProofWords
    matched: list[tuple[str, str]] = field(default_factory=list)
    stages: Stages | None = None

    @property
    def answer(self) -> Answer:
        return Answer(self.words.result)

    @property
    def passed(self) -> bool:
        return self.answer is Answer.YES

    @property
    def line(self) -> str:
        return result_line(self.answer, (self.words.reasons or ["equal over the reals"])[0])

    def as_dict(self) -> dict[str, Any]:
        """The document of ``--json``."""
        seen, sample = self.proof.witness, None
        if self.proof.sample is not None:
            first, second = (
                SampledLaunch(run=some, programs=every) for some, every in self.proof.sample.programs
            )
            sample = first, second
        return ProveDocument(
            result=self.words.result,
            reasons=tuple(self.words.reasons),
            a=str(self.a),
            b=None if self.b is None else str(self.b),
            then=tuple(map(str, self.then)),
            launch=None if self.launch is None else str(self.launch),
            kernels=self.kernels,
            matched=tuple(self.matched),
            shown=tuple(self.words.shown),
            not_shown=tuple(self.words.not_shown),
            witness=None
            if seen is None
            else Witness(
                inputs=seen.inputs,
                tensor=seen.tensor,
                element=seen.element,
                values=(f"{seen.first:.17g}", f"{seen.second:.17g}"),
            ),
            sample=sample,
            passes=None
            if self.stages is None
            else ComparedPasses(
                compared=self.stages.reached, guilty=self.stages.guilty, not_modelled=self.stages.unread
            ),
            elements=self.proof.elements,
            draws=self.proof.trials,
        ).as_dict()


def prove(a: Path | str, b: Path | str | None, options: ProveOptions | None = None) -> ProveResult:
    """Whether the kernels of ``a`` and ``b`` leave the same in memory for all float values.

    Each is a reproducer, or a source of its kernel in Triton or CUDA C++: then the launch is the other's, or
    ``options.launch``'s. Two reproducers have to be of the same shapes and numbers.
    With ``options.then``, b is what several launches do one after another; with ``options.stages``, None.
    Raises UsageError for what can't be compared, FormatError, and BackendUnavailable for a source that does
    not compile.
    """
    options = options or ProveOptions()
    if options.stages:
        return _of_stages(Path(a), b, options)
    if b is None:
        raise UsageError("prove: one kernel; give another one to compare it with, or --stages")
    a, b = Path(a), Path(b)
    sources = [_is_source(path) for path in (a, b)]
    labels = (a.name, b.name) if a.name != b.name else (str(a), str(b))
    if options.launch is not None and not all(sources):
        raise UsageError(
            f"--launch {visible(options.launch)}: {visible(a if sources[1] else b)} has its own; leave it out"
        )
    if options.launch is None and all(sources):
        raise UsageError(
            f"{visible(a)}, {visible(b)}: two sources, and no launch of them; give a reproducer with "
            "--launch REPRO"
        )
    for option, given in (("--same", options.same), ("--result", options.left)):
        if given and any(sources):
            raise UsageError(f"{option}: a source has the arguments of its launch; leave it out")
    if options.then and any([*sources, *map(_is_source, options.then)]):
        raise UsageError("prove: several B, and a source among the kernels; give reproducers only")
    if options.then:
        labels = labels[0], " and ".join(path.name for path in (b, *options.then))
    with contextlib.ExitStack() as stack:
        reproducers = [
            None if source else stack.enter_context(opened(path))
            for path, source in zip((a, b), sources, strict=True)
        ]
        of_sources = reproducers[0] or reproducers[1]
        if options.launch is not None:
            of_sources = stack.enter_context(opened(options.launch))
        assert of_sources is not None
        first, second = (
            _launch(path, reproducer, of_sources, options)
            for path, reproducer in zip((a, b), reproducers, strict=True)
        )
        following = [
            _launch(path, stack.enter_context(opened(path)), of_sources, options) for path in options.then
        ]
        if following:
            check_handed_on([second, *following], [b, *options.then])
        return _proved(
            a, b, labels, first, [second, *following], options, of_sources if any(sources) else None
        )


def _proved(
    a: Path,
    b: Path,
    labels: tuple[str, str],
    first: Launch,
    second: Sequence[Launch],
    options: ProveOptions,
    common: Reproducer | None,
) -> ProveResult:
    from kerncap.sanitizer.equality import kernel_runs, launch_sequence, proof, same_memory

    matched, notes = [], []
    one = kernel_runs.kernel_of(first)
    if common is not None:
        other = kernel_runs.kernel_of(*second)
    else:
        together = launch_sequence.in_sequence(second, labels[1])
        found = same_memory.match([first], together, options.same, labels, left=options.left)
        other, matched, notes = found.kernel, found.same, found.notes
    done = proof.prove(one, other)
    words = said(done, *labels)
    words.not_shown[:0] = [
        *(f"assumed: {y} of {labels[1]} is {x} of {labels[0]}" for x, y in matched),
        *(f"assumed: {note}" for note in notes),
    ]
    return ProveResult(
        a,
        b,
        tuple(options.then),
        None if common is None else common.path,
        labels,
        (first.kernel, " and ".join(launch.kernel for launch in second)),
        done,
        words,
        matched,
    )


def _of_stages(a: Path, b: Path | str | None, options: ProveOptions) -> ProveResult:
    from kerncap.api.prove.stages import BEFORE, prove_stages

    if b is not None or _is_source(a) or options.launch or options.same or options.left:
        raise UsageError(f"--stages: {visible(a)} only, a reproducer; leave out the rest")
    with opened(a) as reproducer:
        found = prove_stages(reproducer, trusted=options.trust, python=options.python)
    words = said(found.proof, BEFORE, found.reached)
    of_passes(words, found)
    kernels = found.first.kernel, found.second.kernel
    labels = BEFORE, found.reached
    return ProveResult(a, None, (), a, labels, kernels, found.proof, words, stages=found)


def _is_source(path: Path) -> bool:
    return path.suffix in (*SUFFIXES, *MODULES) and not path.is_dir()


def _launch(path: Path, own: Reproducer | None, of_sources: Reproducer, options: ProveOptions) -> Launch:
    if own is not None:
        check_language(own)
        return captured(own, trusted=options.trust, python=options.python)
    check_language(of_sources)
    refuse_inside("source", path)
    if of_sources.manifest.kernel.language == "cuda":
        return cuda_launch(of_sources, path, trusted=options.trust, python=options.python)
    if path.suffix != ".py":
        raise UsageError(f"{visible(path)}: the source of a Triton kernel is a .py file")
    text = read_regular_text(path, MAX_SOURCE_BYTES)
    try:
        config, _ = settings_of(text)
    except SettingError as error:
        raise UsageError(f"{visible(path)}, line {error.line}: {error}") from error
    ttir = ttir_of_source(of_sources, text, path.name, config, python=options.python)
    return with_ttir(of_sources, ttir, config)
