"""Launches that run one after another as one kernel: one list of storages, and one meaning of each name."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from kerncap.errors import UsageError
from kerncap.sanitizer.launch import (
    Argument,
    DescriptorArgument,
    Launch,
    ScalarArgument,
    Storage,
    TensorArgument,
    Unwritten,
)
from kerncap.sanitizer.paged_bytes import PagedBytes


def in_sequence(launches: Sequence[Launch], label: str) -> tuple[Launch, ...]:
    """The same launches; memory of one address and size is the same in all of them.

    A name that is something else in another of them is "NAME of launch NUMBER".
    Raises UsageError for memory that two launches divide in two ways.
    """
    if len(launches) == 1:
        return tuple(launches)
    storages: list[Storage] = []
    first_of: list[tuple[int, int]] = []  # launch and index there
    numbers: dict[tuple[int, int], int] = {}
    places: list[list[int]] = []
    for at, launch in enumerate(launches):
        mine = []
        for index, one in enumerate(launch.storages):
            number = numbers.setdefault((one.address, one.size_bytes), len(storages))
            if number == len(storages):
                _check_apart(one, storages, label)
                storages.append(one)
                first_of.append((at, index))
            mine.append(number)
        places.append(mine)
    moved = [
        [_moved(one, mine) for one in launch.arguments] for launch, mine in zip(launches, places, strict=True)
    ]
    arguments = _renamed(moved)
    named = _named(storages, arguments)
    contents = _OfFirst(launches, first_of)
    return tuple(
        replace(launch, arguments=tuple(mine), storages=named, contents=contents)
        for launch, mine in zip(launches, arguments, strict=True)
    )


def _check_apart(one: Storage, others: Sequence[Storage], label: str) -> None:
    for other in others:
        first, end = max(one.address, other.address), min(_end(one), _end(other))
        if first < end:
            raise UsageError(
                f"{label}: {one.name or 'a tensor'} and {other.name or 'a tensor'} of two launches share a "
                "part of their memory; capture them without an allocator that reuses it"
            )


def _end(one: Storage) -> int:
    return one.address + one.size_bytes


def _moved(one: Argument, places: Sequence[int]) -> Argument:
    if isinstance(one, TensorArgument):
        return replace(one, storage=places[one.storage])
    if isinstance(one, DescriptorArgument):
        return replace(one, tensor=replace(one.tensor, storage=places[one.tensor.storage]))
    return one


def _renamed(arguments: Sequence[Sequence[Argument]]) -> list[list[Argument]]:
    """With the number of the launch in which a thing is met first, if its name has several."""
    first: dict[str, dict[object, int]] = {}
    for at, given in enumerate(arguments):
        for one in given:
            first.setdefault(one.name, {}).setdefault(_place(one), at + 1)
    return [
        [
            one
            if len(first[one.name]) == 1
            else replace(one, name=f"{one.name} of launch {first[one.name][_place(one)]}")
            for one in given
        ]
        for given in arguments
    ]


def _place(one: Argument) -> object:
    """What an argument is: a place in memory, or a number."""
    tensor = one.tensor if isinstance(one, DescriptorArgument) else one
    if isinstance(tensor, TensorArgument):
        return tensor.storage, tensor.address, tensor.dtype
    return (type(one.value), one.value) if isinstance(one, ScalarArgument) else one


def _named(storages: Sequence[Storage], arguments: Sequence[Sequence[Argument]]) -> tuple[Storage, ...]:
    """By the first argument in each; those that have no argument keep their name if it is free."""
    names: dict[int, str] = {}
    for one in itertools.chain.from_iterable(arguments):
        tensor = one.tensor if isinstance(one, DescriptorArgument) else one
        if isinstance(tensor, TensorArgument):
            names.setdefault(tensor.storage, one.name)
    return tuple(
        replace(one, name=names.get(number) or ("" if one.name in names.values() else one.name))
        for number, one in enumerate(storages)
    )


class _OfFirst:
    """What storages hold before the first launch that has them."""

    def __init__(self, launches: Sequence[Launch], first_of: Sequence[tuple[int, int]]) -> None:
        self._launches, self._first_of = launches, first_of

    def read(self, storage: int) -> PagedBytes | None:
        launch, index = self._first_of[storage]
        return self._launches[launch].contents.read(index)

    def unwritten(self, storage: int) -> Unwritten | None:
        return None
