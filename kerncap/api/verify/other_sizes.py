"""Other sizes of a captured launch: integer arguments that are sizes of its tensors, changed together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from kerncap.api.verify.derived_launch import STRIDE_NAME
from kerncap.format import schema
from kerncap.replay.tuning.grid import GridUnknown, arguments_of, plain, recompute

Grid = tuple[int, int, int]
_MOST_SIZES = 4  # different ones of a launch
_FEW_SIZES = 3


@dataclass(frozen=True)
class Size:
    """One variant. ``remark`` is what a reader should know of its grid."""

    name: str
    arguments: tuple[tuple[str, int], ...]
    grid: Grid | None
    remark: str


def sizes(manifest: schema.Manifest) -> Iterator[Size]:
    """Variants with one size lowered: by one, to about half, to a whole number of blocks, and to one.

    At half there is one element more than a whole number of blocks, if a block is smaller.
    """
    for value, names in list(size_arguments(manifest).items())[:_MOST_SIZES]:
        for lowered in _lowered(value, manifest):
            yield _size(manifest, value, lowered, names)


def halves(manifest: schema.Manifest) -> Iterator[Size]:
    """Variants with one size at about half, of the first few."""
    for value, names in list(size_arguments(manifest).items())[:_FEW_SIZES]:
        if value > 2:
            yield _size(manifest, value, _half(value, _tiles(manifest)), names)


def untried_integers(manifest: schema.Manifest, all_sizes: bool = False) -> list[str]:
    """Names of the integers that are passed and keep their values in `halves`, or in all `sizes`."""
    variants = sizes(manifest) if all_sizes else halves(manifest)
    tried = {name for size in variants for name, _ in size.arguments}
    return [
        argument.name
        for argument in manifest.arguments
        if argument.role == "runtime"
        and isinstance(argument.value, schema.IntValue)
        and argument.name not in tried
    ]


def _size(manifest: schema.Manifest, value: int, lowered: int, names: list[str]) -> Size:
    arguments = tuple((name, lowered) for name in names)
    grid = grid_of(manifest, value, lowered, dict(arguments))
    remark = " (with the captured grid)" if grid is None and manifest.launch.grid_source else ""
    text = ", ".join(f"{name} = {lowered}" for name in names)
    return Size(text, arguments, grid, remark)


def size_arguments(manifest: schema.Manifest) -> dict[int, list[str]]:
    """Names of the arguments by the size that they are; strides are none, whatever number they are."""
    known: set[int] = set()
    for view in manifest.views:
        known.update(view.shape)
        known.add(prod(view.shape))
    found: dict[int, list[str]] = {}
    for argument in manifest.arguments:
        value = argument.value
        if (
            argument.role == "runtime"
            and isinstance(value, schema.IntValue)
            and int(value.value) > 1
            and int(value.value) in known
            and not STRIDE_NAME.search(argument.name)
        ):
            found.setdefault(int(value.value), []).append(argument.name)
    return found


def _half(value: int, tiles: set[int]) -> int:
    """About half, with a remainder of 1 by the largest tile that is smaller."""
    tile = max((tile for tile in tiles if 1 < tile <= value // 2), default=1)
    return value // 2 // tile * tile + 1


def _tiles(manifest: schema.Manifest) -> set[int]:
    return {
        int(argument.value.value)
        for argument in manifest.arguments
        if argument.role == "constexpr" and isinstance(argument.value, schema.IntValue)
    }


def _lowered(value: int, manifest: schema.Manifest) -> list[int]:
    tiles = _tiles(manifest)
    whole = {value // tile * tile for tile in tiles if 1 < tile < value} - {value}
    wanted = [value - 1, _half(value, tiles), *sorted(whole, reverse=True)[:1], 1]
    return [n for n in dict.fromkeys(wanted) if 0 < n < value]


def grid_of(manifest: schema.Manifest, value: int, other: int, arguments: dict[str, int]) -> Grid | None:
    """The grid that the application would choose for another size; None if that can't be known."""
    source = manifest.launch.grid_source
    if source is None:
        return None
    try:
        known = arguments_of(manifest)
        if recompute(source, known) != manifest.launch.grid:
            return None
        bindings: dict[str, Any] = {
            name: other for name, bound in source.bindings.items() if plain(bound) == value
        }
        return recompute(source, {**known, **arguments}, bindings)
    except GridUnknown:
        return None
