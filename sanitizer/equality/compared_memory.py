"""What two runs left in the memory that both have: where it is compared, and where integers differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.equality.float_memory import FloatStorage
from kerncap.sanitizer.equality.kernel_runs import Kernel, Ran
from kerncap.sanitizer.equality.numbers import Ints, NotModelled
from kerncap.sanitizer.paged_bytes import Bytes


def pairs(first: Kernel, second: Kernel) -> list[tuple[int, int]]:
    """Storages whose contents are compared at the end."""
    return _of_one_name(first.results, second.results)


def _of_one_name(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int]]:
    there = {name: index for index, name in enumerate(second)}
    return [(index, there[name]) for index, name in enumerate(first) if name in there]


def check_types(first: Kernel, second: Kernel, a: Ran, b: Ran) -> None:
    """Raise NotModelled if two kernels take the same memory for elements of two types."""
    for one, other in {*_of_one_name(first.names, second.names), *pairs(first, second)}:
        held, against = a.floats.storages.get(one), b.floats.storages.get(other)
        mixed = one in a.floats.integers and against or other in b.floats.integers and held
        if mixed or held and against and held.element != against.element:
            raise NotModelled(f"they take {first.names[one]} for different types")


def written(a: Ran, b: Ran, pair: tuple[int, int]) -> Ints:
    """Elements of a storage that count and that either stored floats to; both take it for one type."""
    held = [
        ran.floats.storages[index]
        for ran, index in zip((a, b), pair, strict=True)
        if index in ran.floats.storages
    ]
    if not held:
        return np.zeros(0, dtype=np.int64)
    found = np.flatnonzero(np.logical_or.reduce([one.written for one in held]))
    return found if a.part is None else found[a.part.counts(pair[0], found * (held[0].element.width // 8))]


def both(a: Ran, b: Ran, pair: tuple[int, int]) -> tuple[FloatStorage, FloatStorage]:
    """A storage that either stored floats to, as both left it."""
    held = [ran.floats.storages.get(index) for ran, index in zip((a, b), pair, strict=True)]
    [element, *_] = [one.element for one in held if one is not None]
    first, second = (ran.floats.of(index, element) for ran, index in zip((a, b), pair, strict=True))
    return first, second


def integers_stored(
    a: Ran, b: Ran, same: Sequence[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int], Ints]]:
    """Storages that either stored integers to, and the bytes of them that count, page by page."""
    changed = [ran.plan.memory.changed() for ran in (a, b)]
    for pair in same:
        runs = {
            (start, start + len(after))
            for stored, index in zip(changed, pair, strict=True)
            for start, _, after in stored.get(index, [])
        }
        for start, end in sorted(runs):
            found = np.arange(start, end, dtype=np.int64)
            yield pair, found if a.part is None else found[a.part.counts(pair[0], found)]


def integers_that_differ(
    a: Ran, b: Ran, same: Sequence[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int], int]]:
    """Storages, and the first byte, where what was stored of integers differs."""
    met: set[int] = set()
    for pair, places in integers_stored(a, b, same):
        if pair[0] in met or not places.size:
            continue
        here, there = (
            _bytes(ran.plan.memory, index, places) for ran, index in zip((a, b), pair, strict=True)
        )
        unlike = np.flatnonzero(here != there)
        if unlike.size:
            met.add(pair[0])
            yield pair, int(places[unlike[0]])


def _bytes(memory: Memory, storage: int, places: Ints) -> Bytes:
    held = memory.storage(storage)
    held.need(places, 1)
    return held.bytes[places]
