"""`kerncap trace`: what a launch finds in memory and what it leaves there, as digests."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Optional

from . import encoded_values, hashing, nvtx_ranges, torch_device
from .call import Call, python_stack
from .chosen_launch import Watch
from .contract import RecordKind, key, word
from .kernels import Counters
from .reachable_memory import ReachableMemory, Unsupported, size_text
from .session import Session


class Trace(Watch):
    """The two halves around a launch; one TRACED record of it, whatever happens."""

    def __init__(self, session: Session, counters: Counters, call: Call, fn: Any, ordinal: int) -> None:
        super().__init__(session, counters, call, fn, ordinal, None)
        self._launch = session.next_launch()
        self._reachable = ReachableMemory()
        self._time_ns = time.time_ns()
        self._known: Dict[str, Any] = {}  # of the record, as soon as it is known
        self._before: List[str] = []
        self._addresses: List[bool] = []

    def begin(self) -> None:
        """Hash the arguments' storages. Raises Unsupported with the reason."""
        self._known = {key.arguments: self._encode_arguments(self._reachable.add), key.grid: self._grid()}
        self._close(self._reachable)
        self._known[key.views] = self._reachable.views
        if self._uses_device and torch_device.is_capturing():
            raise Unsupported("it is inside a graph capture, where nothing can be read")
        limit = self.session.options.max_size
        if self._reachable.size > limit:
            raise Unsupported(
                f"its arguments hold {size_text(self._reachable.size)}, more than {size_text(limit)}"
            )
        self._before = self._digests("before the launch")
        self._addresses = hashing.holding_addresses(self._reachable)

    def finish(self, result: Any) -> None:
        after = self._digests("after the launch")
        self._write(
            hashed=[
                {
                    key.base: region.base,
                    key.size: region.size,
                    key.kind: word.region_kind.host if region.is_host else word.region_kind.device,
                    key.before: before,
                    key.after: now,
                    **({key.addresses: True} if addresses else {}),
                }
                for region, before, now, addresses in zip(
                    self._reachable.regions, self._before, after, self._addresses
                )
            ]
        )

    def raised(self, error: BaseException) -> None:
        self._write(error=f"{type(error).__name__}: {error}")

    def fail(self, reason: str) -> None:
        if not self.settled:
            self._write(reason=reason)

    refuse = fail

    @property
    def _uses_device(self) -> bool:
        return self.call.kernel.mode != word.mode.interpreter or any(
            not region.is_host for region in self._reachable.regions
        )

    def _digests(self, when: str) -> List[str]:
        timeout_s = self.session.options.drain_timeout_s
        if (
            self._uses_device
            and torch_device.is_live()
            and not torch_device.drain(torch_device.record_event(), timeout_s)
        ):
            raise Unsupported(f"stream did not finish within {timeout_s:g} s {when}")
        return hashing.digests(self._reachable.regions, self.session.options.chunk_bytes, timeout_s)

    def _write(
        self, *, hashed: Optional[List[Any]] = None, reason: Optional[str] = None, error: Optional[str] = None
    ) -> None:
        self.settled = True
        empty: Dict[str, Any] = {key.arguments: [], key.views: [], key.grid: None}
        kernel = self.call.kernel
        self.session.write(
            RecordKind.TRACED,
            {
                **empty,
                **self._known,
                key.launch: self._launch,
                key.mode: kernel.mode,
                key.kernel: kernel.describe(),
                key.ordinal: self.ordinal,
                key.options: {
                    name: encoded_values.encode(value, name) for name, value in self.call.options.items()
                },
                key.hashed: hashed or [],
                key.python_stack: python_stack()[-1:],
                key.range: nvtx_ranges.names(),
                key.time_ns: self._time_ns,
                key.reason: reason and encoded_values.clean(reason)[:4000],
                key.error: error and encoded_values.clean(error)[:4000],
            },
        )
        self.session.tick_counts()
