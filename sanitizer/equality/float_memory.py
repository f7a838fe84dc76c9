"""What a launch's memory holds of floats, as `Numbers`: inputs drawn by their place, then what is stored."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kerncap.sanitizer.concrete.memory import NOWHERE, Memory
from kerncap.sanitizer.equality.numbers import Array, Bools, Ints, NotModelled, Numbers, named
from kerncap.sanitizer.launch import DescriptorArgument, Launch, TensorArgument
from kerncap.sanitizer.paged_bytes import zeros
from kerncap.sanitizer.ttir.ir import FloatType

_FLOATS = ("float", "bfloat")  # how torch's names of types begin


class FloatStorage:
    """One storage as elements of one type."""

    def __init__(self, name: str, count: int, element: FloatType, numbers: Numbers) -> None:
        self.name = name
        self.element = element
        self.count = count
        self._numbers = numbers
        self._key = named(name)
        self._stored = zeros(count * numbers.dtype.itemsize).view(numbers.dtype)
        self.written: Bools = zeros(count).view(np.bool_)

    def read(self, places: Ints) -> Array:
        here = self.written[places]
        if here.all():
            return self._stored[places]
        drawn = self._numbers.drawn(self._key, places, self.element.name)
        return np.where(here, self._stored[places], drawn) if here.any() else drawn

    def write(self, places: Ints, words: Array) -> None:
        self._stored[places] = words
        self.written[places] = True


class FloatMemory:
    """``names``: of the launch's storages; the same elements of the same name are drawn alike.

    ``before``: of a launch that ran before on the same storages, which is continued.
    """

    def __init__(
        self,
        launch: Launch,
        memory: Memory,
        numbers: Numbers,
        names: Sequence[str],
        before: FloatMemory | None = None,
    ) -> None:
        self._launch, self._memory, self._numbers, self._names = launch, memory, numbers, names
        self.storages: dict[int, FloatStorage] = {} if before is None else before.storages
        self.integers: set[int] = set() if before is None else before.integers
        # Storages with hashes of integers, which are compared and nothing else, and their sizes in bytes.
        self._hashes: dict[int, int] = {} if before is None else before._hashes
        tensors = (one.tensor if isinstance(one, DescriptorArgument) else one for one in launch.arguments)
        self._of_floats: set[int] = {
            one.storage
            for one in tensors
            if isinstance(one, TensorArgument) and one.dtype.startswith(_FLOATS)
        } | (set() if before is None else before._of_floats)

    def integers_at(self, storages: Sequence[int]) -> None:
        """Integers are read or stored there."""
        for one in storages:
            if one in self._of_floats or one in self.storages:
                raise NotModelled(f"{self._names[one]} holds floats, which are taken for integers")
            self.integers.add(one)

    def hashes_at(self, storages: Sequence[int], size_bytes: int, are_hashes: bool) -> None:
        """Integers of a size are stored there."""
        for one in storages:
            if are_hashes:
                self._hashes.setdefault(one, size_bytes)
            if self._hashes.get(one, size_bytes) != size_bytes:
                raise NotModelled(
                    f"{self._names[one]} holds places of largest or smallest numbers, of two types"
                )

    def check_read(self, storages: Sequence[int]) -> None:
        """Raise NotModelled if hashes are there."""
        for one in storages:
            if one in self._hashes:
                raise NotModelled(
                    f"{self._names[one]} holds places of largest or smallest numbers, which are read again"
                )

    def of(self, storage: int, element: FloatType) -> FloatStorage:
        if storage == NOWHERE:
            raise NotModelled("an address in no tensor's memory")
        found = self.storages.get(storage)
        if found is None:
            if storage in self.integers:
                raise NotModelled(f"{self._names[storage]} holds integers, which are taken for floats")
            count = self._launch.storages[storage].size_bytes // (element.width // 8)
            found = self.storages[storage] = FloatStorage(self._names[storage], count, element, self._numbers)
        elif found.element != element:
            raise NotModelled(f"{found.name} holds {found.element.name} and {element.name}")
        return found

    def located(
        self, argument: int | Ints, offsets: Ints, mask: Bools | None, element: FloatType
    ) -> list[tuple[FloatStorage, Ints, Bools | None]]:
        """By storage: places of the elements that are accessed, and which those are (None: all)."""
        storage, inside = self._memory.locate(argument, offsets)
        width = element.width // 8
        parts = []
        for one in [storage] if isinstance(storage, int) else np.unique(storage):
            here = mask
            if not isinstance(storage, int):
                here = storage == one if mask is None else (storage == one) & mask
            at = inside.reshape(-1) if here is None else inside[here]
            if not at.size:
                continue
            held = self.of(int(one), element)
            places = at // width
            if (at % width).any() or places.min() < 0 or places.max() >= held.count:
                raise NotModelled(f"an access outside of {held.name}, or between its elements")
            parts.append((held, places, here))
        return parts

    def any_stored(self, argument: int | Ints, offsets: Ints, mask: Bools | None, element: FloatType) -> bool:
        """Whether something was stored at one of these places."""
        located = self.located(argument, offsets, mask, element)
        return any(bool(held.written[places].any()) for held, places, _ in located)

    def gather(self, argument: int | Ints, offsets: Ints, mask: Bools | None, element: FloatType) -> Array:
        """Zeros where nothing is read."""
        found = np.zeros(offsets.shape, dtype=self._numbers.dtype)
        for held, places, here in self.located(argument, offsets, mask, element):
            words = held.read(places)
            if here is None:
                return words.reshape(offsets.shape)
            found[here] = words
        return found

    def scatter(
        self, argument: int | Ints, offsets: Ints, mask: Bools | None, words: Array, element: FloatType
    ) -> None:
        for held, places, here in self.located(argument, offsets, mask, element):
            held.write(places, words.reshape(-1) if here is None else words[here])
