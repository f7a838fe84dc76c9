"""The self-checks after a capture: all of them, as long as there is time, out of one pool of processes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kerncap.api import capture as _capture
from kerncap.replay.pool import Pool
from tests.unit.replay import native, rig

api = sys.modules[_capture.__module__]


def result_of(*paths: Path, no_values: bool = False) -> Any:
    """What `check_captured` reads of a `CaptureResult`."""
    keep = SimpleNamespace(no_values=no_values)
    return SimpleNamespace(
        captured=[SimpleNamespace(path=path, collective=None) for path in paths], self_checks={},
        target_python=None, options=SimpleNamespace(keep=keep),
    )  # fmt: skip


@pytest.mark.parametrize("groups", [lambda paths: [paths], lambda paths: [paths[:1], paths[1:]]])
def test_two_launches_share_what_their_workers_are_forked_of(
    groups: Callable[[tuple[Path, ...]], list[tuple[Path, ...]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig.use(monkeypatch, rig.kernels(tmp_path))
    paths = native.add().seal(tmp_path / "a"), native.scale().seal(tmp_path / "b")
    pools: list[Pool] = []
    own = Pool.nursery

    def watched(pool: Pool, choice: Any) -> Any:
        pools.append(pool)
        assert len(pool._nurseries) == (len(pools) > 1)
        return own(pool, choice)

    monkeypatch.setattr(Pool, "nursery", watched)
    results = [result_of(*each) for each in groups(paths)]
    api.check_captured(*results, timeout_s=30.0)
    checks = {path: check.result for found in results for path, check in found.self_checks.items()}
    assert checks == dict.fromkeys(paths, "pass")
    assert len(pools) == 2 and pools[0] is pools[1]


def test_what_is_left_is_skipped_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "_replayed", interrupt)
    found = result_of(tmp_path / "a", tmp_path / "b")
    api.check_captured(found, timeout_s=30.0)
    assert [check.reason for check in found.self_checks.values()] == ["interrupted"] * 2
    left_out = result_of(tmp_path / "a", no_values=True)
    api.check_captured(left_out, timeout_s=30.0)
    assert "there is nothing to compare with" in left_out.self_checks[tmp_path / "a"].reason
