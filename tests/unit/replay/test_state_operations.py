"""How a request finds its operation in a backend of the worker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kerncap.replay.worker.common.failures import Refused
from kerncap.replay.worker.common.state_operations import StateOperations, lacking
from kerncap.replay.worker.protocol import Request


class Kept:
    """States that only keep what they were asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.asked.append((name, given))


class Backend(StateOperations[Any]):
    backend = "native"
    streams = lacking

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.states = Kept()


def test_an_operation_gets_the_arguments_of_its_request(tmp_path: Path) -> None:
    backend = Backend(tmp_path)
    assert backend.perform(Request("snapshot", {"name": "mine"})) is None
    assert backend.states.asked == [("snapshot", ("mine",))]


def test_an_operation_that_a_backend_lacks_is_refused_by_name(tmp_path: Path) -> None:
    reason = re.escape("streams: the native backend has no such operation")
    with pytest.raises(Refused, match=f"^{reason}$"):
        Backend(tmp_path).perform(Request("streams", {"which": "original", "regions": []}))
