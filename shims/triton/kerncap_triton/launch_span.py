"""A range of launches: which of all launches that match are in it. The shim has the same, launch_span.h."""

from __future__ import annotations

import re
from typing import Any, Optional

from . import nvtx_ranges
from .contract import Options
from .kernels import Kernel

BEFORE, BEHIND = -1, -2
_MOST = 1024  # kerncap/format/schema.py has the same limit


class LaunchSpan:
    """Where a process's launches are in the range that was asked for; the shim counts where it is live."""

    def __init__(self, options: Options) -> None:
        self._launches = options.launches
        self._from = re.compile(options.from_kernel) if options.from_kernel else None
        self._to = re.compile(options.to_kernel) if options.to_kernel else None
        self._from_skip, self._to_skip = options.from_skip, options.to_skip
        self._whole = options.whole_range
        self._is_graph = options.graph is not None
        self._range = re.compile(options.range) if options.range else None
        self._occurrence = self._occurrences = 0
        self._next = self._taken = 0
        self._begun = False
        self.over = False  # its last launch was counted

    def position(self, kernel: Kernel, shim: Optional[Any]) -> int:
        """Counts a launch: its position if it is in the range, else `BEFORE` or `BEHIND`."""
        starts, ends = _found(self._from, kernel), _found(self._to, kernel)
        occurrence = 0
        if self._whole is not None and self._range is not None:
            occurrence = nvtx_ranges.occurrence(self._range)
        if self._is_graph:
            return BEFORE  # launched outside of all graphs; the shim takes those inside
        if shim is None:
            return self._count(starts, ends, occurrence)
        position: int = shim.count_launch(starts, ends, occurrence)
        self.over = shim.range_is_counted
        return position

    def _count(self, starts: bool, ends: bool, occurrence: int) -> int:
        if self.over:
            return BEHIND
        position = self._next
        self._next += 1
        if self._whole is not None:
            if occurrence != self._occurrence:
                self._occurrences += occurrence != 0
                self._occurrence = occurrence or self._occurrence
            if not occurrence or self._occurrences <= self._whole:
                return BEFORE
            if self._occurrences > self._whole + 1:
                self.over = True
                return BEHIND
        elif self._launches is not None:
            first, end = self._launches
            if position < first:
                return BEFORE
            self.over = position + 1 >= end
        else:
            if not self._has_begun(starts):
                return BEFORE
            if ends:
                self.over = self._to_skip == 0
                self._to_skip -= 1
        self._taken += 1
        self.over = self.over or self._taken >= _MOST
        return position

    def _has_begun(self, starts: bool) -> bool:
        if not self._begun and starts:
            self._begun = self._from_skip == 0
            self._from_skip -= 1
        return self._begun


def asked_for(options: Options) -> Optional[LaunchSpan]:
    """The range of launches of a session's options, if there is one."""
    spans = (options.launches, options.from_kernel, options.whole_range, options.graph)
    return LaunchSpan(options) if any(span is not None for span in spans) else None


def _found(pattern: Optional[Any], kernel: Kernel) -> bool:
    return pattern is not None and bool(pattern.search(kernel.name) or pattern.search(kernel.qualified_name))
