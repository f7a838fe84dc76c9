"""A launch from a reproducer: its TTIR, its arguments, the memory before it. Nothing in it is executed."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from kerncap.format import Reproducer, schema
from kerncap.format.memory_index import State
from kerncap.sanitizer.binding import expand
from kerncap.sanitizer.launch import (
    Argument,
    DescriptorArgument,
    Launch,
    PointerArgument,
    ScalarArgument,
    Storage,
    TensorArgument,
    Unwritten,
)
from kerncap.sanitizer.paged_bytes import Bytes, PagedBytes, Run
from kerncap.sanitizer.sources.source_lines import texts_of
from kerncap.sanitizer.ttir import read_module


class NoTtir(Exception):
    """The reproducer holds no TTIR; the text says why and what to do."""


@dataclass(frozen=True)
class _Piece:
    """Bytes of a region that are bytes of a storage."""

    region: int
    offset: int
    at: int  # in the storage
    size: int


class ReproducerContents:
    """The regions' bytes before the launch, read when they are asked for. The reproducer stays open."""

    # In place of the reproducer's: fills an array with the bytes of a region from an offset on.
    _instead: Callable[[int, int, memoryview], None] | None = None

    def __init__(
        self, reproducer: Reproducer, pieces: Sequence[Sequence[_Piece]], sizes: Sequence[int]
    ) -> None:
        self._reproducer = reproducer
        self._pieces = pieces  # per storage
        self._sizes = sizes
        self._read: dict[int, PagedBytes] = {}

    def read(self, storage: int) -> PagedBytes | None:
        if self._reproducer.manifest.closure.without_values:
            return None
        known = self._read.get(storage)
        if known is None:
            known = self._read[storage] = self._paged("pre", storage)
        return known

    def after(self, storage: int) -> PagedBytes:
        """The bytes of a storage after the launch."""
        return self._paged("post", storage)

    def instead(self, read_into: Callable[[int, int, memoryview], None]) -> ReproducerContents:
        """Other bytes in the same places: ``read_into(region, offset, target)`` reads them."""
        found = ReproducerContents(self._reproducer, self._pieces, self._sizes)
        found._instead = read_into
        return found

    def _paged(self, state: State, storage: int) -> PagedBytes:
        page = self._reproducer.index.chunk_bytes
        return PagedBytes.fetched(self._sizes[storage], partial(self._fetch, state, storage), page)

    def _fetch(self, state: State, storage: int, runs: Sequence[Run], data: Bytes) -> None:
        for start, end in runs:
            for piece in self._pieces[storage]:
                low, high = max(start, piece.at), min(end, piece.at + piece.size)
                if low < high:
                    target = data.data[low:high]
                    offset = piece.offset + low - piece.at
                    if self._instead is not None:
                        self._instead(piece.region, offset, target)
                    else:
                        self._reproducer.read_into(state, piece.region, offset, target)

    def unwritten(self, storage: int) -> Unwritten | None:
        """Not known: a reproducer holds bytes, not who wrote them."""
        return None


def launch_from_reproducer(
    reproducer: Reproducer, ttir: str | None = None, target: str | None = None
) -> Launch:
    """The reproducer's launch; ``ttir`` stands in for what it holds, compiled for ``target``.

    Raises NoTtir without any TTIR, FormatError for damaged files, BindingError for
    arguments that do not fit.
    """
    manifest = reproducer.manifest
    text = ttir if ttir is not None else ttir_of(reproducer)
    memory = ManifestMemory(manifest)
    function = read_module(text).kernel
    named = dict(named_arguments(manifest, memory))
    return Launch(
        kernel=manifest.kernel.name,
        ttir=text,
        grid=manifest.launch.grid,
        arguments=expand(function, named),
        storages=memory.storages,
        contents=ReproducerContents(reproducer, memory.pieces, [one.size_bytes for one in memory.storages]),
        python_stack=manifest.launch.python_stack,
        sources=texts_of(reproducer),
        configuration=dict(_configuration(manifest)),
        ones=frozenset(_ones(manifest) - {one.source_name for one in function.arguments}),
        target=target or target_of(manifest.device),
        triton=manifest.platform.packages.get("triton", ""),
    )


def target_of(device: schema.Device) -> str:
    """What the launch was compiled for, ``cuda:90`` for one on the CPU."""
    arch = device.arch or ""
    if device.kind == "cuda" and (found := re.fullmatch(r"sm_([0-9]+)[a-z]?", arch)):
        return f"cuda:{found[1]}"
    return f"hip:{arch.partition(':')[0]}" if device.kind == "hip" and arch else "cuda:90"


def ttir_of(reproducer: Reproducer) -> str:
    """The TTIR in the reproducer. Raises NoTtir."""
    data = reproducer.code("ttir")
    if data is not None:
        return data.decode("utf-8", errors="replace")
    language = reproducer.manifest.kernel.language
    if language != "triton":
        raise NoTtir(f"it is a {language} kernel; the sanitizer reads Triton's TTIR")
    raise NoTtir("it was captured without compiled code, under Triton's interpreter")


def notes_of(manifest: schema.Manifest) -> tuple[str, ...]:
    """What limits the answer: a tensor whose own storage nobody knew, in a region that is an allocation."""
    if manifest.closure.consistency != "gated":
        return ()  # the hook alone copies storages, nothing around them
    unknown = [view.name for view in manifest.views if view.storage is None and 0 not in view.shape]
    if not unknown:
        return ()
    shown = ", ".join(unknown[:4]) + (", …" if len(unknown) > 4 else "")
    return (f"the storage of {shown} is not known: bounds are those of the allocation around it",)


class ManifestMemory:
    """Storages of a launch: those of its tensors, and what is left of the regions around them.

    Ranges that share bytes are one storage, for a byte must not be two things.
    """

    def __init__(self, manifest: schema.Manifest) -> None:
        self._manifest = manifest
        regions = manifest.regions
        self._order = sorted(range(len(regions)), key=lambda number: regions[number].base)
        self._bases = [regions[number].base for number in self._order]
        # Up to each region in that order, the end of the one that reaches farthest.
        ends = (regions[number].base + regions[number].size for number in self._order)
        self._reach = list(accumulate(ends, max))
        ranges = _union(self._ranges())
        self._starts = [low for low, _ in ranges]
        # A tensor of no elements has a storage of its own, in which nothing may be touched.
        empty = sorted({one for one in map(self._range_of, manifest.views) if one[0] == one[1]})
        self._empty = {low: len(ranges) + number for number, (low, _) in enumerate(empty)}
        names = self._names()
        self.storages = tuple(
            Storage(low, high - low, *self._allocation(low, high), names.get(number, ""))
            for number, (low, high) in enumerate([*ranges, *empty])
        )
        self.pieces = [list(self._pieces_of(one)) for one in self.storages]

    def index(self, view: schema.View) -> int:
        """The storage that a view lies in."""
        low, high = self._range_of(view)
        return self._at(low) if low < high else self._empty[low]

    def _at(self, address: int) -> int:
        return max(0, bisect_right(self._starts, address) - 1)

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Addresses: the tensors' storages, then what they leave of the regions."""
        storages = {self._range_of(view) for view in self._manifest.views}
        yield from storages
        taken = _union(storages)
        ends = [high for _, high in taken]
        for base, end in _union(
            (region.base, region.base + region.size) for region in self._manifest.regions
        ):
            at, number = base, bisect_right(ends, base)
            while number < len(taken) and taken[number][0] < end:
                if at < taken[number][0]:
                    yield at, taken[number][0]
                at, number = taken[number][1], number + 1
            if at < end:
                yield at, end

    def _range_of(self, view: schema.View) -> tuple[int, int]:
        region = self._manifest.regions[view.region]
        if view.storage is None:
            return region.base, region.base + region.size
        offset, size = view.storage
        return region.base + offset, region.base + offset + size

    def _names(self) -> dict[int, str]:
        """Of the first argument in a storage, or of the module's global that it is."""
        names: dict[int, str] = {}
        for view in self._manifest.views:
            names.setdefault(self.index(view), view.name)
        for region in self._manifest.regions:
            if region.name and region.size:
                names.setdefault(self._at(region.base), region.name)
        return names

    def _allocation(self, low: int, high: int) -> tuple[int, int]:
        """The region around a storage."""
        for number in self._regions_at(low, high):
            region = self._manifest.regions[number]
            if region.base <= low and high <= region.base + region.size:
                return region.base, region.size
        return low, high - low

    def _pieces_of(self, storage: Storage) -> Iterator[_Piece]:
        low, high = storage.address, storage.address + storage.size_bytes
        for number in self._regions_at(low, high):
            region = self._manifest.regions[number]
            first, end = max(low, region.base), min(high, region.base + region.size)
            if first < end:
                yield _Piece(number, first - region.base, first - low, end - first)

    def _regions_at(self, low: int, high: int) -> Iterator[int]:
        """Regions that may share bytes with [low, high), which may be empty."""
        at = bisect_right(self._bases, max(low, high - 1))
        while at and self._reach[at - 1] >= low:
            at -= 1
            yield self._order[at]


def _union(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Disjoint ranges in order; those that share bytes are one, empty ones none."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        elif low < high:
            found.append((low, high))
    return found


def named_arguments(manifest: schema.Manifest, memory: ManifestMemory) -> Iterator[tuple[str, Argument]]:
    for argument in manifest.arguments:
        if argument.role != "constexpr":
            yield from _flattened(manifest, memory, argument.name, argument.value)


def _flattened(
    manifest: schema.Manifest, memory: ManifestMemory, name: str, value: schema.Value
) -> Iterator[tuple[str, Argument]]:
    """One Python argument; a tuple gives one for each of its elements, ``None`` and functions none."""
    if isinstance(value, schema.SequenceValue):
        labels = value.fields or tuple(str(index) for index in range(len(value.items)))
        for label, item in zip(labels, value.items, strict=True):
            yield from _flattened(manifest, memory, f"{name}.{label}", item)
    elif isinstance(value, schema.TensorValue):
        yield name, _tensor(manifest, memory, name, value.view)
    elif isinstance(value, schema.DescriptorValue):
        tensor = _tensor(manifest, memory, name, value.view)
        yield (
            name,
            DescriptorArgument(name, tensor, value.shape, value.strides, value.block_shape, value.padding),
        )
    elif isinstance(value, schema.PointerValue):
        yield name, PointerArgument(name, value.address)
    elif isinstance(value, schema.BoolValue):
        yield name, ScalarArgument(name, value.value)
    elif isinstance(value, schema.IntValue):
        yield name, ScalarArgument(name, int(value.value))
    elif isinstance(value, schema.FloatValue):
        yield name, ScalarArgument(name, float.fromhex(value.value))


def _tensor(manifest: schema.Manifest, memory: ManifestMemory, name: str, index: int) -> TensorArgument:
    view = manifest.views[index]
    address = manifest.regions[view.region].base + view.offset
    return TensorArgument(
        name, memory.index(view), address, view.dtype, view.itemsize, view.shape, view.strides
    )


_SCALARS = (schema.BoolValue, schema.IntValue, schema.FloatValue, schema.StrValue)


def _ones(manifest: schema.Manifest) -> set[str]:
    runtime = (one for one in manifest.arguments if one.role == "runtime")
    return {
        one.name for one in runtime if isinstance(one.value, schema.IntValue) and int(one.value.value) == 1
    }


def _configuration(manifest: schema.Manifest) -> Iterator[tuple[str, str]]:
    for argument in manifest.arguments:
        value = argument.value
        if argument.role == "constexpr" and isinstance(value, _SCALARS):
            yield argument.name, str(value.value)
    for name, option in manifest.launch.options.items():
        if isinstance(option, _SCALARS):
            yield name, str(option.value)
