"""Which launches are wanted: name, ordinal, configuration, limits; and when to disarm."""

from __future__ import annotations

import re
from typing import Dict, List, Optional

from . import launch_span
from .contract import Options, word
from .kernels import Counters, Kernel

MAX_RANGES = 10_000
MAX_FAILURES = 20  # failed captures of one kernel before it is left alone


class Selection:
    """DESIGN.md's selection for one process. Its methods are called under the session's lock.

    ``wants`` reserves a launch; ``settle`` says what became of it, so that a failed or dropped
    capture gives its place to the next match.
    """

    def __init__(self, options: Options) -> None:
        self.pattern = re.compile(options.kernel) if options.kernel else None
        launch = options.launch
        self.first: Optional[int] = launch[0] if launch else None
        self.end: Optional[int] = launch[1] if launch else None
        self.per_config = options.per_config
        self.where = options.where
        self.default = options.by_default
        self.max_kernels = options.limit_kernels
        self.max_bytes = options.limit_bytes
        self.conditional = options.on_fault or options.when is not None
        self.last = options.last
        self.list_only = options.list_only
        self.trace = options.trace
        self.dormant = options.dormant
        self.ranks = options.ranks
        self.range = re.compile(options.range) if options.range else None
        self._ranges: Dict[str, bool] = {}  # what the regular expression said of each text
        # One launch and no more: a name or a condition was given, but neither ordinals nor a set.
        self.span = launch_span.asked_for(options)
        self.single = not (launch or self.per_config or self.default or self.last or self.span)
        self.disarmed = False
        self.kept_kernels = 0
        self.kept_bytes = 0
        self.reserved = 0

    def closed(self, rank: Optional[int]) -> Optional[str]:
        """Why nothing at all is wanted of this process now; None if something may be."""
        if self.dormant:
            return word.filter.dormant
        return word.filter.rank if self.ranks is not None and rank not in self.ranks else None

    def in_range(self, text: str) -> bool:
        """Whether ``--range`` is found in the names of the open ranges."""
        if self.range is None:
            return True
        known = self._ranges.get(text)
        if known is None:
            if len(self._ranges) >= MAX_RANGES:
                self._ranges.clear()  # names that are made again for every step
            known = self._ranges[text] = bool(self.range.search(text))
        return known

    def name_matches(self, kernel: Kernel) -> bool:
        if self.pattern is None:
            return True
        return bool(self.pattern.search(kernel.name) or self.pattern.search(kernel.qualified_name))

    def is_in_launches(self, ordinal: int) -> bool:
        """Whether ``--launch`` asks for this one of a kernel."""
        return self.first is None or self.end is None or self.first <= ordinal < self.end

    def wants(self, counters: Counters, ordinal: int, config: Optional[str]) -> Optional[str]:
        """None and a reservation, or the filter that this launch fell into."""
        if self.disarmed:
            counters.finish(word.filter.ordinal)
            return word.filter.ordinal
        if not self.is_in_launches(ordinal):
            if self.end is not None and ordinal >= self.end:
                counters.finish(word.filter.ordinal)
            return word.filter.ordinal
        if self.per_config:
            assert config is not None
            if config in counters.wanted_configs:
                return word.filter.config
        if self.default:
            reason = self._default_refuses(counters)
            if reason is not None:
                return reason
        if self.single and self.reserved and not self.conditional:
            return word.filter.ordinal
        if counters.failures >= MAX_FAILURES and self.span is None:
            counters.finish(word.filter.failed)
            return word.filter.failed
        if self.per_config and config is not None:
            counters.wanted_configs.add(config)
        self.reserved += 1
        counters.reserved += 1
        return None

    def _default_refuses(self, counters: Counters) -> Optional[str]:
        if not counters.kernel.source_known:
            counters.finish(word.filter.no_source)
            return word.filter.no_source
        if counters.captured > counters.before or (counters.reserved and not self.conditional):
            return word.filter.ordinal
        if self.kept_kernels >= self.max_kernels:
            counters.finish(word.filter.limit)
            return word.filter.limit
        return None

    def skippable(self, counters: Counters) -> int:
        """How many of this kernel's next launches are surely not wanted, whatever their arguments."""
        if self.first is None or self.where is not None or self.range is not None or self.list_only:
            return 0
        return max(0, self.first - counters.ordinal)

    def exceeds_limit(self, size: int) -> bool:
        """Whether the default selection has no room for memory of this size."""
        return self.default and self.kept_bytes + size > self.max_bytes

    def settle(self, counters: Counters, config: Optional[str], outcome: str, size: int) -> bool:
        """``kept``, ``dropped`` or ``failed``. True when nothing more is wanted of this process."""
        self.reserved -= 1
        counters.reserved -= 1
        if outcome != "kept":
            if outcome == "failed":
                counters.failures += 1
            if config is not None:
                counters.wanted_configs.discard(config)
            return False
        counters.captured += 1
        counters.bytes += size
        self.kept_bytes += size
        if self.default:
            counters.finish(word.filter.ordinal)
            self.kept_kernels += counters.captured == counters.before + 1
            return self.kept_kernels >= self.max_kernels
        if self.single:
            self.disarmed = True
            return True
        return False

    def release(self, counters: Counters, outcome: str) -> bool:
        """A launch that a selection before this one chose: counted, and of no meaning for this one."""
        self.reserved -= 1
        counters.reserved -= 1
        kept = outcome == "kept"
        counters.captured += kept
        counters.before += kept
        return False

    def range_done(self, all_counters: List[Counters]) -> bool:
        """With ``--launch``: every kernel that matched so far is past its last wanted ordinal.

        Of a range of launches: all of it is counted.
        """
        if self.span is not None:
            return self.span.over and not self.reserved
        if self.end is None or self.per_config or self.last:
            return False
        matching = [c for c in all_counters if c.name_matches and c.ordinal]
        return bool(matching) and not self.reserved and all(c.ordinal >= (self.end or 0) for c in matching)
