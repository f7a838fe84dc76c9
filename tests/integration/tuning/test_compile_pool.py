"""Configurations compiled ahead, for a device that need not be there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kerncap.errors import BackendUnavailable
from kerncap.format import Reproducer
from kerncap.replay.outcome import Config
from kerncap.replay.tuning.compile_pool import CompilePool
from tests.unit.replay.build import add

pytestmark = pytest.mark.long


def test_configurations_are_compiled_once_and_failures_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    one, other = add(1000, 64), add(2000, 64)  # 1000 is no multiple of 16, 2000 is
    one.mode = other.mode = "jit"
    with (
        Reproducer.open(one.seal(tmp_path / "one")) as first,
        Reproducer.open(one.seal(tmp_path / "again")) as same,
        Reproducer.open(other.seal(tmp_path / "other")) as second,
        CompilePool({"a": first, "b": same, "c": second}, sys.executable, capability=90, processes=2) as pool,
    ):
        good = Config({"BLOCK": 128}, {"num_warps": 8}, (8, 1, 1))
        built = pool.submit("a", good)
        assert pool.submit("b", good) is built
        wrong = Config({"BLOCK": 48}, {}, None)
        bad = pool.submit("a", wrong)
        assert pool.submit("c", wrong) is not bad
        assert pool.target.capability == 90
        assert built.result(60).error == ""
        assert "power of 2" in bad.result(60).error
    assert list((tmp_path / "cache").rglob("add.cubin"))


def test_a_python_without_triton_is_named(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho no such thing >&2\nexit 3\n")
    bare.chmod(0o755)
    with Reproducer.open(add().seal(tmp_path)) as reproducer:
        with CompilePool({"a": reproducer}, str(bare), capability=90, processes=1) as pool:
            with pytest.raises(BackendUnavailable, match="no such thing"):
                assert pool.target
            assert pool.submit("a", Config()).result(10).lost
            pool._reader.join()
            mine, pool._requests = pool._requests, os.open("/dev/null", os.O_WRONLY)
            os.close(mine)  # one that somebody else keeps open takes what is sent
            assert pool.submit("a", Config(options={"num_warps": 8})).result(10).lost
