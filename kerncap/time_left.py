"""How far a long piece of work is, and how long the rest will take: a line every two seconds."""

from __future__ import annotations

import time

from kerncap import log

INTERVAL_S = 2.0


class TimeLeft:
    """Call it with how much of how much is done. It says nothing of what ends within two seconds."""

    def __init__(self, what: str, in_bytes: bool = False) -> None:
        self._what = log.one_line(what, 120)
        self._in_bytes = in_bytes
        self._started = time.monotonic()
        self._next = self._started + INTERVAL_S

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next or not 0 < done < total:
            return
        self._next = now + INTERVAL_S
        far = f"{log.size(done)} of {log.size(total)}" if self._in_bytes else f"{100 * done // total} %"
        left = int((now - self._started) * (total - done) / done * 1e9)
        log.line(f"{self._what} {far}, {log.duration(left)} left")
