"""What an engine times and repeats: many launches in one request to its worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kerncap.errors import ReplayError, UsageError
from kerncap.replay.outcome import Outcome, Repeated
from kerncap.replay.worker.protocol import Backend, Replays, Timings
from kerncap.replay.worker_memory import WorkerMemory
from kerncap.replay.worker_process import TargetError, WorkerDied, WorkerKilled, WorkerTimeout
from kerncap.time_limits import GRACE_S

S = TypeVar("S")

_LONGEST_REPEAT_S = 24 * 3600.0


class WorkerTimes(WorkerMemory):
    """The part of an engine that runs launches in a row; ``timeout_s`` is the limit of one."""

    timeout_s: float

    def is_loaded(self, name: str) -> bool:
        """Whether a variant of that name can be launched."""
        raise NotImplementedError

    def row(self, which: str) -> list[str]:
        """The launches that a variant consists of, by the names that the worker has for them."""
        return [which]

    @property
    def waits(self) -> bool:
        """Whether the launch waits for other ranks, which are not there when it is launched in a row."""
        raise NotImplementedError

    def _refuse_to_time(self) -> None:
        if self.waits:
            kernel = self.manifest.kernel.name
            raise ReplayError(f"{kernel}: it waits for other ranks, so it has no times without them")

    def time(self, which: str, warmup: int, n: int, dirty: list[int], cold: bool = False) -> list[float]:
        """Milliseconds of ``n`` launches after a warm-up; ``dirty`` regions are restored before each.

        ``cold``: the device's cache holds other data, if a Triton launch runs on one.
        """
        if self.connection.choice.launcher == "native":  # which times launches in turns only
            return self.interleaved([which], n, dirty, cold=cold)[which]
        self._refuse_to_time()
        limit = self.timeout_s * (warmup + n)
        return self.connection.call_within(
            limit + GRACE_S, Backend.time, which, warmup=warmup, n=n, limit_s=limit, dirty=dirty, cold=cold
        )

    def interleaved(
        self,
        whichs: Sequence[str],
        rounds: int,
        dirty: list[int],
        ranges: Sequence[tuple[int, int, int]] | None = None,
        cold: bool = False,
    ) -> dict[str, list[float]]:
        """Milliseconds of ``rounds`` launches of each variant, in turns: times of one round are a pair.

        Every round times each variant once, in an order that changes, each on the restored pre-state of the
        ``dirty`` regions, or of no more than ``ranges`` of them (region, start, stop).
        ``cold`` as for `time`.
        By the device's events, of the interpreter by the host's clock. Raises ReplayError if a launch
        does not end well.
        """
        self._refuse_to_time()
        unknown = [name for name in whichs if not all(map(self.is_loaded, self.row(name)))]
        if unknown:
            raise ReplayError(f"{', '.join(unknown)}: not loaded, so there is nothing to time")
        if len(set(whichs)) != len(whichs) or rounds < 1:
            raise UsageError("interleaved times are of different variants, and of at least one round")
        limit = min(self.timeout_s * len(whichs) * (rounds + 1), _LONGEST_REPEAT_S)
        sizes = [region.size for region in self.manifest.regions]
        wanted = [(r, 0, sizes[r]) for r in dirty] if ranges is None else list(ranges)
        found = self.connection.call_within(
            limit + GRACE_S, Backend.interleaved, [self.row(which) for which in whichs], rounds=rounds,
            ranges=wanted, limit_s=limit, cold=cold,
        )  # fmt: skip
        return dict(zip(whichs, found, strict=True))

    def repeat(self, which: str, n: int, state: str, ranges: list[tuple[int, int, int]]) -> Repeated:
        """``n`` native replays, queued without waiting, each from ``ranges`` (region, start, stop).

        The ranges are taken from ``state``; memory is as the last replay left it. One that does not end
        well ends them all.
        """
        return self._repeated(Backend.repeat, which, n, state, ranges)

    def until(self, which: str, n: int, state: str, expected: str) -> Repeated:
        """Up to ``n`` native replays, until one differs from a state; memory is as the first such left it."""
        return self._repeated(Backend.until, which, n, state, expected)

    def timings(
        self, which: str, ranges: list[tuple[int, int, int]], dirty: list[int], again: bool
    ) -> Timings:
        """Milliseconds of a launch with a warm and with a cold cache.

        ``ranges`` are what it dirties, ``dirty`` the regions of these; ``again``: it may follow itself.
        """
        self._refuse_to_time()
        limit = 2 * self.timeout_s
        return self.connection.call_within(
            limit + GRACE_S, Backend.timings, which, ranges=ranges, dirty=dirty, again=again, limit_s=limit
        )

    def _repeated(
        self, operation: Callable[[Backend, str, int, str, S, float], Replays], which: str, n: int,
        state: str, more: S,
    ) -> Repeated:  # fmt: skip
        self._refuse_to_time()
        limit = min(self.timeout_s * n, _LONGEST_REPEAT_S)
        try:
            ran = self.connection.request(limit + GRACE_S, operation, which, n, state, more, limit)
        except WorkerTimeout:
            self.connection.start()
            return Repeated(ended=Outcome("timeout", f"{n} replays did not end within {limit:g} s"))
        except WorkerDied as death:
            self.connection.start()
            status = "killed" if isinstance(death, WorkerKilled) else "fault"
            return Repeated(ended=Outcome(status, str(death)))
        except TargetError as error:
            return Repeated(ended=Outcome("error", str(error)))
        return Repeated(ran.runs, ran.different, ran.first, times_ms=ran.times_ms, seconds=ran.seconds)
