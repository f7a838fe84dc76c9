"""Native launches, replayed and judged on the stand-in driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from .. import rig


@pytest.fixture(autouse=True, params=["device", pytest.param("host", marks=pytest.mark.long)])
def stand_in(request: pytest.FixtureRequest, own_kernels: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test twice: with the worker's own kernels, and on a driver that does not take them."""
    rig.use(monkeypatch, own_kernels)
    if request.param == "host":
        monkeypatch.setenv("KERNCAP_RIG_NO_HELPERS", "1")
    return str(request.param)
