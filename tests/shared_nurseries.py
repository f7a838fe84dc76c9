"""Workers of a test's own process are forks of nurseries that all tests share, as in `verify --resident`.

A process that has loaded torch costs more than most tests of replay do. What is about the start of a worker,
or about a pool's own nurseries, takes `own_nurseries`.
"""

from __future__ import annotations

import atexit
from functools import cache
from typing import Any

import pytest

from kerncap.replay.connection import Connection
from kerncap.replay.nursery import Nursery
from kerncap.replay.pool import Pool


@pytest.fixture
def own_nurseries() -> None:
    """For a test whose workers and nurseries are started as for a user."""


@pytest.fixture(autouse=True)
def shared_nurseries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "own_nurseries" in request.fixturenames:
        return
    everyones = pool()
    make, close, connect = Pool.__init__, Pool.close, Connection.__init__

    def shared(self: Pool, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        if not self._nurseries:  # none was begun for it
            self._nurseries = everyones._nurseries

    def closed(self: Pool) -> None:
        if self._nurseries is everyones._nurseries:
            self._nurseries = {}
        close(self)

    def connected(self: Connection, choice: Any, job: Any, opened: Any, ahead: Nursery | None = None) -> None:
        connect(self, choice, job, opened, ahead or everyones.nursery(choice))

    monkeypatch.setattr(Pool, "__init__", shared)
    monkeypatch.setattr(Pool, "close", closed)
    monkeypatch.setattr(Connection, "__init__", connected)


@cache
def pool() -> Pool:
    """For engines of a fixture that several tests share, too."""
    made = Pool()
    atexit.register(made.close)
    return made
