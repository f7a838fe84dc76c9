"""Two launches that were aligned, compared by what was recorded of them: digests and arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from kerncap.api.diverge.align import Step, align, value_key
from kerncap.capture.payloads import HashedRegion, TracedRecord
from kerncap.capture.trace_file import Trace, TracedProcess
from kerncap.format import schema
from kerncap.format.contract import word
from kerncap.log import one_line
from kerncap.report.documents.diff import Change
from kerncap.report.inspect_text import value_text

_MOST_TEXT = 120


@dataclass(frozen=True)
class Pair:
    """One step of the alignment. ``a`` and ``b`` are indices into the launches of both processes.

    ``before`` and ``after`` name the arguments whose memory differs then; ``changed`` are the arguments by
    value, the grid and the options that differ. ``uncompared`` says what could not be compared.
    """

    process: int
    a: int | None
    b: int | None
    first: TracedRecord | None
    second: TracedRecord | None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    changed: tuple[Change, ...] = ()
    raised: tuple[str | None, str | None] = (None, None)
    uncompared: str = ""

    @property
    def launch(self) -> TracedRecord:
        found = self.first if self.first is not None else self.second
        assert found is not None
        return found

    @property
    def is_matched(self) -> bool:
        return self.a is not None and self.b is not None

    @property
    def differs(self) -> bool:
        """Whether what the launches left is another; of an unmatched one it is."""
        return not self.is_matched or bool(self.after) or self.raised[0] != self.raised[1]


def pairs_of(a: Trace, b: Trace) -> list[Pair]:
    """Process by process, in the order of their ranks and starts; in the order of the launches."""
    empty = TracedProcess(pid=1)
    found = []
    for number in range(max(len(a.processes), len(b.processes))):
        first, second = (
            side.processes[number].launches if number < len(side.processes) else empty.launches
            for side in (a, b)
        )
        found += [_pair(number, step, first, second) for step in align(first, second)]
    return found


def _pair(process: int, step: Step, a: tuple[TracedRecord, ...], b: tuple[TracedRecord, ...]) -> Pair:
    first = a[step.a] if step.a is not None else None
    second = b[step.b] if step.b is not None else None
    if first is None or second is None:
        return Pair(process, step.a, step.b, first, second)
    raised = first.error, second.error
    changed = tuple(_changed(first, second))
    missing = first.reason or second.reason
    if missing or any(raised):
        said = f"not hashed: {missing}" if missing else ""
        return Pair(process, step.a, step.b, first, second, (), (), changed, raised, said)
    before: list[str] = []
    after: list[str] = []
    uncompared = [*_unhashed(first)]
    for names, one, other in _regions(first, second):
        if one.addresses or other.addresses:
            shown = ", ".join(names)
            behind = "which are others in each process"
            if first.mode != word.mode.native:
                behind = "and the memory behind them was not hashed"
            uncompared.append(f"{shown} holds addresses, {behind}")
            continue
        if (one.size, one.before) != (other.size, other.before):
            before += names
        if (one.size, one.after) != (other.size, other.after):
            after += names
    for name in {view.name for view in first.views} ^ {view.name for view in second.views}:
        uncompared.append(f"{name} is a tensor on one side only")
    return Pair(
        process, step.a, step.b, first, second, tuple(before), tuple(after), changed, raised,
        "; ".join(uncompared),
    )  # fmt: skip


def _regions(a: TracedRecord, b: TracedRecord) -> Iterator[tuple[list[str], HashedRegion, HashedRegion]]:
    """Memory of both by the tensors on it: arguments of one name, and each pair of regions once."""
    there = {view.name: view.region for view in b.views}
    names: dict[tuple[int, int], list[str]] = {}
    for view in a.views:
        if view.name in there:
            names.setdefault((view.region, there[view.name]), []).append(view.name)
    for (one, other), shown in names.items():
        yield shown, a.hashed[one], b.hashed[other]


def _unhashed(launch: TracedRecord) -> Iterator[str]:
    for argument in launch.arguments:
        for value in _flat(argument.value):
            if isinstance(value, schema.PointerValue) and value.address:
                yield f"{argument.name} is a bare pointer, and its memory was not hashed"
            elif isinstance(value, schema.OpaqueValue):
                yield f"{argument.name} is a {value.type_name}, which is not compared"


def _flat(value: schema.Value) -> Iterator[schema.Value]:
    if isinstance(value, schema.SequenceValue):
        for item in value.items:
            yield from _flat(item)
    else:
        yield value


def _changed(a: TracedRecord, b: TracedRecord) -> Iterator[Change]:
    """Arguments by value and tensors by type and shape; the grid; options."""
    if a.grid != b.grid:
        yield Change("grid", _text(a.grid), _text(b.grid))
    sides = [{one.name: (side, one.value) for one in side.arguments} for side in (a, b)]
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        one, other = (side.get(name) for side in sides)
        keys = [None if each is None else _full_key(*each) for each in (one, other)]
        if keys[0] != keys[1]:
            shown = [None if each is None else _shown(*each) for each in (one, other)]
            yield Change(name, shown[0], shown[1])
    for name in dict.fromkeys([*a.options, *b.options]):
        values = a.options.get(name), b.options.get(name)
        if values[0] != values[1]:
            shown = [None if each is None else _shown(a, each) for each in values]
            yield Change(name, shown[0], shown[1])


def _full_key(launch: TracedRecord, value: schema.Value) -> object:
    if isinstance(value, schema.TensorValue | schema.DescriptorValue) and value.view < len(launch.views):
        view = launch.views[value.view]
        rest = msgspec.structs.replace(value, view=0)
        return msgspec.json.encode(rest), view.dtype, view.shape, view.strides
    if isinstance(value, schema.SequenceValue):
        return value.type, tuple(_full_key(launch, item) for item in value.items)
    return value_key(value)


def _shown(launch: TracedRecord, value: schema.Value) -> str:
    return one_line(
        value_text(msgspec.to_builtins(value), [msgspec.to_builtins(view) for view in launch.views]),
        _MOST_TEXT,
    )


def _text(grid: tuple[int, int, int] | None) -> str | None:
    return None if grid is None else "×".join(map(str, grid))
