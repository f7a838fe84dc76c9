"""Two kernels that were captured apart: which of their tensors are the same memory, which floats one number.

By name, or by position if a kernel's arguments have none; by what the user says; and where names differ, by
equal contents or the only size that fits. Integers have to agree, or are the first's: both run on them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kerncap.errors import UsageError
from kerncap.sanitizer.equality.kernel_runs import Kernel, kernel_of, storage_names
from kerncap.sanitizer.launch import (
    Argument,
    Contents,
    DescriptorArgument,
    Launch,
    ScalarArgument,
    TensorArgument,
    Unwritten,
)
from kerncap.sanitizer.paged_bytes import PagedBytes

_FLOATS = ("float", "bfloat")
_MOST_COMPARED = 1 << 28  # bytes, of contents


@dataclass(frozen=True)
class Matched:
    """The second's launches, with names and integers of the first where these are the same.

    ``same``: what was matched under two names. ``names``: of its storages, those of the first by their names.
    ``results``: the same of what they hold at the end.
    """

    launches: tuple[Launch, ...]
    names: tuple[str, ...]
    results: tuple[str, ...]
    same: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def kernel(self) -> Kernel:
        return replace(kernel_of(*self.launches), names=self.names, results=self.results)


Launches = Sequence[Launch]  # of one kernel, with one list of storages


def match(
    first_launches: Launches,
    second_launches: Launches,
    given: Mapping[str, str],
    labels: tuple[str, str],
    *,
    left: Mapping[str, str] | None = None,
) -> Matched:
    """The second in words of the first. ``given``: names of arguments of the first and of the second.

    ``left``: the same of tensors whose contents at the end are compared, whatever they held before.
    Raises UsageError for arguments that are not of one size, and for numbers that differ.
    """
    here, there = _named(first_launches), _named(second_launches)
    first, second = first_launches[0], second_launches[0]
    nameless = next((label for label, one in zip(labels, (here, there), strict=True) if _nameless(one)), "")
    in_order = bool(nameless) and len(here) == len(there)
    pairs = _by_name(here, there, given, labels, in_order=in_order)
    pairs |= _by_memory(first, second, here, there, pairs)
    tensors = [(here[x], there[y]) for x, y in pairs.items()]
    same_storage = _storages(first, second, tensors, labels)
    if not same_storage:
        raise UsageError(
            f"no tensor of {labels[1]} has the name of one of {labels[0]} ({_listed(here)}; "
            f"{_listed(there)}); say which are the same with --same NAME=NAME"
        )
    for x, y in tensors:
        if isinstance(x, ScalarArgument) and isinstance(y, ScalarArgument) and x.value != y.value:
            raise UsageError(
                f"{x.name}: it is {x.value} in {labels[0]} and {y.value} in {labels[1]}; capture both with "
                "the same numbers"
            )
    back = {y: x for x, y in pairs.items()}
    contents = _OfFirst(first.contents, second.contents, {y: x for x, y in same_storage.items()})
    renamed = tuple(
        replace(
            launch,
            arguments=tuple(_renamed(one, back, here, labels[1]) for one in launch.arguments),
            contents=contents,
        )
        for launch in second_launches
    )
    of_first = storage_names(first)
    mine = {y: of_first[x] for x, y in same_storage.items()}
    names = tuple(
        mine.get(index) or _other(name, of_first, labels[1])
        for index, name in enumerate(storage_names(second))
    )
    notes = [
        f"{one.name} holds other {'integers' if one.dtype else 'contents'} in {labels[1]}: both ran on those "
        f"of {labels[0]}"
        for one in _other_integers(first, second, tensors)
    ]
    if in_order:
        notes.append(f"arguments in the same position are the same: {nameless} has no names for its own")
    results, more = _results(first, second, here, there, left or {}, names, labels)
    return Matched(renamed, names, results, [(x, y) for x, y in pairs.items() if x != y], [*notes, *more])


def _named(launches: Launches) -> dict[str, Argument]:
    return {one.name: one for launch in launches for one in launch.arguments}


def _nameless(named: Iterable[str]) -> bool:
    """Whether arguments have only numbers, as those of CUDA do if neither name nor source says more."""
    return all(re.fullmatch(r"arg\d+", name) for name in named)


def _results(
    first: Launch,
    second: Launch,
    here: Mapping[str, Argument],
    there: Mapping[str, Argument],
    left: Mapping[str, str],
    names: Sequence[str],
    labels: tuple[str, str],
) -> tuple[tuple[str, ...], list[str]]:
    """What the second's storages are called at the end, and what is to be said of it."""
    _check_known(here, there, left, labels, "--result")
    found, notes = list(names), []
    moved = _storages(first, second, [(here[x], there[y]) for x, y in left.items()], labels)
    for mine, theirs in moved.items():
        name = storage_names(first)[mine]
        found = [_other(one, [name], labels[1]) if one == name else one for one in found]
        found[theirs] = name
    for x, y in left.items():
        notes.append(f"what {labels[1]} leaves in {y} is the {x} of {labels[0]}")
    return tuple(found), notes


def _tensor(one: Argument | None) -> TensorArgument | None:
    found = one.tensor if isinstance(one, DescriptorArgument) else one
    return found if isinstance(found, TensorArgument) else None


def _listed(named: Mapping[str, Argument]) -> str:
    return ", ".join(name for name, one in named.items() if _tensor(one) is not None) or "none"


def _by_name(
    here: Mapping[str, Argument],
    there: Mapping[str, Argument],
    given: Mapping[str, str],
    labels: tuple[str, str],
    *,
    in_order: bool,
) -> dict[str, str]:
    """``in_order``: by position instead."""
    _check_known(here, there, given, labels, "--same")
    alike = (
        dict(zip(here, there, strict=True)) if in_order else {name: name for name in here if name in there}
    )
    taken = set(given.values())
    return {**{x: y for x, y in alike.items() if x not in given and y not in taken}, **given}


def _check_known(
    here: Mapping[str, Argument],
    there: Mapping[str, Argument],
    given: Mapping[str, str],
    labels: tuple[str, str],
    option: str,
) -> None:
    for names, side, label in ((given, here, labels[0]), (given.values(), there, labels[1])):
        unknown = [name for name in names if name not in side]
        if unknown:
            raise UsageError(
                f"{option}: {label} has no argument {unknown[0]}; there are {', '.join(side) or 'none'}"
            )
    if len(set(given.values())) < len(given):
        raise UsageError(f"{option}: an argument of {labels[1]} is named twice; each is one of {labels[0]}'s")


def _by_memory(
    first: Launch,
    second: Launch,
    here: Mapping[str, Argument],
    there: Mapping[str, Argument],
    known: Mapping[str, str],
) -> dict[str, str]:
    """Tensors whose names differ: of equal contents, then of the only size that fits."""
    found: dict[str, str] = {}
    signs: tuple[Callable[[Launch, TensorArgument], object], ...] = (_contents, lambda _, one: None)
    for sign in signs:
        left: list[dict[object, list[str]]] = []
        for launch, side, taken in (
            (first, here, {*known, *found}),
            (second, there, {*known.values(), *found.values()}),
        ):
            by_sign: dict[object, list[str]] = {}
            seen = {tensor.storage for name in taken if (tensor := _tensor(side.get(name))) is not None}
            for name, one in side.items():
                tensor = _tensor(one)
                if tensor is not None and tensor.storage not in seen:
                    seen.add(tensor.storage)
                    key: object = _layout(launch, tensor), sign(launch, tensor)
                    by_sign.setdefault(key, []).append(name)
            left.append(by_sign)
        for key, names in left[0].items():
            others = left[1].get(key, [])
            if len(names) == len(others) == 1:
                found[names[0]] = others[0]
    return found


def _contents(launch: Launch, one: TensorArgument) -> object:
    """Of a tensor's storage; something of its own if they are not known, too many or all zero."""
    held = None
    if launch.storages[one.storage].size_bytes <= _MOST_COMPARED:
        held = launch.contents.read(one.storage)
    return hashlib.sha256(held.whole().data).digest() if held is not None and held.whole().any() else object()


def _storages(
    first: Launch, second: Launch, pairs: Iterable[tuple[Argument, Argument]], labels: tuple[str, str]
) -> dict[int, int]:
    """Storages of the first by those of the second that are the same memory. Raises UsageError."""
    found: dict[int, int] = {}
    for one, other in pairs:
        x, y = _tensor(one), _tensor(other)
        if (x is None) != (y is None):
            raise UsageError(
                f"{one.name}: only one of {labels[0]} and {labels[1]} takes a tensor for it; say with "
                "--same if it is another argument"
            )
        if x is None or y is None:
            continue
        a, b = _layout(first, x), _layout(second, y)
        if a[1:] != b[1:] or x.dtype != y.dtype and x.dtype and y.dtype:
            raise UsageError(
                f"{one.name}: it is {_words(x, a)} in {labels[0]} and {_words(y, b)} in {labels[1]}; capture "
                "both with the same shapes"
            )
        if found.setdefault(x.storage, y.storage) != y.storage or list(found.values()).count(y.storage) > 1:
            raise UsageError(
                f"{one.name}: it shares memory with another tensor in only one of {labels[0]} and "
                f"{labels[1]}; capture both with the same tensors"
            )
    return found


def _layout(launch: Launch, one: TensorArgument) -> tuple[str, int, int]:
    """Type (nothing if it is not known), bytes of its memory, byte of its first element in it."""
    storage = launch.storages[one.storage]
    return one.dtype, storage.size_bytes, one.address - storage.address


def _words(one: TensorArgument, layout: tuple[str, int, int]) -> str:
    dtype, size, offset = layout
    return f"{dtype or 'bytes'}[{', '.join(map(str, one.shape))}] at byte {offset:,} of {size:,}"


def _renamed(one: Argument, back: Mapping[str, str], taken: Mapping[str, Argument], label: str) -> Argument:
    return replace(one, name=back.get(one.name) or _other(one.name, taken, label))


def _other(name: str, taken: Iterable[str], label: str) -> str:
    """A name of the second that the first does not have."""
    return f"{name} of {label}" if name in taken else name


def _other_integers(
    first: Launch, second: Launch, pairs: Iterable[tuple[Argument, Argument]]
) -> Iterable[TensorArgument]:
    """Those that may hold integers, and hold others."""
    for one, other in pairs:
        x, y = _tensor(one), _tensor(other)
        if x is None or y is None or x.dtype.startswith(_FLOATS):
            continue
        a, b = first.contents.read(x.storage), second.contents.read(y.storage)
        if a is not None and b is not None and (a.whole() != b.whole()).any():
            yield x


class _OfFirst:
    """What storages hold: of those that are the first's, what these do."""

    def __init__(self, first: Contents, second: Contents, same: Mapping[int, int]) -> None:
        self._first, self._second, self._same = first, second, same

    def read(self, storage: int) -> PagedBytes | None:
        mine = self._same.get(storage)
        return self._second.read(storage) if mine is None else self._first.read(mine)

    def unwritten(self, storage: int) -> Unwritten | None:
        return None
