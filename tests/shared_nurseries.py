"""Workers of a test's own process are forks of nurseries that all tests share, as in `verify --resident`.

A process that has loaded torch costs more than most tests of replay do. What is about the start of a worker,
or about a pool's own nurseries, takes `own_nurseries`.
"""

from __future__ import annotations

import atexit
from functools import cache
from typing import Any

import pytest

from kerncap.replay.nursery import Nursery
from kerncap.replay.pool import Pool
from tests.integration import forked_commands, forked_nurseries


@pytest.fixture
def own_nurseries() -> None:
    """For a test whose workers and nurseries are started as for a user."""


@pytest.fixture(autouse=True)
def shared_nurseries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "own_nurseries" in request.fixturenames:
        return
    everyones = pool()
    make, close = Pool.__init__, Pool.close

    def shared(self: Pool, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        if not self._nurseries:  # none was begun for it
            self._nurseries = everyones._nurseries

    def closed(self: Pool) -> None:
        if self._nurseries is everyones._nurseries:
            self._nurseries = {}
        close(self)

    monkeypatch.setattr(Pool, "__init__", shared)
    monkeypatch.setattr(Pool, "close", closed)
    forked_nurseries.use_nurseries(everyones, monkeypatch.setattr)


class _OfForks(Pool):
    """Its nurseries of Triton's interpreter are forks, as those of a command are."""

    def _nursery(self, started: Any) -> Nursery | None:
        with forked_nurseries.of_pool(forked_commands.nurseries()):
            return super()._nursery(started)


@cache
def pool() -> Pool:
    """For engines of a fixture that several tests share, too."""
    made = _OfForks()
    atexit.register(made.close)
    return made
