"""What may order the launches of a range, from the records of its process."""

from __future__ import annotations

from collections.abc import Sequence

from kerncap.capture.payloads import OrderingCall
from kerncap.capture.seal import SealedLaunch
from kerncap.format import schema
from kerncap.format.contract import word

_CALL, _KIND = word.stream_call, word.stream_kind


def stream_order(
    of_process: Sequence[SealedLaunch], of_range: Sequence[SealedLaunch]
) -> schema.StreamOrder | None:
    """The order of the launches ``of_range``, on one device, of all captured ones ``of_process``.

    None if it was not recorded, or not whole: a launch between them left no reproducer, or several threads
    launched in another order than they were counted in.
    """
    launches = sorted(of_process, key=lambda each: each.number)
    wanted = [each.number for each in of_range]
    launches = [each for each in launches if each.number <= wanted[-1]]
    numbers = [each.number for each in launches if each.number >= wanted[0]]
    if wanted != sorted(wanted) or numbers != list(range(wanted[0], wanted[-1] + 1)):
        return None
    found, in_range = _Order(), set(wanted)
    for each in launches:
        if each.order is None or not each.order or each.order[-1].call != _CALL.launch:
            return None
        for call in each.order[:-1]:
            found.add(call)
        found.launch(each.order[-1], each.number in in_range)
    return found.whole(len(wanted))


class _Order:
    def __init__(self) -> None:
        self._streams: dict[int, int] = {}
        self._kinds: list[schema.RangeStream] = []
        self._threads: dict[int, int] = {}
        self._contexts: dict[int, int] = {}
        self._events: dict[int, int] = {}  # by handle, which another event may get later
        self._next_event = 0
        self._before: set[int] = set()  # events that were last recorded before the range
        self._launches: list[schema.LaunchPlace] = []
        self._calls: list[schema.OrderingCall] = []

    def launch(self, call: OrderingCall, is_in_range: bool) -> None:
        if is_in_range:
            stream = self._stream(call)
            if stream is not None:
                self._launches.append(schema.LaunchPlace(stream=stream, thread=self._thread(call)))
        else:  # of another device
            self.add(call)

    def add(self, call: OrderingCall) -> None:
        if call.call == _CALL.forget:
            self._events.pop(call.event or 0, None)
            self._before.discard(call.event or 0)
            return
        if call.event is not None and call.call == _CALL.record:
            (self._before.discard if self._launches else self._before.add)(call.event)
        if not self._launches or call.event in self._before:
            return  # it orders nothing of the range
        # A launch on another device may wait, and so order, as anything may.
        kind = _CALL.unknown if call.call == _CALL.launch else call.call
        if kind == _CALL.work and call.stream_kind != _KIND.legacy:
            return
        event = None
        if call.event:
            if call.event not in self._events:
                self._events[call.event] = self._next_event
                self._next_event += 1
            event = self._events[call.event]
        made = schema.OrderingCall(
            before=len(self._launches),
            call=kind,
            thread=self._thread(call),
            stream=self._stream(call),
            event=event,
        )
        if not self._calls or made != self._calls[-1]:
            self._calls.append(made)

    def whole(self, launches: int) -> schema.StreamOrder | None:
        calls = tuple(call for call in self._calls if call.before < launches)
        if (
            len(self._launches) != launches
            or len(calls) > schema.MAX_LIST
            or len(self._kinds) > schema.MAX_MAP
        ):
            return None
        return schema.StreamOrder(streams=tuple(self._kinds), launches=tuple(self._launches), calls=calls)

    def _stream(self, call: OrderingCall) -> int | None:
        if call.stream_number is None or call.stream_kind is None:
            return None
        if call.stream_number not in self._streams:
            self._streams[call.stream_number] = len(self._kinds)
            context = self._contexts.setdefault(call.context or 0, len(self._contexts))
            self._kinds.append(schema.RangeStream(kind=call.stream_kind, context=context))
        return self._streams[call.stream_number]

    def _thread(self, call: OrderingCall) -> int:
        return self._threads.setdefault(call.thread, len(self._threads))
