"""What is asked of a worker with torch about time: device events, or for the interpreter the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from ..common.failures import KernelError
from .device_timing import cache_filler, cold_ms, device_times, device_turns, turns, warm_ms


class Timed:
    """Operations of a session; its memory, states and launchers are the session's."""

    memory: Any
    states: Any
    _launchers: dict[str, Any]
    _fill_cache: tuple[Callable[[], None] | None] | None = None  # once it was asked for

    def op_time(
        self, which: str, warmup: int, n: int, limit_s: float, dirty: list[int], cold: bool = False
    ) -> dict[str, Any]:
        """Milliseconds of ``n`` launches, each on the pre-state; ``cold``: with other data in the cache."""
        launcher = self._launchers[which]
        if self.memory.kind == "cuda":
            prepare = self._prepare(lambda: self.states.restore("pre", dirty), cold)
            return {"times_ms": device_times(torch, prepare, launcher.run, warmup, n)}
        times = []
        deadline = time.monotonic() + limit_s
        for i in range(warmup + n):
            self.states.restore("pre", dirty)
            outcome = launcher.outcome(max(0.001, deadline - time.monotonic()))
            if outcome["status"] != "ok":
                raise KernelError(f"timed run {i}: {outcome['message']}", outcome.get("detail", ""))
            if i >= warmup:
                times.append(outcome["ns"] / 1e6)
        return {"times_ms": times}

    def _prepare(self, restore: Callable[[], None], cold: bool) -> Callable[[], None]:
        """What goes before a timed launch: the restore, no kept lines, other data in a ``cold`` cache."""
        forget = self._without_persisting(restore)
        if not cold:
            return forget
        if self._fill_cache is None:
            self._fill_cache = (cache_filler(torch),)
        [fill] = self._fill_cache
        if fill is None:
            return forget

        def both() -> None:
            forget()
            fill()

        return both

    def _without_persisting(self, restore: Callable[[], None]) -> Callable[[], None]:
        """``restore``, and no line of the cache that an earlier launch asked to keep."""
        if self.memory.kind != "cuda":
            return restore
        driver = self.memory.driver

        def both() -> None:
            restore()
            driver.status("cuCtxResetPersistingL2Cache")

        return both

    def op_interleaved(
        self, whichs: list[str], rounds: int, ranges: list[list[int]], limit_s: float, cold: bool = False
    ) -> dict[str, Any]:
        """Milliseconds of ``rounds`` launches of each, in turns, each on the pre-state of what is dirtied."""
        launchers = [self._launchers[which] for which in whichs]
        cold = cold and self.memory.kind == "cuda"
        prepare = self._prepare(lambda: self.states.restore_ranges("pre", ranges), cold)
        if self.memory.kind == "cuda":
            found = device_turns(torch, prepare, [launcher.run for launcher in launchers], rounds)
            return {"times_ms": dict(zip(whichs, found, strict=True))}
        times: dict[str, list[float]] = {which: [] for which in whichs}
        deadline = time.monotonic() + limit_s
        for number, order in enumerate([list(range(len(whichs))), *turns(len(whichs), rounds)]):
            for i in order:
                prepare()
                outcome = launchers[i].outcome(max(0.001, deadline - time.monotonic()))
                if outcome["status"] != "ok":
                    raise KernelError(f"timed run of {whichs[i]}: {outcome['message']}", outcome["detail"])
                if number:  # the first round is a warm-up
                    times[whichs[i]].append(outcome["ns"] / 1e6)
        return {"times_ms": times}

    def op_timings(self, which: str, again: bool, limit_s: float, dirty: list[int]) -> dict[str, Any]:
        """Medians with a warm cache, where the launch may follow itself, and with a cold one."""
        launcher = self._launchers[which]

        prepare = self._prepare(lambda: self.states.restore("pre", dirty), cold=False)
        return {
            "warm_ms": warm_ms(torch, prepare, launcher.run) if again else None,
            "cold_ms": cold_ms(torch, prepare, launcher.run),
        }
