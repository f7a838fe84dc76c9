"""What is asked of a worker with torch about time: device events, or for the interpreter the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from ..common.failures import KernelError
from ..common.timing_plan import turns
from ..protocol import Range, Timings
from .device_timing import cache_filler, cold_ms, device_times, device_turns, warm_ms


class Timed:
    """Operations of a session; its memory, states and launchers are the session's."""

    memory: Any
    states: Any
    _launchers: dict[str, Any]
    _fill_cache: tuple[Callable[[], None] | None] | None = None  # once it was asked for

    def time(
        self, which: str, warmup: int, n: int, limit_s: float, dirty: list[int], cold: bool
    ) -> list[float]:
        launcher = self._launchers[which]
        if self.memory.kind == "cuda":
            prepare = self._prepare(lambda: self.states.restore("pre", dirty), cold)
            return device_times(torch, prepare, launcher.run, warmup, n)
        times = []
        deadline = time.monotonic() + limit_s
        for i in range(warmup + n):
            self.states.restore("pre", dirty)
            ended = launcher.outcome(max(0.001, deadline - time.monotonic()))
            if ended.status != "ok":
                raise KernelError(f"timed run {i}: {ended.message}", ended.detail)
            if i >= warmup:
                times.append(ended.ns / 1e6)
        return times

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

    def interleaved(
        self, rows: list[list[str]], rounds: int, ranges: list[Range], limit_s: float, cold: bool
    ) -> list[list[float]]:
        cold = cold and self.memory.kind == "cuda"
        prepare = self._prepare(lambda: self.states.restore_ranges("pre", ranges), cold)
        if self.memory.kind == "cuda":
            return device_turns(torch, prepare, [self._in_a_row(row) for row in rows], rounds)
        times: list[list[float]] = [[] for _ in rows]
        deadline = time.monotonic() + limit_s
        for number, order in enumerate([list(range(len(rows))), *turns(len(rows), rounds)]):
            for i in order:
                prepare()
                ns = 0
                for which in rows[i]:
                    ended = self._launchers[which].outcome(max(0.001, deadline - time.monotonic()))
                    if ended.status != "ok":
                        raise KernelError(f"timed run of {which}: {ended.message}", ended.detail)
                    ns += ended.ns
                if number:  # the first round is a warm-up
                    times[i].append(ns / 1e6)
        return times

    def _in_a_row(self, row: list[str]) -> Callable[[], None]:
        launchers = [self._launchers[which] for which in row]

        def run() -> None:
            for launcher in launchers:
                launcher.run()

        return run

    def timings(
        self, which: str, ranges: list[Range], dirty: list[int], again: bool, limit_s: float
    ) -> Timings:
        launcher = self._launchers[which]
        prepare = self._prepare(lambda: self.states.restore("pre", dirty), cold=False)
        return Timings(
            warm_ms(torch, prepare, launcher.run) if again else None, cold_ms(torch, prepare, launcher.run)
        )
