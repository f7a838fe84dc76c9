"""Check every Triton launch of this process, as the pytest plugin does."""

from __future__ import annotations

import threading

from kerncap.sanitizer.findings import NOT_SANITISED, LaunchReport
from kerncap.sanitizer.live import this_process
from kerncap.sanitizer.live.judged_once import Judge
from kerncap.sanitizer.options import Options

__all__ = ["NOT_SANITISED", "SanitizedHere"]


class SanitizedHere:
    """Starts with the first instance and lasts as long as the process; make one."""

    def __init__(self, options: Options) -> None:
        self._lock = threading.Lock()
        self._taken: list[LaunchReport] = []
        self.launches = 0
        this_process.watch(
            Judge(options),
            self._add,
            fresh="uninit" in options.checks,
            allocations=options.bounds == "allocation",
        )

    def take(self) -> list[LaunchReport]:
        """The reports of the launches since the last call, equal ones once."""
        with self._lock:
            taken, self._taken = self._taken, []
        return taken

    def _add(self, report: LaunchReport) -> None:
        with self._lock:
            self.launches += 1
            # A loop of equal launches is one line of a failed test's report.
            if not any(_is_repeat(one, report) for one in self._taken):
                self._taken.append(report)


def _is_repeat(one: LaunchReport, other: LaunchReport) -> bool:
    return one.settled is other.settled and (one.kernel, one.notes) == (other.kernel, other.notes)
