"""Which parts of a Triton launch's memory become blocks of a script, and the addresses among their words."""

from __future__ import annotations

import bisect
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from kerncap.api.export.memory_blocks import WORD, Contents, Pointer, Span, Targets
from kerncap.errors import UsageError
from kerncap.format import schema
from kerncap.format.schema import Manifest, View
from kerncap.log import one_line
from kerncap.replay.memory_names import view_name
from kerncap.replay.write_set_units import extent


@dataclass(frozen=True)
class Block:
    """A stretch of a region under a name: one allocation of the script's."""

    name: str
    span: Span
    address: int


@dataclass(frozen=True)
class Layout:
    """The blocks, in the order of the regions, and the words of them that a script has to set again."""

    blocks: tuple[Block, ...]
    pointers: tuple[Pointer, ...]

    def block(self, region: int, offset: int) -> Block | None:
        """The block that holds a byte of a region (or ends there)."""
        number = bisect.bisect_right(self._starts, (region, offset)) - 1
        block = self.blocks[number] if number >= 0 else None
        return block if block is not None and block.span.ends_behind(region, offset) else None

    @cached_property
    def _starts(self) -> list[tuple[int, int]]:
        return [(block.span.region, block.span.start) for block in self.blocks]


class _Reached:
    """The spans that something leads to, and which of them are still to be looked through."""

    def __init__(self, spans: list[Span]) -> None:
        self._spans: dict[int, list[Span]] = {}
        for span in spans:
            self._spans.setdefault(span.region, []).append(span)
        self._left = deque(spans)

    def add(self, region: int, offset: int, size: int) -> None:
        """A byte of a region of ``size``: if no span has it, the region as a whole is one."""
        spans = self._spans.get(region, [])
        number = bisect.bisect_right(spans, offset, key=lambda span: span.start) - 1
        if number < 0 or offset >= spans[number].stop:
            whole = Span(region, 0, size)
            self._spans[region] = [whole]
            self._left.append(whole)

    def left(self) -> Iterator[Span]:
        while self._left:
            yield self._left.popleft()

    def all(self) -> list[Span]:
        """In the order of their regions."""
        return [span for region in sorted(self._spans) for span in self._spans[region]]


def lay_out(contents: Contents) -> Layout:
    """Blocks for all that the launch's tensors, and pointers in their memory, lead to.

    Of a region whose views know their storages only these are taken. Raises UsageError, naming what can't be
    made without the captured addresses.
    """
    manifest = contents.reproducer.manifest
    where = str(contents.reproducer.path)
    for number, view in enumerate(manifest.views):
        _check(manifest, number, view, where)
    views = _views_by_region(manifest)
    reached = _Reached(_spans(manifest, contents, views))
    targets = Targets(manifest.regions, range(len(manifest.regions)))
    for address in addresses(manifest):
        if (target := targets.of(address)) is not None:
            reached.add(*target, manifest.regions[target[0]].size)
    pointers: list[Pointer] = []
    for span in reached.left():
        found = _pointers(contents, span, views.get(span.region, []), targets, where)
        pointers += found
        for pointer in found:
            reached.add(pointer.target, pointer.target_offset, manifest.regions[pointer.target].size)
    spans = reached.all()
    _refuse_unreached(contents, {span.region for span in spans}, where)
    bases = [region.base for region in manifest.regions]
    names = _names(views, spans)
    blocks = tuple(
        Block(name, span, bases[span.region] + span.start) for name, span in zip(names, spans, strict=True)
    )
    return Layout(blocks, tuple(dict.fromkeys(pointers)))


def _check(manifest: Manifest, number: int, view: View, where: str) -> None:
    name = one_line(view_name(manifest, number))
    address = manifest.regions[view.region].base + view.offset
    if any(stride < 0 for stride in view.strides):
        raise UsageError(f"{where}: {name} has a negative stride, which torch has no tensors for")
    if address % view.itemsize and 0 not in view.shape:
        raise UsageError(f"{where}: {name} is at {address:#x}, where torch makes no tensor of {view.dtype}")
    reached = 1
    for length, stride in sorted(zip(view.shape, view.strides, strict=True), key=lambda pair: pair[1]):
        if length > 1 and stride:
            if stride < reached:
                raise UsageError(
                    f"{where}: elements of {name} overlap each other, which a script can't compare"
                )
            reached = (length - 1) * stride + reached


def _spans(manifest: Manifest, contents: Contents, by_region: Mapping[int, list[View]]) -> list[Span]:
    found = []
    for index, views in sorted(by_region.items()):
        region = manifest.regions[index]
        edges = [view.storage for view in views]
        parts = _merged([(start, start + size) for start, size in filter(None, edges)])
        spans = [Span(index, start, stop) for start, stop in parts]
        if None in edges or contents.writes_outside(spans, index):
            spans = [Span(index, 0, region.size)]
        found += spans
    return found


def _views_by_region(manifest: Manifest) -> dict[int, list[View]]:
    """The views of each region that has any."""
    found: dict[int, list[View]] = {}
    for view in manifest.views:
        found.setdefault(view.region, []).append(view)
    return found


def _merged(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(parts):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return merged


def _pointers(
    contents: Contents, span: Span, views: list[View], targets: Targets, where: str
) -> list[Pointer]:
    """The aligned words of a span that are addresses of the launch's memory.

    Only if a tensor holds integers of 64 bits, single bytes, or if no tensor says what there is: in
    floats and narrower integers such bits are a number. ``views`` are those of its region.
    """
    manifest = contents.reproducer.manifest
    base = manifest.regions[span.region].base
    places = [extent(view) for view in views if view.dtype in ("int64", "uint64", "int8", "uint8")]
    skew = -(base + span.start) % WORD
    found: list[Pointer] = []
    if views and not places or span.size < skew + WORD:
        return found
    for start, after, flip in contents.pieces(Span(span.region, span.start + skew, span.stop)):
        for pointer in targets.pointers(after, span.region, start) + targets.pointers(
            after ^ flip, span.region, start
        ):
            if views and not any(low <= pointer.offset < high for low, high in places):
                continue
            at = pointer.offset - start
            if flip[at : at + WORD].any():
                raise UsageError(
                    f"{where}: the launch writes a pointer (byte {pointer.offset} of region "
                    f"{pointer.region}), which a script has other addresses for"
                )
            found.append(pointer)
    return found


def _refuse_unreached(contents: Contents, reached: set[int], where: str) -> None:
    for index, region in enumerate(contents.reproducer.manifest.regions):
        if region.size and region.kind == "global":
            raise UsageError(
                f"{where}: the launch uses {one_line(region.name or 'a variable')} of its module, which a "
                "script can't set"
            )
        if index not in reached and contents.writes_outside((), index):
            raise UsageError(
                f"{where}: the launch writes region {index} ({one_line(region.reason)}), which no argument "
                "and no pointer that a script could set leads to"
            )


def addresses(manifest: Manifest) -> list[int]:
    """The bare addresses among the arguments."""
    found: list[int] = []
    values: list[schema.Value] = [argument.value for argument in manifest.arguments]
    while values:
        value = values.pop()
        if isinstance(value, schema.PointerValue):
            found.append(value.address)
        elif isinstance(value, schema.SequenceValue):
            values += value.items
    return found


def _names(by_region: Mapping[int, list[View]], spans: list[Span]) -> list[str]:
    """Each block by the first tensor in it; a plain word, for it is a file's name, too."""
    starts = [(span.region, span.start) for span in spans]
    first: dict[int, str] = {}
    for region, views in by_region.items():
        for view in views:
            number = bisect.bisect_right(starts, (region, view.offset)) - 1
            for near in (number - 1, number):  # one may end where the next begins
                if view.name and near >= 0 and spans[near].ends_behind(region, view.offset):
                    first.setdefault(near, view.name)
    names: dict[str, None] = {}
    times: Counter[str] = Counter()
    for number, span in enumerate(spans):
        plain = re.sub(r"[^A-Za-z0-9]+", "_", first.get(number, "")).strip("_") or f"region{span.region}"
        name = plain
        while name in names:
            times[plain] += 1
            name = f"{plain}_{times[plain] + 1}"
        names[name] = None
    return [*names]
