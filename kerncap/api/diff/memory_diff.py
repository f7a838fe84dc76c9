"""The memory of two reproducers: views element by element, all else byte by byte.

What has the same digest on both sides is not read. Blocks are small, and all that is read together is
bounded: a manifest may speak of a tebibyte.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from kerncap.api.diff.diff_result import NOT_COMPARED
from kerncap.api.diff.element_differences import Difference
from kerncap.api.diff.pairing import Pairs, Pointers
from kerncap.api.diff.windows import MOST_MASKED, Chunks, Idle, Window, blocks
from kerncap.format import Reproducer
from kerncap.format.memory_index import State
from kerncap.format.schema import View
from kerncap.replay.memory_names import view_name
from kerncap.replay.worker.native.dtypes import Number
from kerncap.report.documents.diff import RegionDiff, StateDiff, ViewDiff

MOST_READ = 16 << 30  # bytes of both sides together
MOST_LISTED = 1000  # views and regions of each kind that are looked into and listed
_UNREAD = f"{NOT_COMPARED}{MOST_LISTED:,} others differ"
_MOST_ELEMENTS = 1 << 40
_WORD = 8
STATES: tuple[State, ...] = ("pre", "post")


@dataclass
class Budget:
    """What may still be read."""

    left: int = MOST_READ

    def take(self, size: int) -> bool:
        if self.left < size:
            return False
        self.left -= size
        return True


class Memory:
    """Compares the memory of two reproducers under one budget."""

    def __init__(self, a: Reproducer, b: Reproducer, pairs: Pairs, most_read: int = MOST_READ) -> None:
        self._a, self._b, self._pairs = a, b, pairs
        self._pointers = Pointers(a.manifest, b.manifest, pairs.regions)
        self._budget = Budget(most_read)
        ended = ("fault", "timeout")  # such launches have no state after them
        self.states = (
            STATES if not {a.manifest.oracle.kind, b.manifest.oracle.kind} & set(ended) else ("pre",)
        )
        self.ran_out = False
        self._held: dict[int, list[int]] = defaultdict(list)  # region of A -> views that are compared
        for number in pairs.views:
            self._held[a.manifest.views[number].region].append(number)
        self._idle = Idle(a, b)
        self._chunks = Chunks(a, b)

    @property
    def idle_known(self) -> bool:
        """Whether both were measured: what a launch only writes is then no difference before it."""
        return self._idle.known

    def views(self, only: str | None = None) -> list[ViewDiff]:
        """Each view of either side; with ``only``, those of that name alone."""
        found: list[ViewDiff] = []
        differing = 0
        for first, view in enumerate(self._a.manifest.views):
            name = view_name(self._a.manifest, first)
            if only is not None and name != only:
                continue
            second = self._pairs.views.get(first)
            if second is None:
                one = ViewDiff(name, (view.dtype, None), (view.shape, None), problem="only in A")
            elif differing < MOST_LISTED:
                one = self._view(name, view, self._b.manifest.views[second])
            else:
                other = self._b.manifest.views[second]
                one = ViewDiff(name, (view.dtype, other.dtype), (view.shape, other.shape), problem=_UNREAD)
            differing += not one.same
            found.append(one)
        taken = set(self._pairs.views.values())
        for second, view in enumerate(self._b.manifest.views):
            name = view_name(self._b.manifest, second)
            if second not in taken and only in (None, name):
                found.append(ViewDiff(name, (None, view.dtype), (None, view.shape), problem="only in B"))
        return found

    def _told(self, first: int, second: int) -> tuple[State, ...]:
        """The states of two regions that say something: before is all if neither launch changes it."""
        changed = any(
            len(one.index.stored("post", region)[0]) for one, region in ((self._a, first), (self._b, second))
        )
        return self.states if changed else self.states[:1]

    def _view(self, name: str, a: View, b: View) -> ViewDiff:
        dtypes, shapes = (a.dtype, b.dtype), (a.shape, b.shape)
        if a.shape != b.shape:
            return ViewDiff(name, dtypes, shapes, problem="other shapes: elements can't be paired")
        windows = Window.of(self._a, a), Window.of(self._b, b)
        if windows[0].shape != windows[1].shape:
            return ViewDiff(name, dtypes, shapes, problem="types that can't be compared")
        # An axis that stands still on both sides shows the same elements again and again.
        still = [not x and not y for x, y in zip(windows[0].strides, windows[1].strides, strict=True)]
        shape = tuple(min(n, 1) if s else n for n, s in zip(windows[0].shape, still, strict=True))
        if math.prod(shape) > _MOST_ELEMENTS:
            return ViewDiff(
                name, dtypes, shapes, problem=f"{NOT_COMPARED}too many elements, for its strides overlap"
            )
        states = tuple(self._elements(*windows, shape, state) for state in self._told(a.region, b.region))
        return ViewDiff(name, dtypes, shapes, states)

    def _elements(self, a: Window, b: Window, shape: tuple[int, ...], state: State) -> StateDiff:
        found = Difference(shape, a.number, b.number)
        complete = True
        alike = a.strides == b.strides and a.number == b.number

        def equal(reach_a: tuple[int, int], reach_b: tuple[int, int]) -> bool:
            return alike and self._chunks.same(state, (a.region, *reach_a), (b.region, *reach_b))

        for start, lengths in blocks(shape, a, b, equal):
            reach_a, reach_b = a.reach(start, lengths)[:2], b.reach(start, lengths)[:2]
            if not self._budget.take(reach_a[1] - reach_a[0] + reach_b[1] - reach_b[0]):
                complete, self.ran_out = False, True
                break
            x, y = a.bits(state, start, lengths), b.bits(state, start, lengths)
            unequal, pointers = self._unequal(a.number, b.number, x, y)
            idle = self._idle.of(state, a.region, b.region) if unequal.any() else None
            if idle is not None:
                ignored = unequal & a.all_of(idle[0], start, lengths) & b.all_of(idle[1], start, lengths)
                found.ignored += int(ignored.sum())
                unequal = np.asarray(unequal & ~ignored)
            found.add(start, x, y, unequal, pointers)
        return found.result(state, math.prod(shape), complete)

    def _unequal(self, a: Number, b: Number, x: Any, y: Any) -> tuple[Any, int]:
        """Which elements differ, and how many do that are pointers to the same place."""
        if a != b:
            with np.errstate(invalid="ignore"):
                first, second = a.decode(x), b.decode(y)
            return np.asarray(~((first == second) | (np.isnan(first) & np.isnan(second)))), 0
        unequal = np.asarray(x != y)
        if a.floating or a.itemsize != _WORD or not unequal.any():
            return unequal, 0
        alike = self._pointers.alike(x[unequal].reshape(-1), y[unequal].reshape(-1))
        unequal[unequal] = ~alike
        return unequal, int(alike.sum())

    # --- bytes -----------------------------------------------------------------------------------

    def regions(self) -> list[RegionDiff]:
        """What no compared view holds, of each pair of regions; then those that have no partner."""
        found: list[RegionDiff] = []
        differing = 0
        for first, second in sorted(self._pairs.regions.items()):
            one = self._region(first, second) if differing < MOST_LISTED else self._unread(first, second)
            differing += not one.same
            found.append(one)
        for which, side, taken in (
            ("A", self._a, set(self._pairs.regions)), ("B", self._b, self._pairs.taken)
        ):  # fmt: skip
            for number, region in enumerate(side.manifest.regions):
                if number not in taken and region.size:
                    pair = (number, None) if which == "A" else (None, number)
                    sizes = (region.size, None) if which == "A" else (None, region.size)
                    name = region_name(side, number)
                    found.append(RegionDiff(name, pair, sizes, "", problem=f"only in {which}"))
        return found

    def _unread(self, first: int, second: int) -> RegionDiff:
        """A pair of which only the digests are compared: so many others differ already."""
        sizes = self._sizes(first, second)
        problem = "" if self._alike(first, second) else _UNREAD
        name = region_name(self._a, first)
        return RegionDiff(name, (first, second), sizes, self._pairs.how[first], problem=problem)

    def _sizes(self, first: int, second: int) -> tuple[int, int]:
        return self._a.manifest.regions[first].size, self._b.manifest.regions[second].size

    def _alike(self, first: int, second: int) -> bool:
        """Whether the digests of two regions say that they are equal."""
        a, b = self._sizes(first, second)
        return a == b and all(
            self._chunks.same(state, (first, 0, a), (second, 0, b)) for state in self.states
        )

    def _region(self, first: int, second: int) -> RegionDiff:
        a, b = self._a.manifest.regions[first], self._b.manifest.regions[second]
        name, how = region_name(self._a, first), self._pairs.how[first]
        held = self._held.get(first, [])
        if held and max(a.size, b.size) > MOST_MASKED and not self._alike(first, second):
            why = f"{NOT_COMPARED}too large outside its views"
            return RegionDiff(name, (first, second), (a.size, b.size), how, problem=why)
        if held and (problem := self._laid_out(held, a.size, b.size)):
            # What lies around a tensor in an allocator's block is others' if the blocks differ.
            return RegionDiff(name, (first, second), (a.size, b.size), how + problem)
        mask = self._mask(first, held, a.size) if held else None
        if mask is not None and mask.all():
            return RegionDiff(name, (first, second), (a.size, b.size), how)
        size = min(a.size, b.size)
        told = self._told(first, second)
        states = tuple(self._bytes(state, first, second, size, mask) for state in told)
        problem = "" if a.size == b.size else f"{a.size:,} bytes against {b.size:,}"
        return RegionDiff(name, (first, second), (a.size, b.size), how, states, problem)

    def _laid_out(self, held: list[int], size_a: int, size_b: int) -> str:
        views_a, views_b = self._a.manifest.views, self._b.manifest.views
        for number in held:
            other = views_b[self._pairs.views[number]]
            if (views_a[number].offset, views_a[number].strides) != (other.offset, other.strides):
                return "; bytes outside its views are not compared: the views are elsewhere in it"
        if size_a != size_b:
            return f"; bytes outside its views are not compared: {size_a:,} bytes against {size_b:,}"
        return "" if size_a <= MOST_MASKED else "; bytes outside its views are not compared: too large"

    def _mask(self, region: int, held: list[int], size: int) -> Any:
        """The bytes that the compared views hold."""
        mask = np.zeros(size, dtype=bool)
        for number in held:
            view = self._a.manifest.views[number]
            if 0 in view.shape:
                continue
            if math.prod(n for n, s in zip(view.shape, view.strides, strict=True) if s) > size:
                mask[:] = True  # it overlaps itself: its extent is no clue to what it holds
                continue
            shape = [n if s else 1 for n, s in zip(view.shape, view.strides, strict=True)]
            for byte in range(view.itemsize):
                inside = mask[view.offset + byte :]
                strides = [stride * view.itemsize for stride in view.strides]
                np.lib.stride_tricks.as_strided(inside, shape, strides)[...] = True
        return mask

    def _bytes(self, state: State, first: int, second: int, size: int, mask: Any) -> StateDiff:
        byte = Number("uint8", 1)
        found = Difference((size,), byte, byte)
        complete = True
        for start, stop in self._chunks.spans(state, first, second, size):
            if not self._budget.take(2 * (stop - start)):
                complete, self.ran_out = False, True
                break
            x = np.frombuffer(self._a.read(state, first, start, stop - start), dtype=np.uint8)
            y = np.frombuffer(self._b.read(state, second, start, stop - start), dtype=np.uint8)
            unequal = x != y
            if mask is not None:
                unequal &= ~mask[start:stop]
            idle = self._idle.of(state, first, second) if unequal.any() else None
            if idle is not None:
                ignored = unequal & idle[0][start:stop] & idle[1][start:stop]
                found.ignored += int(ignored.sum())
                unequal &= ~ignored
            pointers = self._drop_pointers(first, second, start, x, y, unequal)
            found.add((start,), x, y, unequal, pointers)
        elements = size if mask is None else int(size - mask[:size].sum())
        return found.result(state, elements, complete)

    def _drop_pointers(self, first: int, second: int, start: int, x: Any, y: Any, unequal: Any) -> int:
        """Take out of ``unequal`` the words that point to the same place; how many there were."""
        bases = self._a.manifest.regions[first].base, self._b.manifest.regions[second].base
        if bases[0] % _WORD != bases[1] % _WORD or not unequal.any():
            return 0
        skew = -(bases[0] + start) % _WORD
        count = (len(x) - skew) // _WORD
        if count <= 0:
            return 0
        words = [np.ascontiguousarray(one[skew : skew + count * _WORD]).view("<u8") for one in (x, y)]
        hit = np.flatnonzero(unequal[skew : skew + count * _WORD].reshape(count, _WORD).any(axis=1))
        alike = hit[self._pointers.alike(words[0][hit], words[1][hit])]
        rows = unequal[skew : skew + count * _WORD].reshape(count, _WORD)
        rows[alike] = False
        return len(alike)


def region_name(reproducer: Reproducer, number: int) -> str:
    """A region as people call it: the variable, or why it came along."""
    region = reproducer.manifest.regions[number]
    return region.name or region.reason or f"region {number}"
