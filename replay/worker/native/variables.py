"""Variables of the kernel's module: each launcher has its own, at addresses of the driver's choice.

The states are kept in memory of the worker's; before a launch they are copied into the module, after it back.
Pointers to a variable or to a function of the module, in the parameters or in memory, are those of the
capture: they are changed for the time of the launch, at the places that held one before or after the captured
launch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..common.failures import Refused
from ..common.placed_regions import is_virtual_table
from ..cuda.device import Device
from ..cuda.image import Image
from ..cuda.textures import Textures
from ..job import JobFunction, PlacedRegion
from .moved_pointers import Move, new_address

_WORD = 8
_MOST_SITES = 65_536
Site = tuple[int, int]  # region, offset of an aligned word


class Variables:
    """The variables of one image that are regions of the launch. ``at`` says where the kernel sees them."""

    def __init__(
        self, device: Device, regions: list[PlacedRegion], own: list[int], image: Image, whole: bool,
        textures: Textures, functions: list[JobFunction], code: Sequence[Move] = (),
    ) -> None:  # fmt: skip
        """``own``: which regions they are. ``whole``: the image is the captured one, and must have them all.
        The image was just loaded: its variables have their first values. ``code``: where captured addresses
        of code lead in it; its virtual tables are its own then.

        Raises Refused, naming the variable that is missing or too small.
        """
        self._device = device
        self._regions = regions
        self._textures = textures
        self.at: dict[int, int] = {}
        self.missing: list[str] = []
        tables: list[Move] = []
        for index in own:
            region = regions[index]
            name = str(region["name"])
            found = image.variable(name)
            if found is None or found[1] < region["size"]:
                what = f"no variable {name}" if found is None else f"{name} with {found[1]:,} bytes only"
                if whole:
                    raise Refused(f"the image has {what}, the launch used {region['size']:,} bytes of it")
                self.missing.append(what)
                continue
            if code and is_virtual_table(name):
                tables.append(Move(region["captured"], region["size"], found[0]))
                continue
            self.at[index] = found[0]
        self.moves = [
            Move(regions[i]["captured"], regions[i]["size"], address)
            for i, address in self.at.items()
            if regions[i]["captured"] != address
        ]
        self.moves += tables
        self.moves += code
        moved = self._of_functions(functions)
        self.moves += moved
        self.notes = [f"addresses of {len(moved):,} functions are others here"] if moved else []
        self._back = [Move(now, size, captured) for captured, size, now in self.moves]
        self._sites: list[Site] = []

    def _of_functions(self, functions: list[JobFunction]) -> list[Move]:
        """Where each function has gone; nothing of one for which two words say different things."""
        found: dict[int, set[int]] = {}
        for word in functions:
            if word["region"] in self.at:
                place = self.at[word["region"]] + word["offset"]
                here = int(self._device.download(place, _WORD).view(np.uint64)[0])
                found.setdefault(word["captured"], set()).add(here)
        return [
            Move(captured, 1, here)
            for captured, (here, *others) in found.items()
            if here != captured and not others
        ]

    def set_sites(self, sites: list[Site]) -> None:
        """The words that point to variables. Raises Refused for more than are changed at each launch."""
        if len(sites) > _MOST_SITES:
            raise Refused(
                f"{len(sites):,} words in memory point to variables or code of the module, which are "
                "at other addresses here"
            )
        self._sites = sites

    @property
    def sites(self) -> int:
        """How many words are changed for each launch."""
        return len(self._sites)

    @property
    def indirect(self) -> bool:
        """Whether more than copies to `home` is needed for what the kernel sees."""
        return bool(self._sites) or self._textures.has_arrays

    def home(self, region: int) -> int:
        """Where the kernel sees a region."""
        return self.at.get(region, int(self._regions[region]["base"]))

    def enter(self) -> None:
        """Queue what the launch must find."""
        for region, address in self.at.items():
            self._device.copy(address, self._regions[region]["base"], self._regions[region]["size"])
        self._translate(self.moves)
        if self._textures.has_arrays:
            self._textures.enter(self._device.stream)

    def leave(self) -> None:
        """Bring back what the launch left."""
        if self._textures.has_arrays:
            self._textures.leave(self._device.stream)
        self._translate(self._back)
        for region, address in self.at.items():
            self._device.copy(self._regions[region]["base"], address, self._regions[region]["size"])

    def _translate(self, moves: list[Move]) -> None:
        if not self._sites or not moves:
            return
        size = _WORD * len(self._sites)
        buffer = self._device.allocate(size)
        places = [self.home(region) + offset for region, offset in self._sites]
        for number, place in enumerate(places):
            self._device.copy(buffer + _WORD * number, place, _WORD)
        words = self._device.download(buffer, size).view(np.uint64)
        changed = []
        for number, word in enumerate(words):
            moved = new_address(moves, int(word))
            if moved is not None:
                words[number] = moved
                changed.append(number)
        if changed:
            self._device.upload(buffer, words.view(np.uint8))
            for number in changed:
                self._device.copy(places[number], buffer + _WORD * number, _WORD)
        self._device.finish()
        self._device.free(buffer)
