"""Launches in a row as one launcher, for their time."""

from __future__ import annotations

from collections.abc import Sequence

from ..common.failures import Refused
from .cuda_launcher import Launcher


class InARow:
    """What a timer needs of a launcher; none of the launches has variables of its module.

    Those are brought in and back between two launches, which would be part of the time.
    """

    def __init__(self, launchers: Sequence[Launcher]) -> None:
        """Raises Refused."""
        if any(each.variables.at or each.variables.moves for each in launchers):
            raise Refused("launches in a row that use variables of their modules have no time as one")
        self.variables = launchers[0].variables
        self._launchers = launchers

    def run(self) -> None:
        """Queue them all; as `Launcher.run`."""
        for launcher in self._launchers:
            launcher.run()
