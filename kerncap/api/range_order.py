"""Which launches of a range are ordered: by the streams, events and host waits that were recorded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kerncap.capture import images
from kerncap.format import LaunchOfRange, LaunchRange, schema

_ALL = (1 << schema.MAX_RANGE_LAUNCHES) - 1
# CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT and _LAUNCH_COMPLETION_EVENT record an event. Source: cuda.h.
_EVENT_ATTRIBUTES = (7, 12)
_MAY_WAIT = re.compile(rb"\btt\.atomic|isVolatile = true|inline_asm|\btt\.extern|\btt\.call\b")
_GRAPH = "cuGraphLaunch"
# Of an AQL packet that need not wait for those before it in its queue, or waits for another stream's.
_NOT_IN_ORDER = (", no barrier", ", perhaps of several streams")


@dataclass(frozen=True)
class Facts:
    """What of a launch its range's order does not say."""

    in_graph: bool = False  # its stream is the graph's, if that has no order, and nodes may run at once
    may_wait: bool = False  # for what another launch writes
    seen_by_host: bool = False  # the host may see what it wrote, and go on
    records_events: bool = False
    after_gap: bool = False  # launches before it are not in the range


@dataclass
class RangeOrder:
    """By launch, as bits: which launches are before it, and which may be."""

    surely: list[int] = field(default_factory=list)
    maybe: list[int] = field(default_factory=list)

    def orders(self, one: int, other: int) -> bool | None:
        """Whether launch ``one`` is before ``other``, which comes later; None if that is not known."""
        if self.surely[other] >> one & 1:
            return True
        return None if self.maybe[other] >> one & 1 else False

    def edges(self) -> list[tuple[int, int]]:
        """The pairs that are ordered and that no launch between them orders."""
        found = []
        for other, before in enumerate(self.surely):
            left = before
            while left:
                one = left.bit_length() - 1
                found.append((one, other))
                left &= ~(self.surely[one] | 1 << one)
        return found


def order_of(opened: LaunchRange) -> RangeOrder:
    """Of the launches of a range; a stream's launches are in order, also if nothing else is recorded."""
    launches = opened.launches
    if launches[0].manifest.device.kind == "cpu":  # the host carries them out one after another
        bits = [(1 << number) - 1 for number in range(len(launches))]
        return RangeOrder(bits, bits)
    recorded = opened.manifest.order
    if recorded is None:
        surely = [
            sum(1 << one.number for one in launches[: other.number] if _same_stream(one, other))
            for other in launches
        ]
        return RangeOrder(surely, [(1 << number) - 1 for number in range(len(launches))])
    gone = {missing.position for missing in opened.manifest.missing}
    waits = _Waits()
    facts = [
        facts_of(launch, launches[launch.number - 1] if launch.number else None, gone, waits)
        for launch in launches
    ]
    return ordered(recorded, facts)


def stream_names(opened: LaunchRange) -> list[str]:
    """The stream of each launch, for a person; the same text for the same stream."""
    order = opened.manifest.order
    if opened.launches[0].manifest.device.kind == "cpu":
        return ["the host"] * len(opened.launches)
    texts = [_stream_text(launch) for launch in opened.launches]
    if order is None:
        return texts
    owners: dict[str, set[int]] = {}
    for text, place in zip(texts, order.launches, strict=True):
        owners.setdefault(text, set()).add(place.stream)
    return [
        text if len(owners[text]) == 1 else f"{text} ({place.stream})"
        for text, place in zip(texts, order.launches, strict=True)
    ]


def _stream_text(of: LaunchOfRange) -> str:
    launch = of.manifest.launch
    if launch.route is not None and launch.route.startswith(f"{_GRAPH} "):
        return f"{launch.route.removeprefix(f'{_GRAPH} ')} of a graph"
    text = launch.stream or "not recorded"
    return text if text.startswith(("stream ", "the ")) else f"stream {text}"


def _same_stream(one: LaunchOfRange, other: LaunchOfRange) -> bool:
    first, second = one.manifest.launch, other.manifest.launch
    in_graphs = all((launch.route or "").startswith(_GRAPH) for launch in (first, second))
    in_order = not (second.route or "").endswith(_NOT_IN_ORDER)
    return first.stream == second.stream and not in_graphs and in_order


def facts_of(launch: LaunchOfRange, before: LaunchOfRange | None, gone: set[int], waits: _Waits) -> Facts:
    manifest = launch.manifest
    return Facts(
        in_graph=(manifest.launch.route or "").startswith(_GRAPH),
        may_wait=waits.may_wait(launch),
        seen_by_host=any(region.kind in ("host", "managed") or region.shared for region in manifest.regions),
        records_events=any(attribute.id in _EVENT_ATTRIBUTES for attribute in manifest.launch.attributes),
        after_gap=before is not None
        and (before.position + 1 != launch.position or launch.position - 1 in gone),
    )


class _Waits:
    """Which launches may wait for another: Triton's by their TTIR, those of CUDA by their machine code."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], bool] = {}  # by image and kernel: one may hold many kernels

    def may_wait(self, launch: LaunchOfRange) -> bool:
        """True if it is not known."""
        manifest = launch.manifest
        if manifest.kernel.language == "triton":
            text = launch.code("ttir")
            return text is None or _MAY_WAIT.search(text) is not None
        files = {code.stage: code.file.sha256 for code in manifest.code}
        stage = next((one for one in ("cubin", "fatbin") if one in files), None)
        kernel = manifest.kernel.mangled
        if stage is None or kernel is None:
            return True
        key = files[stage], kernel
        if key not in self._known:
            self._known[key] = _code_may_wait(launch.code(stage), manifest.device.arch, kernel)
        return self._known[key]


def _code_may_wait(image: bytes | None, arch: str | None, kernel: str) -> bool:
    if image is None:
        return True
    try:
        return images.may_wait_for_launches(images.choose(image, arch, kernel), kernel)
    except images.ImageProblem:
        return True


def ordered(order: schema.StreamOrder, facts: Sequence[Facts]) -> RangeOrder:
    """What ``order`` says, and what ``facts`` leave open."""
    threads = {place.thread for place in order.launches}
    surely = [0] * len(order.launches)
    for thread in threads:
        # What another thread does at the same time may come before or after: it orders nothing surely.
        for number, before in _Walk(order, facts, thread).run():
            surely[number] = before
    for number, place in enumerate(order.launches):
        for one in range(number):
            is_ordered = order.launches[one].stream == place.stream
            if is_ordered and not (facts[one].in_graph and facts[number].in_graph):
                surely[number] |= 1 << one
    if len(threads) > 1:
        return RangeOrder(surely, [(1 << number) - 1 for number in range(len(surely))])
    return RangeOrder(surely, [before for _, before in _Walk(order, facts, None).run()])


class _Walk:
    """One pass over launches and calls: of one thread, for what is sure; or of all, for what may be."""

    def __init__(self, order: schema.StreamOrder, facts: Sequence[Facts], thread: int | None) -> None:
        self._order, self._facts, self._thread = order, facts, thread
        self._after = [0] * len(order.streams)  # what later work of a stream comes after
        self._graph = [0] * len(order.streams)  # of it, nodes of graphs on this stream
        self._host = 0  # what the host knows to have ended
        self._events: dict[int, int] = {}
        self._launched = 0
        # Recorded by another thread too: which of the two a wait finds is not known.
        self._contested = {
            call.event for call in order.calls if call.call == "record" and thread not in (None, call.thread)
        }

    def run(self) -> Iterator[tuple[int, int]]:
        calls = iter(self._order.calls)
        call = next(calls, None)
        for number, place in enumerate(self._order.launches):
            while call is not None and call.before <= number:
                self._take(call)
                call = next(calls, None)
            if self._thread in (None, place.thread):
                yield number, self._launch(number, place.stream)

    def _launch(self, number: int, stream: int) -> int:
        facts, sure = self._facts[number], self._thread is not None
        if facts.after_gap and not sure:
            self._anything()
        before = self._touch(stream)
        if not sure and facts.may_wait:
            before = self._after[stream] = _ALL
        self._after[stream] |= 1 << number
        self._launched |= 1 << number
        if sure and facts.in_graph:
            before &= ~self._graph[stream]
        if facts.in_graph:
            self._graph[stream] |= 1 << number
        if not sure and facts.records_events:
            self._anything()
        elif not sure and (facts.seen_by_host or facts.may_wait):  # and a later one may come before it
            self._host |= 1 << number
        return before & ~(1 << number)

    def _take(self, call: schema.OrderingCall) -> None:
        sure = self._thread is not None
        if sure and call.thread != self._thread:
            return
        if call.stream is not None:
            self._touch(call.stream)
        foreign = not sure and call.thread != self._order.launches[0].thread
        if not sure and (call.call == "unknown" or foreign or self._is_strange(call)):
            self._anything()
        if call.call == "record" and call.event is not None and call.stream is not None:
            self._events[call.event] = 0 if call.event in self._contested else self._after[call.stream]
        elif call.call == "wait" and call.event is not None and call.stream is not None:
            self._after[call.stream] |= self._events.get(call.event, 0)
        elif call.call == "synchronize_event" and call.event is not None:
            self._host |= self._events.get(call.event, 0)
        elif call.call == "synchronize" and call.stream is not None:
            self._host |= self._after[call.stream] if sure else self._before(call.stream)
        elif call.call == "synchronize_all" and call.stream is not None:
            for stream in self._of_context(call.stream):
                self._host |= self._after[stream]

    def _is_strange(self, call: schema.OrderingCall) -> bool:
        """A wait for an event that was not recorded here: another process or a graph may record it."""
        return call.call in ("wait", "synchronize_event") and call.event not in self._events

    def _anything(self) -> None:
        """From here on all may come after all before."""
        self._host |= self._launched

    def _touch(self, stream: int) -> int:
        self._after[stream] = self._before(stream) | self._host
        return self._after[stream]

    def _before(self, stream: int) -> int:
        """What work on this stream waits for; the default stream and blocking ones wait for each other."""
        kind, found = self._order.streams[stream].kind, self._after[stream]
        other = {"legacy": "blocking", "blocking": "legacy"}.get(kind)
        for number in self._of_context(stream):
            if self._order.streams[number].kind == other:
                found |= self._after[number]
        return found

    @cached_property
    def _contexts(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for number, stream in enumerate(self._order.streams):
            found.setdefault(stream.context, []).append(number)
        return found

    def _of_context(self, stream: int) -> list[int]:
        return self._contexts[self._order.streams[stream].context]
