"""A stored source that does not build here: the captured image is judged, and the source is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kerncap.errors import ReplayError
from kerncap.format import Reproducer
from kerncap.replay import engine as engines
from kerncap.replay.choose_engine import Choice
from kerncap.replay.connection import Connection
from kerncap.replay.engine import Engine
from kerncap.replay.variants import Variants
from kerncap.replay.worker.protocol import Opened
from kerncap.replay.worker_process import TargetError

from .native import add


@pytest.fixture
def launchers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The launchers that were started; a source does not compile."""
    started: list[str] = []

    def start(self: Connection) -> None:
        started.append(self.choice.launcher)
        if self.choice.launcher == "jit":
            raise ReplayError("kernel.py does not compile\na traceback") from TargetError(
                "it does not compile", ""
            )
        self._opened(Opened("", "", [], []))

    monkeypatch.setattr(Connection, "start", start)
    monkeypatch.setattr(Variants, "reload", lambda self: None)
    monkeypatch.setattr(engines, "likely", lambda *_: None)
    monkeypatch.setattr(engines, "choose", lambda *_, **__: Choice("python", "jit", "cuda", 0))
    return started


def opened(path: Path, **options: Any) -> Engine:
    with Reproducer.open(path) as reproducer, Engine(reproducer, **options) as engine:
        return engine


def test_the_image_is_judged_and_the_source_is_said_not_to_be(tmp_path: Path, launchers: list[str]) -> None:
    engine = opened(add(code={"cubin": b"image"}).seal(tmp_path))
    assert launchers == ["jit", "binary"] and engine.choice.name == "binary"
    [note] = engine.facts.notes
    assert note.startswith("the stored source is not judged") and "it does not compile" in note


def test_asking_for_the_source_gets_no_other_answer(tmp_path: Path, launchers: list[str]) -> None:
    path = add(code={"cubin": b"image"}).seal(tmp_path)
    with pytest.raises(ReplayError, match="does not compile"):
        opened(path, engine="jit")
    assert launchers == ["jit"]


def test_without_an_image_there_is_nothing_instead(tmp_path: Path, launchers: list[str]) -> None:
    with pytest.raises(ReplayError, match="does not compile"):
        opened(add().seal(tmp_path))
    assert launchers == ["jit"]
