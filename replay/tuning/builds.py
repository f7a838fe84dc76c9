"""Configurations on their way to the engines: pruned, compiled, loaded."""

from __future__ import annotations

from collections.abc import Mapping

from kerncap.format import Reproducer
from kerncap.replay.outcome import Compiled
from kerncap.replay.tuning.compile_pool import Built
from kerncap.replay.tuning.formula import Unknown
from kerncap.replay.tuning.grid import GridUnknown
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.prune import Budget, Pruner, over_budget
from kerncap.replay.tuning.space import LaunchSpace
from kerncap.replay.tuning.trial_launch import OpenLaunch


class Builds:
    """Makes configurations of several launches ready; this class compiles each where it is loaded."""

    def __init__(self, opened: Mapping[str, Reproducer], budget: Budget) -> None:
        self._opened = opened
        self.prune_by(budget)

    def prune_by(self, budget: Budget) -> None:
        """Leave out what does not fit into this."""
        self.budget = budget
        self._pruners = {digest: Pruner(each, budget) for digest, each in self._opened.items()}

    def announce(self, launch: OpenLaunch, digest: str, given: Point) -> None:
        """It will be tried: compile it meanwhile, if that is done elsewhere."""

    def refused(self, launch: OpenLaunch, digest: str, given: Point, listed: bool) -> str | None:
        """Why a configuration is not worth compiling, or None."""
        return refusal(launch.space, self._pruners[digest], given, listed)

    def compiled(self, launch: OpenLaunch, digest: str, given: Point) -> Built:
        """How the compilation of a configuration ended, if other processes compile it."""
        return Built()

    def over_budget(self, compiled: Compiled) -> str | None:
        """Why what was compiled can't be launched on the device, or None."""
        return over_budget(compiled, self.budget)

    def load(self, launch: OpenLaunch, digest: str, given: Point, name: str) -> Compiled:
        """Make a configuration ready to run. Raises CandidateError."""
        raise NotImplementedError


def refusal(space: LaunchSpace, pruner: Pruner, given: Point, listed: bool) -> str | None:
    """Why a launch is not worth compiling in this configuration, or None."""
    try:
        config = space.config(given)
    except (GridUnknown, Unknown) as error:
        return f"the grid can't be recomputed: {error}"
    if 0 in (config.grid or (1,)):
        return f"a grid of {config.grid}"
    return pruner.refuse(config.arguments, config.options, listed)
