"""What a launch of no interest costs: a look-up and a subtraction. In time: benchmarks/launch_overhead.py."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from tests.counted_work import calls_of

from .conftest import options

LAUNCHES = 20_000


class Launchable:
    """As little of Triton's JITFunction as a launch needs."""

    def __init__(self, function: Any) -> None:
        self.fn = function
        self.signature = inspect.signature(function)
        self.arg_names = list(self.signature.parameters)

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        pass

    def warmup(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)


def launched(kernel: Launchable) -> None:
    for _ in range(LAUNCHES):
        kernel[(8,)](1, 2, 3, BLOCK=128)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kernel": "other"}, "name"),
        ({"kernel": "add", "launch": [10**9, 10**9 + 1]}, "ordinal"),
        ({"dormant": True}, "dormant"),
        ({"kernel": "add", "ranks": [1]}, "rank"),
    ],
)
def test_a_launch_of_no_interest_costs_next_to_nothing_and_is_counted(
    package: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], reason: str
) -> None:
    from kerncap_triton import kernels, run_hook, session  # type: ignore[import-not-found,unused-ignore]

    class Kernel(Launchable):
        pass

    def add(x: int, y: int, out: int, BLOCK: int) -> None:
        pass

    kernel = Kernel(add)
    plain = calls_of(lambda: launched(kernel))
    (tmp_path / "session.json").write_text(json.dumps(options(**changes)))
    (tmp_path / "arm").write_bytes(bytes(4096))
    hooked = session.Session(str(tmp_path / "session.json"))
    run_hook.patch(hooked, Kernel, "jit")
    bound: list[Any] = []
    monkeypatch.setattr(kernels.Kernel, "bind", lambda *call: bound.append(call))
    looked: list[Any] = []
    consider = run_hook.consider
    monkeypatch.setattr(run_hook, "consider", lambda *call: looked.append(call) or consider(*call))
    added = (calls_of(lambda: launched(kernel)) - plain) / LAUNCHES
    # All but a few go by with a look-up and a subtraction: no lock, nothing bound, nothing timed.
    assert added < 3.5
    assert not bound and len(looked) < 50
    hooked.write_counts()
    (counters,) = hooked.all_counters()
    assert counters.launches == LAUNCHES and counters.filtered == {reason: LAUNCHES}
