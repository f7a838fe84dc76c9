"""Launches in a row as one launcher: what a timer calls, in which order."""

from __future__ import annotations

from typing import Any

import pytest

from kerncap.replay.worker.common.failures import Refused
from kerncap.replay.worker.native.in_a_row import InARow


class Launcher:
    """With a variable that lies elsewhere here, to which ``sites`` words of memory point."""

    def __init__(self, name: str, called: list[str], sites: int = 0) -> None:
        self.name = name
        self.called = called
        self.variables: Any = self
        self.sites = sites
        self.moves = ["captured -> here"]

    def enter(self) -> None:
        self.called.append(f"{self.name} enters")

    def run(self) -> None:
        self.called.append(f"{self.name} runs")

    def leave(self) -> None:
        self.called.append(f"{self.name} leaves")


def test_no_copy_of_a_variable_is_between_two_launches() -> None:
    called: list[str] = []
    launchers: list[Any] = [Launcher(name, called) for name in "ab"]
    row = InARow(launchers)
    row.variables.enter()
    row.run()
    row.variables.leave()
    assert called == ["a enters", "b enters", "a runs", "b runs", "a leaves", "b leaves"]


def test_words_that_point_to_variables_have_a_value_for_each_module() -> None:
    launchers: list[Any] = [Launcher("a", []), Launcher("b", [], sites=1)]
    with pytest.raises(Refused, match="in a row"):
        InARow(launchers)
