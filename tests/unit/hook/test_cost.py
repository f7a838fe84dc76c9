"""What a launch of no interest costs: a look-up and a subtraction."""

from __future__ import annotations

import inspect
import json
import time
from pathlib import Path
from typing import Any

import pytest

from .conftest import options

LIMIT_NS = 1500  # far above what it takes (about 220), so that a busy machine does not fail the test


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


def one_launch_ns(kernel: Launchable) -> float:
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter_ns()
        for _ in range(2000):
            kernel[(8,)](1, 2, 3, BLOCK=128)
        best = min(best, (time.perf_counter_ns() - start) / 2000)
    return best


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
    from kerncap_triton import kernels, launch, session  # type: ignore[import-not-found,unused-ignore]

    class Kernel(Launchable):
        pass

    def add(x: int, y: int, out: int, BLOCK: int) -> None:
        pass

    kernel = Kernel(add)
    plain_ns = one_launch_ns(kernel)
    (tmp_path / "session.json").write_text(json.dumps(options(**changes)))
    (tmp_path / "arm").write_bytes(bytes(4096))
    hooked = session.Session(str(tmp_path / "session.json"))
    launch.patch(hooked, Kernel, "jit")
    bound: list[Any] = []
    monkeypatch.setattr(kernels.Kernel, "bind", lambda *call: bound.append(call))
    looked: list[Any] = []
    consider = launch.consider
    monkeypatch.setattr(launch, "consider", lambda *call: looked.append(call) or consider(*call))
    added_ns = one_launch_ns(kernel) - plain_ns
    assert added_ns < LIMIT_NS
    # All but a few go by with a look-up and a subtraction: no lock, nothing bound, nothing timed.
    assert not bound and len(looked) < 50
    hooked.write_counts()
    (counters,) = hooked.all_counters()
    assert counters.launches == 40000 and counters.filtered == {reason: 40000}
