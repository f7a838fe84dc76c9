"""A user whom modes keep out, and what commands read and write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .commands import Place
from .ordinary_user import OrdinaryUser


@pytest.fixture(scope="package")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OrdinaryUser]:
    with OrdinaryUser(tmp_path_factory.mktemp("user")) as found:
        yield found


@pytest.fixture(scope="package")
def made(tmp_path_factory: pytest.TempPathFactory) -> Place:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("made") / "place"
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        return Place.make(folder)


@pytest.fixture
def fresh(made: Place, tmp_path: Path) -> Callable[[], Place]:
    """Gives a place of which nothing was used; the one before is no more."""
    return lambda: made.copy(tmp_path / "place")


@pytest.fixture
def place(fresh: Callable[[], Place]) -> Place:
    return fresh()
