"""Launches in a row as one space: a configuration has the parameters of them all, by their names in the row.

``BLOCK`` if no other launch has that name, ``rows.BLOCK`` if others have it, and ``rows[1].BLOCK`` of the
second launch of a kernel that is launched several times. A person's name may leave out the number, or the
launch: it means the parameter of each launch that it fits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kerncap.errors import UsageError
from kerncap.replay.tuning.constraints import parse_constraint
from kerncap.replay.tuning.point import Point, Scalar
from kerncap.replay.tuning.space import NOT_IN_FILE, LaunchSpace, Space, Wishes, build, options_of
from kerncap.replay.tuning.space_file import SpaceFile

_IDENTIFIER = r"[^\W\d]\w*"
NAME = rf"(?:({_IDENTIFIER})(?:\[(\d{{1,4}})\])?\.)?({_IDENTIFIER})"  # launch, number, parameter
T = TypeVar("T")


class LaunchRow:
    """Launches that are configured together. ``compiled``: not by the interpreter."""

    def __init__(self, spaces: Sequence[LaunchSpace], compiled: bool) -> None:
        self._spaces = spaces
        self._compiled = compiled
        kernels = [space.manifest.kernel.name for space in spaces]
        self._places = [(kernel, kernels[:number].count(kernel)) for number, kernel in enumerate(kernels)]
        launched = Counter(kernels)
        self._launches = [
            f"{kernel}[{place}]" if launched[kernel] > 1 else kernel for kernel, place in self._places
        ]
        alone = [build([space], Wishes(), compiled) for space in spaces]
        self._tunable = [
            {*options_of(space), *(p.name for p in found.parameters), *found.pinned}
            for space, found in zip(spaces, alone, strict=True)
        ]
        have = Counter[str]()
        for space, names in zip(spaces, self._tunable, strict=True):
            have.update({*names, *space.arguments})
        self._names = [
            {
                own: own if have[own] == 1 else f"{launch}.{own}"
                for own in dict.fromkeys([*space.arguments, *sorted(names)])
            }
            for launch, space, names in zip(self._launches, spaces, self._tunable, strict=True)
        ]
        self._whose = {
            name: (launch, own)
            for launch, names in zip(self._launches, self._names, strict=True)
            for own, name in names.items()
        }

    def split(self, given: Point) -> dict[str, Point]:
        """A configuration's part of each launch, by the launch, in the launch's own names."""
        found: dict[str, dict[str, Scalar]] = {launch: {} for launch in self._launches}
        for name, value in given.items():
            launch, own = self._whose[name]
            found[launch][own] = value
        return dict(found)

    def space(self, wishes: Wishes) -> Space:
        """The space of all launches. Raises UsageError for wishes that name nothing."""
        files = self._of_launches("--space", wishes.file.parameters)
        pins = self._of_launches("--pin", wishes.pins)
        bounds = self._of_launches("--bound", wishes.bounds)
        made = [
            build([space], Wishes(SpaceFile(file, (), wishes.file.only_listed), pin, bound), self._compiled)
            for space, file, pin, bound in zip(self._spaces, files, pins, bounds, strict=True)
        ]
        if wishes.file.parameters and not wishes.file.only_listed:
            for each in made:
                unnamed = [p.name for p in each.parameters if not p.given]
                each.pinned |= dict.fromkeys(unnamed, NOT_IN_FILE)
                each.parameters = [p for p in each.parameters if p.given]
        scope: dict[str, Any] = {}
        for space, names, tunable in zip(self._spaces, self._names, self._tunable, strict=True):
            captured = {own: value for own in tunable if (value := space.captured(own)) is not None}
            scope |= {names[own]: value for own, value in {**captured, **space.scalars}.items()}
        known = sorted({*scope, *(names[own] for names, some in self._each() for own in some)})
        return Space(
            [
                replace(each, name=names[each.name])
                for names, space in zip(self._names, made, strict=True)
                for each in space.parameters
            ],
            [parse_constraint(text, known) for text in wishes.file.constraints]
            + [parse_constraint(text, known, forbids=True) for text in wishes.forbids],
            [],
            self._pinned(made),
            list(dict.fromkeys(note for each in made for note in each.notes)),
            scopes=[scope],
        )

    def _each(self) -> list[tuple[dict[str, str], set[str]]]:
        return list(zip(self._names, self._tunable, strict=True))

    def _of_launches(self, option: str, given: Mapping[str, T]) -> list[dict[str, T]]:
        """What is said of each launch, in its own names."""
        found: list[dict[str, T]] = [{} for _ in self._spaces]
        for name, value in given.items():
            meant = self._meant(name)
            if not meant:
                known = sorted(names[own] for names, some in self._each() for own in some)
                raise UsageError(f"{option}: no launch has a parameter {name}; there are {', '.join(known)}")
            for number, own in meant:
                if own in found[number]:
                    raise UsageError(
                        f"{option}: {self._names[number][own]} is given twice, also as {name}; give it once"
                    )
                found[number][own] = value
        return found

    def _meant(self, name: str) -> list[tuple[int, str]]:
        said = re.fullmatch(NAME, name)
        if said is None:
            return []
        kernel, place, own = said.groups()
        return [
            (number, own)
            for number, (of_kernel, its_place) in enumerate(self._places)
            if own in self._tunable[number]
            and kernel in (None, of_kernel)
            and (place is None or int(place) == its_place)
        ]

    def _pinned(self, made: Sequence[Space]) -> dict[str, str]:
        """What is not tuned, by the short name if that holds of each launch, for the same reason."""
        found: dict[str, str] = {}
        for own in dict.fromkeys(own for space in made for own in space.pinned):
            reasons = {
                names[own]: space.pinned.get(own, "")
                for (names, some), space in zip(self._each(), made, strict=True)
                if own in some
            }
            if len(set(reasons.values())) == 1:
                reasons = {own: next(iter(reasons.values()))}
            found |= {name: reason for name, reason in reasons.items() if reason}
        return found
