"""In a test's own process, what compiles a Triton source apart is a fork, as in `forked_commands`."""

from __future__ import annotations

import pytest

from tests.integration import forked_commands, forked_nurseries


@pytest.fixture(autouse=True)
def shared_compilers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "own_nurseries" in request.fixturenames:  # see `shared_nurseries`
        return
    forked_nurseries.use_compilers(forked_commands.compilers(), monkeypatch.setattr)
