"""A candidate without atomics where the captured kernel has them: right only if no two places are equal."""

from __future__ import annotations

from kerncap.replay.boundary_values import Steered
from kerncap.replay.other_contents import Shown


def on_equal_places(steered: Steered) -> Shown:
    """Whether the candidate is right if two places are equal, as far as atomics tell it."""
    found = Shown(remedy="a capture in which places are equal would decide it")
    for name in steered.unordered:
        found.open.append(
            f"{name} is changed without atomics, at places that memory holds: the captured kernel has "
            "atomics there, and is right if two places are equal"
        )
    return found
