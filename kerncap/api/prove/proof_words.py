"""What a proof says, for people: of `prove`, and of the proof stage of `verify`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from kerncap.api.prove.stages import Stages
    from kerncap.sanitizer.equality.proof import Proof


@dataclass
class ProofWords:
    """``shown`` and ``not_shown`` are what a reader may and may not conclude, one line each."""

    result: Literal["pass", "fail", "undecided"]
    reasons: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    not_shown: list[str] = field(default_factory=list)


def of_passes(words: ProofWords, stages: Stages) -> None:
    """Add what is known of the compiler's passes: a proof that ends before the last one is not one of all."""
    if stages.guilty:
        words.reasons.append(f"the pass {' or '.join(stages.guilty)} changes it")
    if not stages.unread:
        return
    words.not_shown.insert(0, f"that later passes change nothing: {', '.join(stages.unread)}")
    if words.result == "pass":
        words.result = "undecided"
        words.reasons.append(
            f"not proved: {stages.unread[0]} brings in what is not modelled; equal before it"
        )


def said(proof: Proof, first: str, second: str) -> ProofWords:
    """``first``, ``second``: what the two kernels are called."""
    from kerncap.sanitizer.equality.proof import CONFIDENCE_BITS

    if proof.equal is None and proof.sample is None:
        return ProofWords("undecided", [f"not proved: {proof.reason}"])
    if proof.witness is not None:
        seen = proof.witness
        return ProofWords(
            "fail",
            [
                f"not the same function: with {seen.inputs} in every tensor, element {seen.element} of "
                f"{seen.tensor} is {seen.second:.9g} in {second} and {seen.first:.9g} in {first}"
            ],
        )
    scalars = ", for the floats that are passed" if proof.passed_scalars else ""
    claim = (
        f"equal over the reals, for all float values{scalars}, at these sizes and these integer "
        f"contents; wrong with probability at most 2^-{CONFIDENCE_BITS} ({proof.elements:,} elements, "
        f"{proof.trials} draws)"
    )
    not_shown = [
        f"what is left in {tensor}, stored to only by {(first, second)[side]}"
        for side, tensor in proof.only_one
    ]
    not_shown += [f"assumed: {one}" for one in proof.assumptions]
    if proof.sample is None:
        return ProofWords("pass", shown=[f"PROVED {claim}"], not_shown=not_shown)
    (some, every), (others, all_others) = proof.sample.programs
    which = (
        f"what {some:,} of {every:,} programs of {first} and {others:,} of {all_others:,} of {second} store"
    )
    return ProofWords(
        "undecided",
        [f"not proved: {proof.reason}"],
        [f"in a sample, {which}: {claim}"],
        ["that the other programs store the same", *not_shown],
    )
