"""Launches in a row as one launcher, for their time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..common.failures import Refused


class InARow:
    """What a timer needs of a launcher and of its `Variables`.

    Variables of the modules are brought in before the first launch and back after the last one: between two
    launches that would be part of the time.
    """

    indirect = True  # a region may be a variable of several modules
    sites: tuple[()] = ()

    def __init__(self, launchers: Sequence[Any]) -> None:
        """Of either vendor. Raises Refused."""
        if any(each.variables.sites for each in launchers):
            raise Refused("launches in a row whose memory points to their variables have no time as one")
        self.launchers = launchers
        self.variables = self

    def home(self, region: int) -> int:
        home: int = self.launchers[0].variables.home(region)
        return home

    def enter(self) -> None:
        for launcher in self.launchers:
            launcher.variables.enter()

    def leave(self) -> None:
        for launcher in self.launchers:
            launcher.variables.leave()

    def run(self) -> None:
        """Queue them all; as `Launcher.run`."""
        for launcher in self.launchers:
            launcher.run()
