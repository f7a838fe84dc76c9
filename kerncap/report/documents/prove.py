"""``prove``: whether two kernels compute the same function."""

from __future__ import annotations

from typing import Annotated

from kerncap.format.document_types import Count, Document, Names, Part, Path, Word, says


class Witness(Part, frozen=True, kw_only=True):
    """Inputs on which both kernels were run, and the element that differs most."""

    inputs: Annotated[str, says("What every float tensor held, in words.")]
    tensor: str
    element: Annotated[Count, says("Index in the tensor's memory, in elements.")]
    values: Annotated[tuple[str, str], says("Of a, of b.")]


class SampledLaunch(Part, frozen=True, kw_only=True):
    """A launch of which only some programs were run."""

    run: Annotated[Count, says("Programs that were run.")]
    programs: Annotated[Count, says("All of the launch.")]


class ComparedPasses(Part, frozen=True, kw_only=True):
    """Triton's passes from TTIR to TTGIR."""

    compared: Annotated[str, says("Last text that was compared: TTGIR, or what a pass is given.")]
    guilty: Annotated[Names, says("Pass that changes the function; several: one of them.")]
    not_modelled: Annotated[
        Names, says("Passes behind what was compared, the first with what is not modelled.")
    ]


class ProveDocument(Document, frozen=True, kw_only=True):
    """Whether two kernels leave the same in memory for all float values."""

    result: Word
    reasons: Annotated[Names, says("Why they differ, or why nothing was proved.")]
    a: Path
    b: Annotated[Path | None, says("null: with --stages.")]
    then: Annotated[tuple[Path, ...], says("Reproducers of launches that follow b's, as one kernel with it.")]
    launch: Annotated[Path | None, says("Reproducer whose launch both have; null: each has its own.")]
    kernels: Annotated[tuple[str, str], says("Names of the kernels of a, of b.")]
    matched: Annotated[
        tuple[tuple[str, str], ...], says("Arguments of a and of b that are the same under two names.")
    ]
    shown: Names
    not_shown: Annotated[Names, says("What is assumed, and what was not compared.")]
    witness: Witness | None
    sample: Annotated[
        tuple[SampledLaunch, SampledLaunch] | None,
        says("Of a, of b, if they are too large to run whole and equal in a sample, which proves nothing."),
    ]
    passes: Annotated[ComparedPasses | None, says("With --stages: what Triton's passes do.")]
    elements: Annotated[Count, says("Elements that were compared.")]
    draws: Annotated[Count, says("Runs on random elements of fields.")]
