"""The words that additions claim numbers from: what was there, what all add, and who is given what."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.checks.events.elements import addresses_of
from kerncap.sanitizer.concrete.events import AccessEvent, Ints, Results
from kerncap.sanitizer.concrete.values import Incomplete
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.ttir.ir import Operation

MAX_RECORDED = 1 << 24  # elements of one evaluation
Mode = Literal["zero", "word", "first", "last"]
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Words:
    """By address, in ascending order: what is there before the launch, and what all programs add."""

    places: Ints
    start: Ints
    total: Ints

    def index(self, places: Ints) -> Ints:
        found = np.searchsorted(self.places, places)
        if np.any(self.places[np.minimum(found, len(self.places) - 1)] != places):
            raise Incomplete("an atomic went elsewhere in another order")
        return found


class Counters:
    """What was added to each word."""

    def __init__(self, launch: Launch, adders: Collection[Operation]) -> None:
        self._launch = launch
        self._adders = adders
        self._seen: list[tuple[Ints, Ints, Ints]] = []
        self._widths: set[int] = set()
        self._known = True
        self._room = MAX_RECORDED

    def access(self, event: AccessEvent) -> None:
        if event.operation not in self._adders or not event.mask.any():
            return
        self._room -= int(event.mask.sum())
        if event.old is None or event.new is None or self._room < 0:
            self._known = False
            return
        self._widths.add(event.width_bytes)
        old, new = (
            np.broadcast_to(each, event.mask.shape)[event.mask].astype(np.int64)
            for each in (event.old, event.new)
        )
        self._seen.append((addresses_of(self._launch, event)[event.mask], old, new))

    def words(self) -> Words | None:
        """None if that is not known, or if a word may wrap around or shrink."""
        if not self._known or not self._seen or len(self._widths) != 1:
            return None
        (width,) = self._widths
        places, old, new = (np.concatenate(each) for each in zip(*self._seen, strict=True))
        unique, index = np.unique(places, return_inverse=True)
        if int(new.min()) < 0 or int(new.max()) * len(new) >= 1 << 62 or np.any((unique - unique[0]) % width):
            return None
        start = np.full(len(unique), np.iinfo(np.int64).max)
        total = np.zeros(len(unique), np.int64)
        np.minimum.at(start, index, old)  # who came first found what was there before
        np.add.at(total, index, new)
        limit = (1 << (8 * width - 1)) - 1
        if any(begin + more > limit for begin, more in zip(start.tolist(), total.tolist(), strict=True)):
            return None
        return Words(unique, start, total)


class Given(Results):
    """An addition gives back 0, the number of its word, or what the first or the last one gets."""

    def __init__(self, mode: Mode, words: Words, adders: Collection[Operation]) -> None:
        self._mode = mode
        self._words = words
        self._adders = adders

    def given(self, operation: Operation, places: Ints, old: Array, operand: Array) -> Array:
        if operation not in self._adders:
            return old
        index = self._words.index(places)
        if self._mode == "zero":
            return np.zeros_like(old)
        if self._mode == "word":
            return index.astype(old.dtype)
        numbers = self._words.start[index]
        if self._mode == "last":
            numbers = numbers + self._words.total[index] - operand
        return numbers.astype(old.dtype)

    def missing(self, operation: Operation) -> int:
        return -1 if self._mode == "word" and operation in self._adders else 0
